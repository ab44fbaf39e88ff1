"""Invariants of one partition: what every change that the controller decides must leave true.

They are apart from `registration` because this module is compiled, and one with Structs cannot be.
"""

from statemachine.partitions.registration import NO_STAGE, PartitionRegistration
from statemachine.vocabulary import NO_LEADER, Replicas


def loses_any(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    """Return True if a replica was removed."""
    return after.replicas is not before.replicas and not _within(before.replicas, after.replicas)


def check_invariants(
    partition: PartitionRegistration,
    *,
    min_isr: int = 0,
    before: PartitionRegistration | None = None,
    is_copy: bool = False,
) -> str | None:
    """Return the invariant that the partition breaks, or None.

    `min_isr` may be 0 without an ELR. `before` is the partition before its last change, None if it
    is new. `is_copy`: it differs only in its epochs from a partition that was checked.
    """
    is_still = not (partition.target or partition.adding or partition.removing)
    wrong = None if is_copy else _state_violation(partition, min_isr, is_still)
    if wrong is None and before is not None:
        wrong = _epochs_violation(partition, before, is_still)
    return wrong


def _state_violation(partition: PartitionRegistration, min_isr: int, is_still: bool) -> str | None:
    wrong = _roles_violation(partition)
    if wrong is None and (partition.elr or partition.last_known_elr):
        wrong = _elr_violation(partition, min_isr)
    # Most changes are of an ISR alone, and frequent: without a move there is little to check.
    if wrong is None and not (is_still and partition.stage is NO_STAGE and not partition.original):
        wrong = _move_violation(partition)
    return wrong


def _roles_violation(partition: PartitionRegistration) -> str | None:
    replicas, isr = partition.replicas, partition.isr
    members, in_sync = set(replicas), set(isr)
    if not replicas or len(members) != len(replicas):
        return f"replicas {replicas} are empty or repeated"
    if len(in_sync) != len(isr) or not in_sync <= members:
        return f"ISR {isr} is not a part of the replicas {replicas}"
    if partition.leader != NO_LEADER and partition.leader not in isr:
        return f"leader {partition.leader} is not in the ISR {isr}"
    if partition.directories and len(partition.directories) != len(replicas):
        return f"{len(partition.directories)} directories for the replicas {replicas}"
    return None


def _elr_violation(partition: PartitionRegistration, min_isr: int) -> str | None:
    elr, known = partition.elr, partition.last_known_elr
    replicas, isr = partition.replicas, partition.isr
    if len(set(elr)) != len(elr) or not set(elr) <= set(replicas) - set(isr):
        return f"ELR {elr} overlaps the ISR {isr} or leaves the replicas {replicas}"
    if elr and 0 < min_isr <= len(isr):
        return f"ELR {elr}, though the ISR {isr} is no smaller than min ISR {min_isr}"
    if known and partition.leader != NO_LEADER:
        return f"last known leader {known} though {partition.leader} leads"
    # The last known leader may be eligible too: it left the ISR when no replica could replace it.
    if not set(known) <= set(replicas) - set(isr):
        return f"last known leader {known} is in the ISR {isr} or leaves the replicas {replicas}"
    return None


def _epochs_violation(
    partition: PartitionRegistration, before: PartitionRegistration, is_still: bool
) -> str | None:
    if partition.partition_epoch != before.partition_epoch + 1:
        return f"partition epoch {partition.partition_epoch} after {before.partition_epoch}"
    risen = partition.leader_epoch - before.leader_epoch
    leads_anew = partition.leader != before.leader
    ends_step: bool | None = False
    was_still = not (before.target or before.adding or before.removing)
    if not (is_still and was_still and partition.replicas is before.replicas):
        leads_anew = leads_anew or loses_any(before, partition)
        ends_step = _ends_step(partition, before, is_still)
    least = leads_anew or ends_step is True
    if least <= risen <= (leads_anew or ends_step is not False):
        return None
    epochs = f"leader epoch {partition.leader_epoch} after {before.leader_epoch}"
    return f"{epochs}, leader {partition.leader} after {before.leader}"


def _ends_step(
    partition: PartitionRegistration, before: PartitionRegistration, is_still: bool
) -> bool | None:
    """Return True if the change ends a step, which begins a leader epoch; None if it may."""
    if partition.adding or partition.removing:
        # It grows, or catches up.
        return False
    if before.adding or before.removing or (is_still and before.target):
        # A new target may have removed the adding replicas, and leave nothing under way.
        return True if is_still or partition.target == before.target else None
    return partition.replicas is not before.replicas and partition.replicas != before.replicas


def _move_violation(partition: PartitionRegistration) -> str | None:
    if not partition.target and partition.stage != NO_STAGE:
        return f"{partition.stage} without a target"
    if not partition.moving:
        return f"original {partition.original} of no move" if partition.original else None
    adding, removing, replicas = partition.adding, partition.removing, partition.replicas
    if not _within(adding, replicas) or not _within(removing, replicas):
        return f"adding {adding} or removing {removing} leaves the replicas {replicas}"
    if len(set(adding + removing)) != len(adding) + len(removing):
        return f"adding {adding} and removing {removing} overlap"
    if len(set(partition.target)) != len(partition.target):
        return f"target {partition.target} is repeated"
    if partition.target and (
        not _within(adding, partition.target) or set(removing) & set(partition.target)
    ):
        return f"target {partition.target} against adding {adding}, removing {removing}"
    return None


def _within(part: Replicas, whole: Replicas) -> bool:
    return set(part).issubset(whole)

"""The target of one partition: begin a reassignment, redirect it, or cancel it.

Seed 4: a partition first grows to the union of its replicas and the target, catches up, and then
shrinks to the target in one change (`completion`). A change that needs no new replica may complete
at once. A cancel restores the earlier replicas.
"""

from collections import Counter
from collections.abc import Collection

from msgspec.structs import replace

from statemachine.brokers.lifecycle import cordon_refusal
from statemachine.configs.effective import min_isr, unclean_election_allowed
from statemachine.errors import Error, Refusal, listed
from statemachine.image.partition_table import Topic
from statemachine.partitions.change_builder import change_partition
from statemachine.partitions.leader_election import Election
from statemachine.partitions.registration import NO_STAGE, PartitionRegistration, Stage, with_base
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.settings import limits
from statemachine.vocabulary import BrokerId, MoveId, Replicas


def direct(
    pending: PendingDecision,
    topic: Topic,
    number: int,
    partition: PartitionRegistration,
    target: Replicas,
    move_id: MoveId,
) -> PartitionRegistration | Refusal:
    """Start reassigning the partition to `target`, which is new to it, as part of this move."""
    newcomers = tuple([each for each in target if each not in partition.replicas])
    refusal = assignment_refusal(target, pending.image.brokers)
    refusal = refusal or cordon_refusal(pending.image, newcomers)
    if refusal is not None:
        return refusal
    # Without limits and without a pause of all moves the step begins at once.
    if pending.all_paused is None and limits(pending).is_unlimited:
        desired = grown(partition, target, Stage(move_id, 1, pending.now_ms))
    else:
        desired = attached(partition, target, Stage(move_id, 0, pending.now_ms))
    return change_partition(pending, topic, number, desired)


def staying(partition: PartitionRegistration, target: Replicas) -> Replicas:
    """Return the replicas that stay for now under a new target, in their order.

    A replica that was only added for the old target goes at once, unless it is in the ISR, the ELR
    or the last known ELR (KIP-966): it may hold the only copy of some records.
    """
    needed = {*target, *partition.isr, *partition.elr, *partition.last_known_elr}
    return tuple(
        replica
        for replica in partition.replicas
        if replica in needed or replica not in partition.adding
    )


def attached(
    partition: PartitionRegistration, target: Replicas, stage: Stage
) -> PartitionRegistration:
    """Return the partition with this target, waiting in the queue for its next step.

    A step under way keeps the replicas that the new target or the ISR needs.
    """
    kept = staying(partition, target)
    adding = tuple(replica for replica in partition.adding if replica in target)
    removing = tuple(replica for replica in partition.removing if replica not in target)
    before = partition.base
    at_least = min(len(before), len(target))
    # A step that adds nothing removes nothing.
    removing = removing[: max(0, len(kept) - at_least)] if adding else ()
    return replace(
        partition,
        replicas=kept,
        adding=adding,
        removing=removing,
        target=target,
        original=before,
        stage=replace(stage, step=1, base=before) if adding else with_base(stage, kept, before),
    )


def grown(
    partition: PartitionRegistration, target: Replicas, stage: Stage
) -> PartitionRegistration:
    """Return the partition in one step to `target`, with the union of both sets of replicas.

    Some replicas that an earlier move was adding may stay until completion (`staying`). A cancel
    restores `base` without them; the stage stores it if it no longer follows from the replicas.
    """
    kept = staying(partition, target)
    added = tuple(replica for replica in target if replica not in kept)
    after = replace(
        partition,
        replicas=kept + added,
        adding=tuple(r for r in target if r in added or r in partition.adding),
        removing=tuple(replica for replica in kept if replica not in target),
        target=target,
        original=partition.base,
        stage=stage,
    )
    return replace(after, stage=with_base(stage, after.base, partition.base))


def reverted(partition: PartitionRegistration) -> PartitionRegistration:
    """Return the partition before the step under way: without the replicas that the step added."""
    kept = partition.base
    return replace(
        partition,
        replicas=kept,
        isr=tuple(replica for replica in partition.isr if replica in kept),
        adding=(),
        removing=(),
        target=(),
        original=(),
        stage=NO_STAGE,
    )


def cancel(pending: PendingDecision, topic: Topic, number: int) -> PartitionRegistration | Refusal:
    """Revert the step under way and drop the later ones."""
    partition = pending.partition(topic, number)
    assert partition is not None, f"{topic.name}-{number} is cancelled before it exists"
    if not partition.moving:
        return Refusal(
            Error.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{number} is not being reassigned"
        )
    desired = reverted(partition)
    unclean = unclean_election_allowed(pending.image, topic.name)
    if partition.adding or partition.removing or desired.replicas != partition.replicas:
        refusal = _revert_refusal(pending, topic, desired, unclean=unclean)
        if refusal is not None:
            return refusal
    election = Election.UNCLEAN if unclean else Election.ONLINE
    return change_partition(pending, topic, number, desired, election=election, finished=True)


def _revert_refusal(
    pending: PendingDecision, topic: Topic, desired: PartitionRegistration, *, unclean: bool
) -> Refusal | None:
    """Return the reason why the step under way cannot be reverted, or None.

    A redirected step may add and remove no replicas any more, and still revert to fewer.
    """
    needed = min_isr(pending, topic.name, desired)
    if len(desired.isr) < needed and not unclean:
        lacking = [replica for replica in desired.replicas if replica not in desired.isr]
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"going back to {listed(desired.replicas)} would leave {len(desired.isr)} in sync"
            f" where {needed} must be (not in sync: {listed(lacking)}),"
            " and unclean leader election is off",
        )
    if not desired.isr and not any(pending.live(replica) for replica in desired.replicas):
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"none of {listed(desired.replicas)} is in sync or alive, so nobody could lead",
        )
    return None


def assignment_refusal(
    replicas: Replicas, brokers: Collection[BrokerId], *, where: str = ""
) -> Refusal | None:
    """Return the reason to refuse these replicas, or None; `where` is a prefix of the message."""
    if not replicas:
        reason = f"{where}the replica list is empty; name at least one broker"
    elif negative := [replica for replica in replicas if replica < 0]:
        reason = f"{where}broker ids are not negative: {listed(negative)}"
    elif repeated := sorted(each for each, count in Counter(replicas).items() if count > 1):
        reason = (
            f"{where}the replica list {listed(replicas)} names more than once: {listed(repeated)}"
        )
    elif unknown := [replica for replica in replicas if replica not in brokers]:
        reason = (
            f"The manual partition assignment includes broker {listed(unknown)}, but no such"
            " broker is registered."
        )
    else:
        return None
    return Refusal(Error.INVALID_REPLICA_ASSIGNMENT, reason)

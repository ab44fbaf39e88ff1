"""Eligible leader replicas (KIP-966): who may lead without loss though nobody is in sync.

While fewer than min ISR are in sync, nothing is acknowledged (acks=all): whoever leaves the ISR
then still has everything that ever was, and is eligible, until it starts again without having
stopped cleanly. With the ELR the ISR may become empty. When the ELR is empty too, the last known
leader is remembered in its place. Rules as in `PartitionChangeBuilder` of Kafka, but that members
which are no replicas any more leave, and that it empties at once when enough are in sync. Nothing
here records anything.
"""

from collections.abc import Collection

from msgspec.structs import replace

from statemachine.partition import Partition
from statemachine.vocabulary import NO_LEADER, BrokerId, Replicas


def with_elr(
    before: Partition, wish: Partition, *, min_isr: int, unclean: Collection[BrokerId] = ()
) -> Partition:
    """The wish with its ELR, for an election to choose from.

    `unclean` are replicas that may have lost what they had: they are eligible no more.
    """
    if len(wish.isr) >= min_isr:
        return wish if not wish.elr else replace(wish, elr=())
    candidates = wish.elr + tuple(replica for replica in before.isr if replica not in wish.elr)
    elr = tuple(
        replica
        for replica in candidates
        if replica in wish.replicas and replica not in wish.isr and replica not in unclean
    )
    return wish if elr == wish.elr else replace(wish, elr=elr)


def led_by(partition: Partition, leader: BrokerId, *, min_isr: int) -> Partition:
    """The partition once `leader`, which may come from its ELR, leads it."""
    if leader not in partition.elr:
        return partition
    others = tuple(replica for replica in partition.elr if replica != leader)
    return replace(partition, isr=(leader,), elr=others if min_isr > 1 else ())


def last_known_leader(before: Partition, after: Partition, leader: BrokerId) -> Replicas:
    """Who led last, for a partition that nobody leads and that has an empty ISR; else nothing."""
    if leader != NO_LEADER:
        return ()
    known = before.last_known_elr
    if not after.isr:
        if before.leader != NO_LEADER:
            known = (before.leader,)
        elif not known:
            # From a time without this feature: the last one in sync is who led last.
            known = before.isr[:1]
    return tuple(replica for replica in known if replica in after.replicas)

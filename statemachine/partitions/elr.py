"""Eligible leader replicas (KIP-966): replicas that may lead without loss though none is in sync.

While fewer than min ISR are in sync, nothing is acknowledged (acks=all). A replica that leaves the
ISR then still has all acknowledged data, and is eligible until it restarts after an unclean stop.
With the ELR the ISR may become empty; when the ELR is empty too, the last known leader is kept. The
rules are those of Kafka's `PartitionChangeBuilder`, but removed replicas leave the ELR, and it
empties as soon as enough replicas are in sync.

ClearElr clears the ELR when a min ISR changes or the feature is switched, since the ELR holds only
under the min ISR it was made with. A partition with an empty ISR keeps its ELR: it acknowledges
nothing, and no other replica could ever lead it without loss. Kafka's controller clears it too.

"""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.configs.effective import DEFAULTS, min_isr
from statemachine.image.image import Image
from statemachine.image.partition_table import NO_KEY, Topic
from statemachine.partitions.registration import PartitionRegistration, check_invariants, merged
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records
from statemachine.vocabulary import NO_LEADER, TOPIC_RESOURCE, BrokerId, Replicas, Resource


def with_elr(
    before: PartitionRegistration,
    desired: PartitionRegistration,
    *,
    min_isr: int,
    unclean: Collection[BrokerId] = (),
) -> PartitionRegistration:
    """The desired with its ELR, for an election to choose from.

    `unclean` are replicas that may have lost what they had: they are eligible no more.
    """
    if len(desired.isr) >= min_isr:
        return desired if not desired.elr else replace(desired, elr=())
    candidates = desired.elr + tuple(
        replica for replica in before.isr if replica not in desired.elr
    )
    elr = tuple(
        replica
        for replica in candidates
        if replica in desired.replicas and replica not in desired.isr and replica not in unclean
    )
    return desired if elr == desired.elr else replace(desired, elr=elr)


def led_by(
    partition: PartitionRegistration, leader: BrokerId, *, min_isr: int
) -> PartitionRegistration:
    """The partition once `leader`, which may come from its ELR, leads it."""
    if leader not in partition.elr:
        return partition
    others = tuple(replica for replica in partition.elr if replica != leader)
    return replace(partition, isr=(leader,), elr=others if min_isr > 1 else ())


def last_known_leader(
    before: PartitionRegistration, after: PartitionRegistration, leader: BrokerId
) -> Replicas:
    """Return the last known leader of a partition without leader and ISR; otherwise nothing."""
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


def clear_all_elr(pending: PendingDecision) -> None:
    """Clear the ELR of every partition, if any has one."""
    if any(pending.image.index.elr_of.values()):
        clear_elr(pending, [DEFAULTS])


def clear_elr(pending: PendingDecision, resources: Sequence[Resource]) -> None:
    """Clear the ELR of what the configurations of these resources are for."""
    for kind, name in resources:
        topic_name = name if kind == TOPIC_RESOURCE else ""
        pending.records.append(kafka_records.ClearElr(topic_name=topic_name))
    leaderless = pending.image.index.leader_of.get(NO_LEADER, BitMap())
    for topic, number in affected_partitions(pending.image, resources, leaderless):
        partition = pending.partition(topic, number)
        assert partition is not None
        if not partition.isr and (partition.elr or partition.last_known_elr):
            kept = kafka_records.PartitionChange(
                partition_id=number,
                topic_id=topic.topic_id,
                elr=partition.elr,
                last_known_elr=partition.last_known_elr,
            )
            needed = min_isr(pending, topic.name, partition)
            wrong = check_invariants(merged(partition, kept), min_isr=needed, before=partition)
            assert wrong is None, f"{topic.name}-{number}: {wrong}"
            pending.records.append(kept)


def affected_partitions(
    image: Image, resources: Sequence[Resource], keys: BitMap
) -> Iterator[tuple[Topic, int]]:
    """The partitions of `keys` that the configurations of these resources are for."""
    if DEFAULTS in resources:
        yield from image.index.partitions(keys)
        return
    for kind, name in resources:
        topic = image.topic_named(name) if kind == TOPIC_RESOURCE else None
        if topic is not None:
            of_topic = BitMap([key for key in topic.keys if key != NO_KEY])
            yield from image.index.partitions(keys & of_topic)

"""Eligible leader replicas (KIP-966): replicas that may lead without loss when none is in sync.

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

from statemachine.configs.effective import DEFAULTS
from statemachine.image.image import Image
from statemachine.image.partition_table import NO_KEY, Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import NO_LEADER, TOPIC_RESOURCE, BrokerId, Replicas, Resource


def with_elr(
    before: PartitionRegistration,
    desired: PartitionRegistration,
    *,
    min_isr: int,
    unclean: Collection[BrokerId] = (),
) -> PartitionRegistration:
    """Return the desired partition with its ELR, for an election to choose from.

    `unclean` replicas may have lost data, and are no longer eligible.
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
    """Return the partition with this leader in its ISR; the leader may come from the ELR."""
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
            # From a time without this feature: the last member of the ISR led last.
            known = before.isr[:1]
    return tuple(replica for replica in known if replica in after.replicas)


def affected_partitions(
    image: Image, resources: Sequence[Resource], keys: BitMap
) -> Iterator[tuple[Topic, int]]:
    """Yield the partitions of `keys` that the configurations of these resources apply to."""
    if DEFAULTS in resources:
        yield from image.index.partitions(keys)
        return
    for kind, name in resources:
        topic = image.topic_named(name) if kind == TOPIC_RESOURCE else None
        if topic is not None:
            of_topic = BitMap([key for key in topic.keys if key != NO_KEY])
            yield from image.index.partitions(keys & of_topic)

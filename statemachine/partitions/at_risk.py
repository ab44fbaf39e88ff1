"""Partitions at risk: those without a leader, and those with fewer in sync than min ISR."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from pyroaring import BitMap

from statemachine.configs.effective import min_isr
from statemachine.image.image import Image
from statemachine.image.partition_index import in_order
from statemachine.limits import AT_RISK_LOOKED_AT_MAX, AT_RISK_SHOWN_MAX
from statemachine.slices import LOOKED_AT_US, Slices
from statemachine.vocabulary import NO_LEADER, Replicas


class Risk(StrEnum):
    """The reasons why a partition is at risk; the first that applies is given."""

    NO_LEADER = "no-leader"
    UNDER_MIN_ISR = "under-min-isr"


class PartitionAtRisk(Struct, frozen=True, kw_only=True, gc=False):
    """A partition that takes no records, or only those that need no acknowledgement of all."""

    topic: str
    partition: int
    risk: Risk
    replicas: Replicas
    in_sync: Replicas
    min_isr: int


class PartitionHealth(Struct, frozen=True, kw_only=True):
    """The numbers of partitions by what is wrong with them, and the first ones at risk."""

    partitions: int
    under_replicated: Annotated[int, Meta(description="Fewer replicas in sync than there are")]
    without_leader: int
    under_min_isr: Annotated[int, Meta(description="With a leader; of those looked at")]
    not_looked_at: Annotated[
        int, Meta(description="Under-replicated partitions that were not compared with min ISR")
    ]
    at_risk: Annotated[
        tuple[PartitionAtRisk, ...], Meta(description="The first ones, those without leader first")
    ]


def under_replicated(image: Image) -> BitMap:
    """Return the keys of the partitions with a replica that is not in sync."""
    index = image.index
    lagging = [
        keys - index.isr_of[broker_id] if broker_id in index.isr_of else keys
        for broker_id, keys in index.replicas_of.items()
    ]
    return BitMap.union(BitMap(), *lagging)


def partition_health(image: Image) -> Slices[PartitionHealth]:
    """Return the partitions at risk; `image` must not change until the last slice."""
    index = image.index
    leaderless = index.leader_of.get(NO_LEADER, BitMap())
    lagging = under_replicated(image)
    led = lagging - leaderless
    shown: list[PartitionAtRisk] = []
    under = 0
    for keys in (leaderless[:AT_RISK_SHOWN_MAX], led[:AT_RISK_LOOKED_AT_MAX]):
        for topic, number in in_order(index, keys):
            # A scan must not evict partitions from the cache of rows.
            partition = topic.partitions.peek(number)
            assert partition is not None
            needed = min_isr(image, topic.name, partition)
            has_leader = partition.leader != NO_LEADER
            under += has_leader and len(partition.isr) < needed
            if (not has_leader or len(partition.isr) < needed) and len(shown) < AT_RISK_SHOWN_MAX:
                shown.append(
                    PartitionAtRisk(
                        topic=topic.name,
                        partition=number,
                        risk=Risk.UNDER_MIN_ISR if has_leader else Risk.NO_LEADER,
                        replicas=partition.replicas,
                        in_sync=partition.isr,
                        min_isr=needed,
                    )
                )
            yield LOOKED_AT_US
    return PartitionHealth(
        # Each partition has one leader, or none, which is indexed as well.
        partitions=sum(map(len, index.leader_of.values())),
        under_replicated=len(lagging),
        without_leader=len(leaderless),
        under_min_isr=under,
        not_looked_at=max(0, len(led) - AT_RISK_LOOKED_AT_MAX),
        at_risk=tuple(shown),
    )

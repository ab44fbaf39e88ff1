"""Safe to stop: the partitions that lose something if brokers stop.

A partition is unsafe if one of the brokers is in its ISR, and it would have no leader or an ISR
smaller than min ISR. Brokers that return later and unclean elections do not count, and neither do
brokers that have fallen silent, which may be dead.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from statemachine.configs.effective import min_isr
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.image.partition_index import in_order
from statemachine.limits import STOPPING_PARTITIONS_MAX, UNSAFE_PARTITIONS_SHOWN_MAX
from statemachine.slices import LOOKED_AT_US, Slices
from statemachine.vocabulary import BrokerId, Replicas


class Harm(StrEnum):
    """The effect of a stop on one partition."""

    NO_LEADER = "no-leader"
    UNDER_MIN_ISR = "under-min-isr"


class UnsafePartition(Struct, frozen=True, kw_only=True, gc=False):
    """A partition that would lose availability or safety."""

    topic: str
    partition: int
    harm: Harm
    in_sync: Annotated[Replicas, Meta(description="Replicas that would be in sync and alive")]
    min_isr: int


class SafetyCheck(Struct, frozen=True, kw_only=True):
    """The unsafe partitions if the brokers stop together."""

    unsafe: tuple[UnsafePartition, ...]
    """The first unsafe partitions, in order of topic and number."""
    unsafe_count: int
    """The brokers may stop if this is 0."""
    looked_at: int
    """The number of partitions that any of the brokers is in sync for."""
    silent: tuple[BrokerId, ...] = ()
    """The silent brokers in sync for unsafe partitions."""


def check_safety(
    image: Image, broker_ids: Collection[BrokerId], silent: Collection[BrokerId] = frozenset()
) -> Slices[SafetyCheck | Refusal]:
    """Return the unsafe partitions if all of these brokers stop now, or a refusal.

    The `silent` brokers are not fenced yet, but have missed heartbeats. Unknown brokers have no
    effect. `image` must not change until the last slice.
    """
    index = image.index
    stopping = frozenset(broker_ids)
    keys = index.of_any(index.isr_of, tuple(sorted(stopping)))
    if len(keys) > STOPPING_PARTITIONS_MAX:
        return _too_many(len(keys))
    live = {broker.broker_id for broker in image.brokers.values() if broker.live} - stopping
    doubtful = live & frozenset(silent)
    live -= doubtful
    missed: set[BrokerId] = set()
    shown = []
    count = 0
    for topic, number in (yield from in_order(index, keys)):
        # A scan must not evict partitions from the cache of rows.
        partition = topic.partitions.peek(number)
        assert partition is not None
        left = tuple([replica for replica in partition.isr if replica in live])
        needed = min_isr(image, topic.name, partition)
        if len(left) < needed:
            count += 1
            missed |= doubtful.intersection(partition.isr)
            if count <= UNSAFE_PARTITIONS_SHOWN_MAX:
                shown.append(_unsafe(topic.name, number, left, needed))
        yield LOOKED_AT_US
    return SafetyCheck(
        unsafe=tuple(shown),
        unsafe_count=count,
        looked_at=len(keys),
        silent=tuple(sorted(missed)),
    )


def _unsafe(topic: str, number: int, left: Replicas, needed: int) -> UnsafePartition:
    harm = Harm.UNDER_MIN_ISR if left else Harm.NO_LEADER
    return UnsafePartition(topic=topic, partition=number, harm=harm, in_sync=left, min_isr=needed)


def _too_many(count: int) -> Refusal:
    return Refusal(
        Error.INVALID_REQUEST,
        f"the brokers are in sync for {count} partitions, and at most"
        f" {STOPPING_PARTITIONS_MAX} can be checked at once; ask for fewer brokers at a time",
    )

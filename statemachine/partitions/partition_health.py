"""The partitions of an image that are not as they should be, counted without a walk over all.

The bitmaps of the index give those that lack a replica in the ISR; only these are looked at, in
slices.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from pyroaring import BitMap

from statemachine.configs.effective import min_isr
from statemachine.image.image import Image
from statemachine.image.partition_index import PartitionIndex
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.copies import CopyLookup, no_report
from statemachine.reassignment.progress import progress_of
from statemachine.reassignment.step import Reason
from statemachine.slices import LOOKED_AT_US, PLANNED_US, Slices
from statemachine.vocabulary import NO_LEADER, NO_MOVE, MoveId

STALLING: Final = frozenset(
    {Reason.NO_LEADER, Reason.NO_LIVE_TARGET, Reason.NOT_REGISTERED, Reason.FALLING_BEHIND}
)
"""The reasons of a step under way that do not pass by themselves."""
MOVES_SHOWN_MAX: Final = 100


class PartitionHealth(Struct, frozen=True, kw_only=True):
    """Numbers of partitions."""

    under_replicated: int = 0
    """Some replica is not in the ISR; one that is being added does not count, as in Kafka."""
    under_min_isr: int = 0
    """The ISR is smaller than `min.insync.replicas`: producers with acks=all are refused."""
    without_leader: int = 0
    stalled: int = 0
    """Moving partitions whose step goes on only after somebody has acted."""
    stalled_moves: tuple[MoveId, ...] = ()
    """The first moves that have such partitions."""


def under_replicated(index: PartitionIndex) -> BitMap:
    """Return the partitions with a replica outside of the ISR.

    The ISR is a part of the replicas. So where a broker has as many partitions in sync as it has
    replicas, they are the same ones, and two lengths tell it.
    """
    lacking = [
        held - in_sync
        for broker_id, held in index.replicas_of.items()
        if len(held) != len(in_sync := index.isr_of.get(broker_id, _NONE))
    ]
    return BitMap.union(BitMap(), *lacking)


_NONE: Final = BitMap()


def partition_health(image: Image, report_of: CopyLookup = no_report) -> Slices[PartitionHealth]:
    """Count the partitions. `image` must not change until the last slice."""
    index = image.index
    lacking = under_replicated(index)
    under_min_isr = yield from _count(image, lacking, _is_under_min_isr)
    stepping = yield from _count(image, lacking & index.stepping, _lacks_settled)
    stalled, moves = yield from _count_stalled(image, report_of)
    return PartitionHealth(
        under_replicated=len(lacking - index.stepping) + stepping,
        under_min_isr=under_min_isr,
        without_leader=index.count(index.leader_of, NO_LEADER),
        stalled=stalled,
        stalled_moves=tuple(sorted(moves)[:MOVES_SHOWN_MAX]),
    )


_Rule = Callable[[Image, Topic, PartitionRegistration], bool]


def _is_under_min_isr(image: Image, topic: Topic, partition: PartitionRegistration) -> bool:
    return len(partition.isr) < min_isr(image, topic.name, partition)


def _lacks_settled(image: Image, topic: Topic, partition: PartitionRegistration) -> bool:
    """Return True if a replica is not in the ISR besides those that are being added."""
    return len(partition.isr) < len(partition.replicas) - len(partition.adding)


def _count(image: Image, keys: BitMap, rule: _Rule) -> Slices[int]:
    count = 0
    for key in keys:
        found = image.index.at(key)
        assert found is not None, "a key is in a bitmap, but no partition has it"
        topic, number = found
        # A scan must not evict partitions from the cache of rows.
        partition = topic.partitions.peek(number)
        assert partition is not None
        count += rule(image, topic, partition)
        yield PLANNED_US
    return count


def _count_stalled(image: Image, report_of: CopyLookup) -> Slices[tuple[int, set[MoveId]]]:
    """Look at the steps under way, which the limits of reassignments bound."""
    count, moves = 0, set[MoveId]()
    for key in image.index.stepping:
        found = image.index.at(key)
        assert found is not None, "a key is in a bitmap, but no partition has it"
        topic, number = found
        progress = progress_of(image, topic, number, report_of)
        partition = topic.partition(number)
        assert partition is not None
        if progress is not None and progress.reason in STALLING:
            count += 1
            moves.add(partition.stage.move)
        yield LOOKED_AT_US
    return count, moves - {NO_MOVE}

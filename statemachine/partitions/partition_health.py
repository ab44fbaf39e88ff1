"""The partitions of an image that are not as they should be, counted without a walk over all.

The bitmaps of the index give those that lack a replica in the ISR; only these are looked at, in
slices.
"""

from collections.abc import Callable, Collection
from enum import StrEnum
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
from statemachine.slices import LOOKED_AT_US, PLANNED_US, UNITED_US, Slices
from statemachine.vocabulary import NO_LEADER, NO_MOVE, MoveId

STALLING: Final = frozenset(
    {Reason.NO_LEADER, Reason.NO_LIVE_TARGET, Reason.NOT_REGISTERED, Reason.FALLING_BEHIND}
)
"""The reasons of a step under way that do not pass by themselves."""
MOVES_SHOWN_MAX: Final = 100


class PartitionState(StrEnum):
    """The states of a partition that need attention; it may be in several."""

    WITHOUT_LEADER = "without-leader"
    UNDER_MIN_ISR = "under-min-isr"
    """The ISR is smaller than `min.insync.replicas`: producers with acks=all are refused."""
    UNDER_REPLICATED = "under-replicated"
    """Some replica is not in the ISR; one that is being added does not count, as in Kafka."""
    REASSIGNING = "reassigning"


class PartitionHealth(Struct, frozen=True, kw_only=True):
    """Numbers of partitions."""

    under_replicated: int = 0
    under_min_isr: int = 0
    without_leader: int = 0
    stalled: int = 0
    """Moving partitions whose step goes on only after somebody has acted."""
    stalled_moves: tuple[MoveId, ...] = ()
    """The first moves that have such partitions."""


def under_replicated(index: PartitionIndex) -> Slices[BitMap]:
    """Return the partitions with a replica outside of the ISR.

    The ISR is a part of the replicas. So where a broker has as many partitions in sync as it has
    replicas, they are the same ones, and two lengths tell it.
    """
    found = BitMap()
    for broker_id, held in index.replicas_of.items():
        in_sync = index.isr_of.get(broker_id, _NONE)
        if len(held) != len(in_sync):
            found |= held - in_sync
        yield UNITED_US
    return found


_NONE: Final = BitMap()


def partition_health(image: Image, report_of: CopyLookup = no_report) -> Slices[PartitionHealth]:
    """Count the partitions. `image` must not change until the last slice."""
    numbers = {}
    for state in (
        PartitionState.WITHOUT_LEADER,
        PartitionState.UNDER_MIN_ISR,
        PartitionState.UNDER_REPLICATED,
    ):
        numbers[state] = len((yield from _in_state(image, state)))
    stalled, moves = yield from _count_stalled(image, report_of)
    return PartitionHealth(
        under_replicated=numbers[PartitionState.UNDER_REPLICATED],
        under_min_isr=numbers[PartitionState.UNDER_MIN_ISR],
        without_leader=numbers[PartitionState.WITHOUT_LEADER],
        stalled=stalled,
        stalled_moves=tuple(sorted(moves)[:MOVES_SHOWN_MAX]),
    )


def in_states(image: Image, states: Collection[PartitionState]) -> Slices[BitMap]:
    """Return the partitions that are in any of these states.

    `image` must not change until the last slice.
    """
    found = BitMap()
    for state in sorted({*states}):
        found |= yield from _in_state(image, state)
    return found


def states_of(
    image: Image, topic: Topic, partition: PartitionRegistration
) -> tuple[PartitionState, ...]:
    """Return the states that a partition is in."""
    has = {
        PartitionState.WITHOUT_LEADER: partition.leader == NO_LEADER,
        PartitionState.UNDER_MIN_ISR: _is_under_min_isr(image, topic, partition),
        PartitionState.UNDER_REPLICATED: _lacks_settled(image, topic, partition),
        PartitionState.REASSIGNING: partition.moving,
    }
    return tuple([state for state, is_in in has.items() if is_in])


def _in_state(image: Image, state: PartitionState) -> Slices[BitMap]:
    index = image.index
    match state:
        case PartitionState.WITHOUT_LEADER:
            return index.leader_of.get(NO_LEADER, _NONE)
        case PartitionState.UNDER_MIN_ISR:
            lacking = yield from under_replicated(index)
            return (yield from _matching(image, lacking, _is_under_min_isr))
        case PartitionState.UNDER_REPLICATED:
            lacking = yield from under_replicated(index)
            stepping = yield from _matching(image, lacking & index.stepping, _lacks_settled)
            return (lacking - index.stepping) | stepping
        case PartitionState.REASSIGNING:
            return index.moving


_Rule = Callable[[Image, Topic, PartitionRegistration], bool]


def _is_under_min_isr(image: Image, topic: Topic, partition: PartitionRegistration) -> bool:
    return len(partition.isr) < min_isr(image, topic.name, partition)


def _lacks_settled(image: Image, topic: Topic, partition: PartitionRegistration) -> bool:
    """Return True if a replica is not in the ISR besides those that are being added."""
    return len(partition.isr) < len(partition.replicas) - len(partition.adding)


def _matching(image: Image, keys: BitMap, rule: _Rule) -> Slices[BitMap]:
    matching = BitMap()
    for key in keys:
        found = image.index.at(key)
        assert found is not None, "a key is in a bitmap, but no partition has it"
        topic, number = found
        # A scan must not evict partitions from the cache of rows.
        partition = topic.partitions.peek(number)
        assert partition is not None
        if rule(image, topic, partition):
            matching.add(key)
        yield PLANNED_US
    return matching


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

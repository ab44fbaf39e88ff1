"""Queries about moves and the reassignments under way. They return frozen values.

Moves are listed while they run, and after their end until they are forgotten.
"""

from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, TypeAlias

from msgspec import Struct
from pyroaring import BitMap

from statemachine.image.image import Image
from statemachine.image.partition_index import first_after, in_order
from statemachine.image.partition_table import Topic
from statemachine.limits import LOST_CONFIGS_SHOWN_MAX
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.move import Move, OwnedKey
from statemachine.reassignment.progress import State, state_of
from statemachine.slices import LOOKED_AT_US, PASSED_US, Slices, sort_in_slices
from statemachine.vocabulary import MoveId

SUMMARY_US: Final = 10
"""The cost of the summary of a move."""


class MoveSummary(Struct, frozen=True, kw_only=True, gc=False):
    """A move with the numbers of its partitions by state."""

    move: Move
    waiting: int
    """Partitions in the move without a step under way."""
    stepping: int
    """Partitions in the move with a step under way."""
    completed: int
    """Partitions that have left the move with their target replicas."""
    lost: tuple[OwnedKey, ...] = ()
    """The first configurations that its throttle had set until users set them."""


def summary_of(image: Image, move_id: MoveId) -> Slices[MoveSummary | None]:
    """Return the summary of this move, or None if it does not exist or is forgotten."""
    if move_id not in image.moves:
        return None
    (found,) = yield from summaries(image, (move_id,))
    return found


def summaries(image: Image, moves: Sequence[MoveId]) -> Slices[tuple[MoveSummary, ...]]:
    """Return the summaries of these listed moves. `image` must not change until the last slice."""
    lost = yield from _lost_by(image, moves)
    found = []
    for move_id in moves:
        found.append(_summary(image, image.moves[move_id], lost))
        yield SUMMARY_US
    return tuple(found)


def recent_moves(image: Image, running_max: int, ended_max: int) -> Slices[list[MoveId]]:
    """Return the first running moves and the last ended ones, in the order in which they began."""
    moves = image.moves.values()
    running = yield from sort_in_slices(each.id if each.ended is None else None for each in moves)
    ended = yield from sort_in_slices(None if each.ended is None else -each.id for each in moves)
    last = [-each for each in islice(ended, ended_max)]
    return sorted([*islice(running, running_max), *last])


def _lost_by(image: Image, moves: Sequence[MoveId]) -> Slices[dict[MoveId, list[OwnedKey]]]:
    """Return the first configurations that these moves have lost to users."""
    found: dict[MoveId, list[OwnedKey]] = {each: [] for each in moves if each in image.owners}
    if not found:
        return found
    for key, owned in image.owned.items():
        for move_id in owned.lost:
            if (lost := found.get(move_id)) is not None:
                insort(lost, key)
                del lost[LOST_CONFIGS_SHOWN_MAX:]
        yield PASSED_US
    return found


def _summary(image: Image, move: Move, lost: Mapping[MoveId, list[OwnedKey]]) -> MoveSummary:
    keys = image.index.keys_of_move(move.id)
    stepping = keys.intersection_cardinality(image.index.stepping)
    return MoveSummary(
        move=move,
        waiting=len(keys) - stepping,
        stepping=stepping,
        completed=move.begun.partitions - len(keys) - move.left.total,
        lost=tuple(lost.get(move.id, ())),
    )


def partitions_of_move(
    image: Image, move_id: MoveId, after: tuple[str, int] | None, count_max: int
) -> Slices[list[tuple[Topic, int]]]:
    """Return up to `count_max` partitions of the move after `after`, by topic and number."""
    keys = image.index.keys_of_move(move_id)
    return first_after(image.index.topics(keys), keys, after, count_max)


def in_states(image: Image, keys: BitMap, states: Collection[State]) -> Slices[BitMap]:
    """Return those of these partitions under reassignment that are in any of the states.

    `image` must not change until the last slice.
    """
    index = image.index
    if not {State.WAITING, State.PAUSED} & {*states}:
        keys = keys & index.stepping
    elif {*states} == {State.WAITING}:
        keys = keys & index.waiting
    found = BitMap()
    for key in keys:
        place = index.at(key)
        assert place is not None, "a key is in a bitmap, but no partition has it"
        topic, number = place
        # A scan must not evict partitions from the cache of rows.
        partition = topic.partitions.peek(number)
        assert partition is not None
        if state_of(image, topic, number, partition) in states:
            found.add(key)
        yield LOOKED_AT_US
    return found


Reassigned: TypeAlias = tuple[Topic, int, PartitionRegistration]


def reassigned(
    image: Image, partitions: Iterable[tuple[str, int]] | None = None
) -> Slices[Iterator[Reassigned | None]]:
    """Return the partitions under reassignment (api 46), of all or of these, by topic and number.

    None stands for one of these that is not. The image must not change meanwhile.
    """
    if partitions is None:
        places = yield from in_order(image.index, image.index.moving)
        return (_reassigned(topic, number) for topic, number in places)
    named = yield from sort_in_slices(partitions)
    return (_reassigned(image.topic_named(name), number) for (name, number), _ in groupby(named))


def _reassigned(topic: Topic | None, number: int) -> Reassigned | None:
    partition = None if topic is None else topic.partition(number)
    if topic is None or partition is None or not partition.moving:
        return None
    return topic, number, partition

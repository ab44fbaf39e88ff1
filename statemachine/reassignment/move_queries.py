"""Queries about moves and the reassignments under way. They return frozen values.

Moves are listed while they run, and after their end until they are forgotten.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct
from pyroaring import BitMap

from statemachine.image.image import Image
from statemachine.image.partition_index import first_after, in_order
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.move import Move, OwnedKey
from statemachine.reassignment.progress import State, state_of
from statemachine.slices import LOOKED_AT_US, Slices
from statemachine.vocabulary import MoveId


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
    """Configurations that its throttle had set until users set them."""


def summary_of(image: Image, move_id: MoveId) -> MoveSummary | None:
    """Return the summary of this move, or None if it does not exist or is forgotten."""
    move = image.moves.get(move_id)
    return None if move is None else _summary(image, move, _lost_by(image))


def summaries(image: Image, moves: Iterable[MoveId] | None = None) -> tuple[MoveSummary, ...]:
    """Return the summaries of all listed moves, or of these, in the order in which they began."""
    lost = _lost_by(image)
    ids = sorted(image.moves if moves is None else moves)
    return tuple([_summary(image, image.moves[move_id], lost) for move_id in ids])


def recent_moves(image: Image, running_max: int, ended_max: int) -> list[MoveId]:
    """Return the first running moves and the last ended ones, in the order in which they began."""
    running = [each for each, move in image.moves.items() if move.ended is None]
    ended = [each for each, move in image.moves.items() if move.ended is not None]
    # They are in the order of their ids, but for a snapshot that was loaded.
    kept = sorted(ended)[-ended_max:] if ended_max else []
    return sorted([*sorted(running)[:running_max], *kept])


def _lost_by(image: Image) -> dict[MoveId, list[OwnedKey]]:
    found: dict[MoveId, list[OwnedKey]] = {}
    for key, owned in image.owned.items():
        for move_id in owned.lost:
            found.setdefault(move_id, []).append(key)
    return found


def _summary(image: Image, move: Move, lost: Mapping[MoveId, list[OwnedKey]]) -> MoveSummary:
    keys = image.index.keys_of_move(move.id)
    stepping = keys.intersection_cardinality(image.index.stepping)
    return MoveSummary(
        move=move,
        waiting=len(keys) - stepping,
        stepping=stepping,
        completed=move.begun.partitions - len(keys) - move.left.total,
        lost=tuple(sorted(lost.get(move.id, ()))),
    )


def partitions_of_move(
    image: Image, move_id: MoveId, after: tuple[str, int] | None, count_max: int
) -> list[tuple[Topic, int]]:
    """Return up to `count_max` partitions of the move after `after`, by topic and number."""
    index = image.index
    keys = index.keys_of_move(move_id)
    return first_after(index, index.topics(keys), keys, after, count_max)


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


def reassigned(
    image: Image, partitions: Collection[tuple[str, int]] | None = None
) -> Iterator[tuple[Topic, int, PartitionRegistration]]:
    """Yield the partitions under reassignment (api 46), of all or of these, by topic and number.

    The image must not change meanwhile.
    """
    if partitions is None:
        found = in_order(image.index, image.index.moving)
    else:
        found = _named(image, partitions)
    for topic, number in found:
        partition = topic.partition(number)
        if partition is not None and partition.moving:
            yield topic, number, partition


def _named(image: Image, partitions: Collection[tuple[str, int]]) -> Iterator[tuple[Topic, int]]:
    for name, number in sorted(set(partitions)):
        topic = image.topic_named(name)
        if topic is not None:
            yield topic, number

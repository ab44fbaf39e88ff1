"""Queries about moves and the reassignments under way. They return frozen values.

The moves are those that run and those that have ended and are not forgotten yet.
"""

from collections.abc import Collection, Iterator, Mapping
from operator import attrgetter
from uuid import UUID

from msgspec import Struct
from pyroaring import BitMap

from statemachine.image.image import Image
from statemachine.image.partition_index import in_order
from statemachine.image.partition_table import Topic
from statemachine.reassignment.move import Left, Move, OwnedKey
from statemachine.records.codec import plan_of
from statemachine.vocabulary import MoveId, MoveOutcome, Replicas


class MoveSummary(Struct, frozen=True, kw_only=True, gc=False):
    """A move, and where its partitions are."""

    move: Move
    waiting: int
    """Partitions that belong to it and have no step under way."""
    stepping: int
    """Those that have one."""
    completed: int
    """Those that have their target replicas; they have left the move."""
    left: Left
    """Those that have left it otherwise, by how."""
    outcome: MoveOutcome | None
    """How it has ended; None while it runs."""
    lost: tuple[OwnedKey, ...] = ()
    """Configurations that its throttle had set until users set them."""


class PlannedMove(Struct, frozen=True, kw_only=True, gc=False):
    """The target of one partition in a move, and its replicas before."""

    topic_id: UUID
    topic: str | None
    """None where the topic is gone."""
    partition: int
    target: Replicas
    original: Replicas


class Underway(Struct, frozen=True, kw_only=True, gc=False):
    """A partition under reassignment."""

    topic: str
    topic_id: UUID
    partition: int
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    target: Replicas
    """The final replicas, in order."""
    move_id: MoveId
    """The move that it belongs to; NO_MOVE where a controller of Kafka's has begun it."""


def summary_of(image: Image, move_id: MoveId) -> MoveSummary | None:
    """The move of this id, or None where there is none, or it is forgotten."""
    move = image.moves.get(move_id)
    return None if move is None else _summary(image, move, _lost_by(image))


def summaries(image: Image) -> tuple[MoveSummary, ...]:
    """Every move that is listed, in the order in which they began."""
    lost = _lost_by(image)
    return tuple([_summary(image, image.moves[move_id], lost) for move_id in sorted(image.moves)])


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
        left=move.left,
        outcome=None if move.ended is None else MoveOutcome(move.ended.outcome),
        lost=tuple(sorted(lost.get(move.id, ()))),
    )


def partitions_of_move(
    image: Image, move_id: MoveId, after: tuple[str, int] | None, count_max: int
) -> list[tuple[Topic, int]]:
    """Those that are still in the move, in order of topic and number, from behind `after` on."""
    keys = image.index.keys_of_move(move_id)
    found: list[tuple[Topic, int]] = []
    for topic in sorted(image.index.topics(keys), key=attrgetter("name")):
        if after is not None and topic.name < after[0]:
            continue
        first = after[1] + 1 if after is not None and topic.name == after[0] else 0
        numbers = image.index.numbers(keys & BitMap(topic.keys))
        found += [(topic, number) for number in numbers if number >= first]
        if len(found) >= count_max:
            break
    return found[:count_max]


def plan_part(image: Image, move: Move, part: int) -> tuple[PlannedMove, ...]:
    """Return a part of the plan of the move, in order; the originals are the way back.

    It is read from the log's own bytes: a plan may have 100,000 partitions.
    """
    found = []
    for planned in plan_of(move.parts[part]):
        topic = image.topics.get(planned.topic_id)
        name = None if topic is None else topic.name
        found += [
            PlannedMove(
                topic_id=planned.topic_id,
                topic=name,
                partition=each.number,
                target=each.target,
                original=each.original,
            )
            for each in planned.partitions
        ]
    return tuple(found)


def reassigned(
    image: Image, partitions: Collection[tuple[str, int]] | None = None
) -> Iterator[Underway]:
    """Yield the reassignments under way (api 46), all or among these, by topic and number.

    The image must not change meanwhile.
    """
    if partitions is None:
        found = in_order(image.index, image.index.moving)
    else:
        found = _named(image, partitions)
    return (
        Underway(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=number,
            replicas=partition.replicas,
            adding=partition.adding,
            removing=partition.removing,
            target=partition.final,
            move_id=partition.stage.move,
        )
        for topic, number in found
        if (partition := topic.partition(number)) is not None and partition.moving
    )


def _named(image: Image, partitions: Collection[tuple[str, int]]) -> Iterator[tuple[Topic, int]]:
    for name, number in sorted(set(partitions)):
        topic = image.topic_named(name)
        if topic is not None:
            yield topic, number

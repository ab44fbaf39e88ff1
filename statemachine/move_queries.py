"""What the rest of the product asks about moves. It reads, and hands out only frozen values.

How far a single partition has come is told by its own fields; here are the moves that partitions
belong to, those that run and those that have ended and are not forgotten yet.
"""

from collections.abc import Iterator, Mapping
from uuid import UUID

from msgspec import Struct

from statemachine.image import Image
from statemachine.move import Left, Move
from statemachine.owned import OwnedKey
from statemachine.serde.ours import plan_of
from statemachine.vocabulary import MoveId, MoveOutcome, Replicas


class MoveSummary(Struct, frozen=True, kw_only=True, gc=False):
    """A move, and where its partitions are."""

    move: Move
    waiting: int
    """Partitions that belong to it and have no step under way."""
    stepping: int
    """Those that have one."""
    completed: int
    """Those that have what was asked for; they do not belong to it any more."""
    left: Left
    """Those that have left it otherwise, by how."""
    outcome: MoveOutcome | None
    """How it has ended; None while it runs."""
    lost: tuple[OwnedKey, ...] = ()
    """What its throttle had set and users have set since, who keep it."""


class PlannedMove(Struct, frozen=True, kw_only=True, gc=False):
    """What a move asks of one partition, and what that had before."""

    topic_id: UUID
    topic: str | None
    """None where the topic is gone."""
    partition: int
    target: Replicas
    original: Replicas


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


def plan_of_move(image: Image, move_id: MoveId) -> Iterator[PlannedMove]:
    """What the move asked for, in the order asked; the originals are the plan of its rollback.

    It is read from the log's own bytes as it goes on: a plan may have 100,000 partitions.
    """
    move = image.moves.get(move_id)
    for part in () if move is None else move.parts:
        for planned in plan_of(part):
            topic = image.topics.get(planned.topic_id)
            for each in planned.partitions:
                yield PlannedMove(
                    topic_id=planned.topic_id,
                    topic=None if topic is None else topic.name,
                    partition=each.number,
                    target=each.target,
                    original=each.original,
                )

"""What is asked and told of moves, as values, and how an image tells it.

Frozen values that every door, client and command shares; they know neither the wire nor the screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from admin import copies_told
from admin.model import UNKNOWN, PartitionId
from statemachine.commands import (
    MoveAltered,
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    ReassignmentAltered,
)
from statemachine.configs.resources import KINDS
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.image.partition_index import Topic
from statemachine.limits import COPIES_LOOKED_AT_MAX
from statemachine.reassignment.copies import Told, untold
from statemachine.reassignment.idempotency import refused_first
from statemachine.reassignment.move import OwnedKey
from statemachine.reassignment.move_queries import (
    MoveSummary,
    partitions_of_move,
    summaries,
    summary_of,
)
from statemachine.reassignment.progress import position_as_told
from statemachine.vocabulary import MoveKind, MoveState

PARTITIONS_SHOWN_MAX: Final = 200
"""Partitions that an answer tells the place of. Each holds up the controller's loop: by 50 µs, or
on a busy machine, where it waits for its turn behind limits, by 280 µs."""
OUTCOMES_TOLD_MAX: Final = 5_000
"""Partitions that the answer to a change tells of one by one, those that were refused first."""

LOST_SHOWN_MAX: Final = 20
"""Configurations of a throttle that a move has lost to users, of those that are told."""

MoveAnswer: TypeAlias = MovesAltered | MovesCancelled | MoveStarted


class Operation(IntEnum):
    """What AlterMoves can be asked for."""

    PAUSE = 1
    RESUME = 2
    CANCEL = 3
    ROLL_BACK = 4
    PRIORITY = 5
    THROTTLE = 6
    ALTER = 7
    """Both of these at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesRequest:
    """A change of moves that are there; it names them, or asks for everything."""

    operation: Operation
    move_ids: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    """Of a cancel: all of these that is under way, in a move or not."""
    partitions: tuple[PartitionId, ...] = ()
    everything: bool = False
    dry_run: bool = False
    """Of a cancel and a rollback: only tell what each partition would have."""
    priority: int = 0
    throttle_bytes_per_s: int = 0
    """To and from each broker; 0 is no limit."""
    key: str = ""
    """Asked again with it, it is not carried out again; a dry run needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """What came of a request for one move; error code 0 is success."""

    move_id: int
    error_code: int = 0
    error_name: str = "NONE"
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOutcome:
    """What a partition has now, or why it is as before; number -1 tells of a topic."""

    id: PartitionId
    replicas: Sequence[int] = ()
    error_code: int = 0
    error_name: str = "NONE"
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesChanged:
    """What came of a request."""

    moves: Sequence[MoveResult] = ()
    """Of those that were named."""
    partitions: Sequence[PartitionOutcome] = ()
    """Of a cancel all, and of a rollback that is only tried; of another one those refused. As many
    as there is room for."""
    accepted: int = 0
    """Partitions, those that are not told of one by one included."""
    refused: int = 0
    begun: int = 0
    """Of a rollback: the move that it is; 0 where nothing had to change, or it is only tried."""
    is_repeated: bool = False
    """Whether it had been asked for before, with the same key."""

    @property
    def has_refusals(self) -> bool:
        """Whether any part of what was asked for was refused."""
        return bool(self.refused) or any(each.error_code for each in self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingPartition:
    """A partition that belongs to a move that runs, and where it stands."""

    id: PartitionId
    replicas: Sequence[int]
    target: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    step: int
    step_count: int
    state: str
    reason: str | None
    """A word for programs; None where nothing is known that would keep it."""
    detail: str
    reason_brokers: Sequence[int]
    since_ms: int
    """0 where nobody noted it."""
    bytes_left: int = UNKNOWN
    """To be copied for the step under way, as brokers say; `UNKNOWN`, and so below."""
    bytes_per_s: int = UNKNOWN
    time_left_ms: int = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStanding:
    """A move, running or ended, and how many of its partitions are where."""

    id: int
    kind: str
    name: str
    asked_by: str
    asked_at_ms: int
    rollback_of: int
    priority: int
    state: str
    """running, paused or paused-by-itself; of one that has ended how, such as completed."""
    since_ms: int
    changed_by: str
    detail: str
    ended: bool
    partition_count: int
    refused: int
    waiting: int
    stepping: int
    completed: int
    cancelled: int
    superseded: int
    gone: int
    bytes_left: int = UNKNOWN
    """To be copied, as far as it is known; of a move that was asked for by its id, and runs."""
    bytes_per_s: int = UNKNOWN
    copies_unknown: int = 0
    """Partitions of which it is not known."""
    copies_behind: int = 0
    """Partitions that never catch up like this: more is written to them than is copied."""
    time_left_ms: int = UNKNOWN
    """Until all of the move is done; `UNKNOWN` too if partitions wait, or have further steps."""
    has_more: bool = False
    """Whether there are more partitions behind those that are told of."""
    throttle_bytes_per_s: int = 0
    """To and from each broker; 0 is no limit."""
    throttle_lost: Sequence[str] = ()
    """Configurations of its throttle that users have set since, who keep them: the first ones."""
    partitions: Sequence[MovingPartition] = ()
    """Of a move that was asked for by its id: the first of those still in it, or a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStandings:
    """Moves in the order in which they began, as of an offset where the node said it."""

    moves: Sequence[MoveStanding]
    all_paused_by: str | None
    """Who has paused all moves; None while they are not."""
    all_paused_since_ms: int
    as_of: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of the partitions of a move, in order of topic and number."""

    after: PartitionId | None = None
    """They are behind this one, be it still there or not."""
    size: int = PARTITIONS_SHOWN_MAX


def told(answer: MoveAnswer) -> MovesChanged | Refusal:
    """What came of it, as the doors tell it; or why none of it could be."""
    match answer:
        case MovesAltered():
            return MovesChanged(
                moves=[_result(each) for each in answer.moves], is_repeated=answer.repeated
            )
        case MovesCancelled():
            shown = answer.partitions
            if len(shown) > OUTCOMES_TOLD_MAX:
                shown = refused_first(shown)[:OUTCOMES_TOLD_MAX]
            return MovesChanged(
                moves=[_result(each) for each in answer.moves],
                partitions=[_outcome(each) for each in shown],
                accepted=answer.done_count,
                refused=answer.refused_count,
                is_repeated=answer.repeated,
            )
        case MoveStarted():
            if answer.error is not Error.NONE:
                return Refusal(answer.error, answer.message)
            return MovesChanged(
                partitions=[
                    _outcome(each)
                    for each in (*answer.refused, *answer.foreseen)[:OUTCOMES_TOLD_MAX]
                ],
                accepted=answer.accepted,
                refused=answer.refused_count,
                begun=answer.move_id,
                is_repeated=answer.repeated,
            )


def _result(answer: MoveAltered) -> MoveResult:
    return MoveResult(
        move_id=answer.move_id,
        error_code=answer.error.code,
        error_name=answer.error.name,
        message=answer.message or None,
    )


def _outcome(answer: ReassignmentAltered) -> PartitionOutcome:
    return PartitionOutcome(
        id=PartitionId(answer.topic, answer.partition),
        replicas=answer.replicas,
        error_code=answer.error.code,
        error_name=answer.error.name,
        message=answer.message or None,
    )


def standings(
    image: Image,
    wanted: Sequence[int] | None = None,
    page: Page | None = None,
    told: Told = untold,
) -> MoveStandings | Refusal:
    """All moves that are listed, or those wanted with their partitions; or that one is not.

    The partitions of a `page` are those behind a place, in order of topic and number. `told` is
    what brokers say of their copies.
    """
    found: list[MoveSummary] = []
    if wanted is None:
        found.extend(summaries(image))
    for move_id in wanted or ():
        known = summary_of(image, move_id)
        if known is None:
            return Refusal(Error.INVALID_REQUEST, not_listed(move_id))
        found.append(known)
    page = page or Page()
    room, moves = 0 if wanted is None else min(page.size, PARTITIONS_SHOWN_MAX), []
    looks = COPIES_LOOKED_AT_MAX
    for each in found:
        behind = partitions_of_move(image, each.move.id, page.after, room + 1) if room else []
        partitions = [_moving(image, *one, told) for one in behind[:room]]
        copies: dict[str, int] = {}
        if wanted is not None and each.outcome is None:
            copies = copies_told.of_move(image, each.move.id, told, looks)
            looks -= min(looks, each.stepping)
        moves.append(_standing(each, partitions, copies, has_more=len(behind) > room))
        room -= len(partitions)
    paused = image.all_paused
    return MoveStandings(
        moves=moves,
        all_paused_by=None if paused is None else paused.who,
        all_paused_since_ms=0 if paused is None else paused.since_ms,
        as_of=image.end_offset,
    )


def _standing(
    summary: MoveSummary,
    partitions: Sequence[MovingPartition],
    copies: dict[str, int],
    *,
    has_more: bool,
) -> MoveStanding:
    move, begun = summary.move, summary.move.begun
    outcome, ended = summary.outcome, summary.move.ended
    word = MoveState(move.state).name if outcome is None else outcome.name
    return MoveStanding(
        id=move.id,
        kind=_word(MoveKind(begun.kind).name),
        name=begun.name,
        asked_by=begun.who,
        asked_at_ms=begun.asked_at_ms,
        rollback_of=begun.rollback_of,
        priority=move.priority,
        throttle_bytes_per_s=move.throttle_bytes_per_s,
        throttle_lost=tuple([_told_key(key) for key in summary.lost[:LOST_SHOWN_MAX]]),
        state=_word(word),
        since_ms=move.since_ms if ended is None else ended.at_ms,
        changed_by=move.who if ended is None else "",
        detail=move.detail if ended is None else "",
        ended=ended is not None,
        partition_count=begun.partitions,
        refused=begun.refused,
        waiting=summary.waiting,
        stepping=summary.stepping,
        completed=summary.completed,
        cancelled=summary.left.cancelled,
        superseded=summary.left.superseded,
        gone=summary.left.gone,
        has_more=has_more,
        partitions=partitions,
        **copies,
    )


def _told_key(key: OwnedKey) -> str:
    (kind, resource), name = key
    return f"{name} of {KINDS[kind]} {resource}"


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _moving(image: Image, topic: Topic, number: int, told: Told) -> MovingPartition:
    partition, found = topic.partition(number), position_as_told(image, topic, number, told)
    assert partition is not None, f"{topic.name}-{number} is in a move, and does not exist"
    assert found is not None, f"{topic.name}-{number} is in a move, and does not move"
    return MovingPartition(
        id=PartitionId(topic.name, number),
        replicas=partition.replicas,
        target=partition.final,
        adding=found.adding,
        removing=found.removing,
        step=found.step,
        step_count=found.of,
        state=found.state.value,
        reason=None if found.reason is None else found.reason.value,
        detail=found.detail,
        reason_brokers=found.brokers,
        since_ms=found.since_ms,
        **copies_told.of_partition(topic, number, partition, told),
    )


def not_listed(move_id: int) -> str:
    """Why nothing can be told of a move."""
    return f"there is no move {move_id}, or it ended long ago and is not listed any more"

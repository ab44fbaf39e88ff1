"""Moves that exist: list, describe, pause, resume, cancel, roll back, order and throttle them."""

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, convert
from msgspec.structs import asdict, replace
from pyroaring import BitMap

from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER
from admin.capabilities.paging import PAGE_SIZE, Cut, Page, PageRequest
from admin.capabilities.schema import (
    Answer,
    AsOfOffset,
    Context,
    IdempotencyKey,
    MoveId,
    Partition,
    PartitionNumber,
    Repeated,
    Request,
    Result,
    Route,
    names_of,
    refused,
)
from admin.model import PartitionId
from controller.apis import reassignments
from controller.apis.reassignments import (
    PARTITIONS_SHOWN_MAX,
    PROGRESS_US,
    MoveAnswer,
    MoveCommand,
    alter_moves,
)
from controller.move_requests import (
    BytesLeftPartial,
    BytesPerS,
    KnownBytes,
    OngoingReassignment,
    TimeLeftMs,
)
from statemachine.commands import AlterMove as AlterCommand
from statemachine.commands import CancelMoves as CancelCommand
from statemachine.commands import (
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    ReassignmentAltered,
)
from statemachine.commands import PauseMoves as PauseCommand
from statemachine.commands import RollBackMove as RollBackCommand
from statemachine.configs.resources import KINDS
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.image.partition_index import first_after
from statemachine.image.partition_table import Topic
from statemachine.limits import THROTTLE_BYTES_PER_S_MAX
from statemachine.reassignment.copies import CopyLookup, move_copies, no_report, partition_copies
from statemachine.reassignment.idempotency import refused_first
from statemachine.reassignment.move import Move as ImageMove
from statemachine.reassignment.move import OwnedKey, is_stopped
from statemachine.reassignment.move_queries import (
    SUMMARY_US,
    MoveSummary,
    in_states,
    partitions_of_move,
    summaries,
    summary_of,
)
from statemachine.reassignment.progress import State
from statemachine.reassignment.running_copies import SHOWN_MAX, running_copies
from statemachine.records.codec import plan_of
from statemachine.records.own_records import MoveOptions
from statemachine.slices import Slices
from statemachine.vocabulary import MoveKind, MoveState

A_co = TypeVar("A_co", covariant=True)
C = TypeVar("C", bound=MoveOptions)

LIST_MOVES: Final = "metaquorum moves list"
BASE: Final = "/v1/reassignments"
ALL: Final = MappingProxyType({"everything": True})
RESULTS_LISTED_MAX: Final = 5_000
"""Partitions that the answer to a change lists, refused ones first."""

MoveStateName = Literal[
    "running", "paused", "paused-by-itself", "completed", "cancelled", "superseded", "gone"
]
"""The states of a running move, and its outcomes."""
RUNNING: Final[tuple[MoveStateName, ...]] = ("running", "paused", "paused-by-itself")
Priority = Annotated[
    int,
    Meta(ge=-(2**31), le=2**31 - 1, description="Moves with a higher one step first"),
]
Throttle = Annotated[
    int,
    Meta(
        ge=0,
        le=THROTTLE_BYTES_PER_S_MAX,
        description="Bytes per second to and from each broker; 0 is no limit",
    ),
]
DryRun = Annotated[bool, Meta(description="Return the effects and change nothing")]


# --- answers -----------------------------------------------------------------------------------


StopsCopying = Annotated[
    bool, Meta(description="Of a pause: true: copies stop, too; false: steps under way complete")
]


class Pause(Answer, frozen=True, kw_only=True):
    """A pause of all moves."""

    by: Annotated[str, Meta(description="Who has paused them")]
    since_ms: int
    stops_copying: StopsCopying = False


PauseOfAll = Annotated[Pause | None, Meta(description="null: no pause of all moves is in force")]


class Move(Answer, frozen=True, kw_only=True):
    """A move, running or ended, and its partitions by state."""

    move_id: int
    kind: str
    name: str | None
    state: MoveStateName
    ended: bool
    since_ms: int
    stops_copying: StopsCopying = False
    changed_by: Annotated[str | None, Meta(description="Who asked for the state")]
    detail: str | None
    asked_by: str
    asked_at_ms: int
    rollback_of: int | None
    priority: int
    throttle_bytes_per_s: Annotated[
        int | None, Meta(description="To and from each broker; null: no limit")
    ]
    throttle_lost: Annotated[
        tuple[str, ...], Meta(description="Configurations of the throttle that users set since")
    ]
    partitions_total: int
    waiting: int
    stepping: int
    completed: int
    cancelled: int
    superseded: int
    gone: int
    refused: int


class MoveProgress(Move, frozen=True, kw_only=True):
    """A move and what is left to copy for it."""

    bytes_left: KnownBytes = None
    bytes_per_s: BytesPerS = None
    time_left_ms: TimeLeftMs = None
    bytes_left_is_partial: BytesLeftPartial = False
    partitions_bytes_unknown: int = 0
    partitions_falling_behind: Annotated[
        int, Meta(description="Partitions written faster than they are copied")
    ] = 0


class DescribedMove(MoveProgress, frozen=True, kw_only=True):
    """A move with the positions of its first partitions."""

    as_of_offset: AsOfOffset
    all_paused: PauseOfAll
    partitions: tuple[OngoingReassignment, ...]
    partitions_not_shown: int


class Moves(Page, frozen=True, kw_only=True):
    """Moves in the order in which they began."""

    all_paused: PauseOfAll
    moves: tuple[Move, ...]


class MovePartitions(Page, frozen=True, kw_only=True):
    """A page of the partitions that are still in a move."""

    move_id: int
    partitions: tuple[OngoingReassignment, ...]


class MovedPartition(Struct, frozen=True, kw_only=True, array_like=True):
    """The target of one partition of a move, and its replicas before."""

    topic: str
    partition: int
    target: tuple[int, ...]
    original: tuple[int, ...]


class MovePlan(Answer, frozen=True, kw_only=True):
    """A part of the plan of a move, in the order of the request."""

    partitions: tuple[MovedPartition, ...]
    gone: Annotated[int, Meta(description="Partitions left out: their topics are deleted")]
    parts: int


class MoveResult(Result, frozen=True, kw_only=True):
    """The result for one move."""

    move_id: int


class PartitionError(Result, frozen=True, kw_only=True):
    """The reason why a partition did not change."""

    topic: str
    partition: Annotated[int | None, Meta(description="null: the whole topic")]

    @property
    def id(self) -> PartitionId:
        """The id of the partition, or of the whole topic."""
        return PartitionId(self.topic, -1 if self.partition is None else self.partition)


class PartitionResult(PartitionError, frozen=True, kw_only=True):
    """The replicas of a partition now, or the reason why it did not change."""

    replicas: tuple[int, ...] = ()


class NotStopped(Answer, frozen=True, kw_only=True):
    """A replica that is copied in spite of a pause."""

    topic: str
    partition: int
    broker_id: Annotated[int, Meta(description="The broker that copies")]
    reason: str

    @property
    def id(self) -> PartitionId:
        """The id of the partition."""
        return PartitionId(self.topic, self.partition)


CopiesNotStopped = Annotated[
    tuple[NotStopped, ...],
    Meta(description=f"The first {SHOWN_MAX} copies that a pause does not stop"),
]
CopiesNotStoppedTotal = Annotated[int, Meta(description="The number of all of them")]


class MovesChanged(Answer, frozen=True, kw_only=True):
    """The results of a change of moves."""

    begun_move_id: Annotated[int | None, Meta(description="The new move of a rollback")] = None
    partitions_accepted: int = 0
    partitions_refused: int = 0
    moves: Annotated[
        tuple[MoveResult, ...], Meta(description="One result for each named move")
    ] = ()
    partitions: Annotated[
        tuple[PartitionResult, ...], Meta(description="The first ones, refused ones first")
    ] = ()
    not_stopped: CopiesNotStopped = ()
    not_stopped_total: CopiesNotStoppedTotal = 0
    repeated: Repeated = False


# --- requests ----------------------------------------------------------------------------------


class NewMove(Request[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A request that begins a move."""

    throttle_bytes_per_s: Throttle = 0
    dry_run: DryRun = False
    key: IdempotencyKey = ""

    CHANGES = True
    STATUS_COMMAND = LIST_MOVES

    @property
    def is_throttled(self) -> bool:
        """True if the move has a throttle."""
        return self.throttle_bytes_per_s > 0

    def limited(self, command: C) -> C:
        """Return the command that begins the move, with the limits of this request."""
        return replace(command, throttle_bytes_per_s=self.throttle_bytes_per_s)


class ListMoves(PageRequest[Moves], frozen=True, kw_only=True):
    """List running moves, and ended ones that the controller still remembers.

    The last 1,000 that ended are remembered, for at most seven days.
    """

    state: Annotated[
        tuple[MoveStateName, ...], Meta(description="In any of these states; empty: all")
    ] = ()

    NAME = "moves.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    FAILING = "the moves cannot be described"
    ITEMS = "moves"

    async def answer(self, context: Context) -> Moves:
        return await context.read_long(self._page)

    def _page(self, image: Image) -> Slices[Moves]:
        cut = yield from self.cut(
            each.id if not self.state or _state(image, each) in self.state else None
            for each in image.moves.values()
        )
        moves = []
        for each in (yield from summaries(image, cut.shown)):
            moves.append(move_of(image, each))
            yield SUMMARY_US
        return Moves(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            all_paused=pause_of(image),
            moves=tuple(moves),
        )


class DescribeMove(Request[DescribedMove], frozen=True, kw_only=True):
    """Describe a move and the positions of its first partitions."""

    move_id: MoveId

    NAME = "moves.describe"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", f"{BASE}/{{id}}", id="move_id"),)
    FAILING = "move {0.move_id} cannot be described"

    async def answer(self, context: Context) -> DescribedMove:
        report_of = context.service.controller.reported_copies()
        return await context.read_long(lambda image: described(image, self.move_id, report_of))


class PartitionsRequest(PageRequest[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A request for a page of partitions under reassignment."""

    page_size: Annotated[
        int, Meta(ge=1, le=PARTITIONS_SHOWN_MAX, description="Partitions on a page, at most")
    ] = PAGE_SIZE
    state: Annotated[tuple[State, ...], Meta(description="In any of these states; empty: all")] = ()

    ITEMS = "partitions"
    POSITION = tuple[str, PartitionNumber]

    def listed(
        self, image: Image, keys: BitMap, report_of: CopyLookup
    ) -> Slices[tuple[tuple[OngoingReassignment, ...], Cut[tuple[str, int]]]]:
        """The page of the partitions with these keys that are in the states asked for."""
        if self.state:
            keys = yield from in_states(image, keys, self.state)
        topics = image.index.topics(keys)
        found = yield from first_after(topics, keys, self.after, self.page_size + 1)
        cut = self.cut_off([(topic.name, number) for topic, number in found], len(keys))
        partitions = []
        for topic, number in found[: len(cut.shown)]:
            partitions.append(moving(image, topic, number, report_of))
            yield PROGRESS_US
        return tuple(partitions), cut


class DescribeMovePartitions(PartitionsRequest[MovePartitions], frozen=True, kw_only=True):
    """Describe the partitions that are still in a move, page by page."""

    move_id: MoveId

    NAME = "moves.partitions"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", f"{BASE}/{{id}}/partitions", id="move_id"),)
    FAILING = "the partitions of move {0.move_id} cannot be described"

    async def answer(self, context: Context) -> MovePartitions:
        report_of = context.service.controller.reported_copies()
        return await context.read_long(lambda image: self._page(image, report_of))

    def _page(self, image: Image, report_of: CopyLookup) -> Slices[MovePartitions | Refusal]:
        if self.move_id not in image.moves:
            return _not_listed(self.move_id)
        keys = image.index.keys_of_move(self.move_id)
        partitions, cut = yield from self.listed(image, keys, report_of)
        return MovePartitions(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            move_id=self.move_id,
            partitions=tuple([replace(each, move_id=UNSET) for each in partitions]),
        )


class DescribeMovePlan(Request[MovePlan], frozen=True, kw_only=True):
    """Read a part of the plan of a move: targets and previous replicas.

    A plan never changes, so it can be read part by part; 100,000 partitions are a hundred parts.
    """

    move_id: MoveId
    part: Annotated[int, Meta(ge=0, description="From 0 on")] = 0

    NAME = "moves.plan"
    NEEDS = DESCRIBE_CLUSTER
    FAILING = "the plan of move {0.move_id} cannot be read"

    async def answer(self, context: Context) -> MovePlan:
        return await context.read(lambda image: plan(image, self.move_id, self.part))


class _ChangeMoves(Request[MovesChanged], frozen=True, kw_only=True):
    key: IdempotencyKey = ""

    CHANGES = True
    STATUS_COMMAND = LIST_MOVES


class _NamesMoves(_ChangeMoves, frozen=True, kw_only=True):
    moves: tuple[MoveId, ...] = ()
    everything: Annotated[bool, Meta(description="All moves, or all that is under way")] = False

    NAMEABLE: ClassVar = "moves"

    @property
    def named(self) -> str:
        """The moves in a sentence."""
        return names_of("move", self.moves) if self.moves else "the moves"

    @property
    def parts(self) -> tuple[object, ...]:
        """All that is named."""
        return self.moves

    def contradiction(self) -> str | None:
        if self.everything and self.parts:
            return "everything includes what is named; omit one of them"
        if not (self.everything or self.parts):
            return f"nothing is named; name {self.NAMEABLE}, or ask for everything"
        return None

    @property
    def all_or_moves(self) -> tuple[MoveId, ...] | None:
        """The moves as a command names them; None for all."""
        return None if self.everything else self.moves


class PauseMoves(_NamesMoves, frozen=True, kw_only=True):
    """Pause moves: begin no further steps, and stop copying by throttles of rate 0.

    A pause of everything includes moves that begin later. The answer names the copies that go on.
    """

    after_step: Annotated[
        bool, Meta(description="Let the steps under way complete, and begin no further ones")
    ] = False

    NAME = "moves.pause"
    NEEDS = ALTER_CLUSTER
    ROUTES = (
        Route("POST", f"{BASE}:pause", fixed=ALL, excluded=("moves",), query=("after_step",)),
        Route(
            "POST",
            f"{BASE}/{{id}}:pause",
            id="moves",
            excluded=("everything",),
            query=("after_step",),
        ),
    )
    FAILING = "{0.named} cannot be paused"

    def command(self, who: str = "") -> PauseCommand:
        return PauseCommand(moves=self.all_or_moves, who=who, after_step=self.after_step)

    async def answer(self, context: Context) -> MovesChanged:
        named = self.all_or_moves
        done = await _change(self, context, self.command(context.who))
        if self.after_step:
            return done
        found = await context.read_long(lambda image: running_copies(image, named))
        return replace(
            done,
            not_stopped=tuple([NotStopped(**asdict(each)) for each in found.first]),
            not_stopped_total=found.total,
        )


class ResumeMoves(_NamesMoves, frozen=True, kw_only=True):
    """Resume paused moves, or end the pause of everything.

    A move paused by its id is resumed by its id.
    """

    NAME = "moves.resume"
    NEEDS = ALTER_CLUSTER
    ROUTES = (
        Route("POST", f"{BASE}:resume", fixed=ALL, excluded=("moves",)),
        Route("POST", f"{BASE}/{{id}}:resume", id="moves", excluded=("everything",)),
    )
    FAILING = "{0.named} cannot be resumed"

    def command(self, who: str = "") -> PauseCommand:
        return PauseCommand(moves=self.all_or_moves, who=who, paused=False)

    async def answer(self, context: Context) -> MovesChanged:
        return await _change(self, context, self.command(context.who))


class CancelMoves(_NamesMoves, frozen=True, kw_only=True):
    """Cancel moves or reassignments: undo the steps under way and drop the rest."""

    topics: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    partitions: tuple[Partition, ...] = ()
    dry_run: DryRun = False

    NAME = "moves.cancel"
    NEEDS = ALTER_CLUSTER
    ROUTES = (
        Route("POST", f"{BASE}:cancel", query=("dry_run",), without_body=ALL, large=True),
        Route(
            "POST",
            f"{BASE}/{{id}}:cancel",
            id="moves",
            excluded=("everything",),
            query=("dry_run",),
            large=True,
        ),
        Route("DELETE", f"{BASE}/{{id}}", id="moves", query=("dry_run",)),
    )

    NAMEABLE = "moves, topics or partitions"

    @property
    def parts(self) -> tuple[object, ...]:
        return (*self.moves, *self.topics, *self.partitions)

    def failing(self) -> str:
        if not (self.everything or self.moves):
            return "the reassignments of these topics and partitions cannot be cancelled"
        return f"{self.named} cannot be cancelled"

    def command(self, who: str = "") -> CancelCommand:
        return CancelCommand(
            partitions=tuple((each.topic, each.partition) for each in self.partitions),
            topics=self.topics,
            moves=self.moves,
            everything=self.everything,
            dry_run=self.dry_run,
        )

    async def answer(self, context: Context) -> MovesChanged:
        return await _change(self, context, self.command(context.who))


class RollBackMove(_ChangeMoves, frozen=True, kw_only=True):
    """Begin a move that restores the previous replicas of a move's partitions."""

    move_id: MoveId
    dry_run: DryRun = False

    NAME = "moves.roll-back"
    NEEDS = ALTER_CLUSTER
    ROUTES = (Route("POST", f"{BASE}/{{id}}:rollback", id="move_id", query=("dry_run",)),)
    FAILING = "move {0.move_id} cannot be rolled back"

    def command(self, who: str = "") -> RollBackCommand:
        return RollBackCommand(move_id=self.move_id, who=who, dry_run=self.dry_run)

    async def answer(self, context: Context) -> MovesChanged:
        return await _change(self, context, self.command(context.who))


class AlterMove(_ChangeMoves, frozen=True, kw_only=True):
    """Change the priority, the throttle, or both, of a running move."""

    move_id: MoveId
    priority: Priority | UnsetType = UNSET
    throttle_bytes_per_s: Throttle | UnsetType = UNSET

    NAME = "moves.alter"
    NEEDS = ALTER_CLUSTER
    ROUTES = (Route("PATCH", f"{BASE}/{{id}}", id="move_id"),)
    FAILING = "move {0.move_id} cannot be altered"

    def command(self, who: str = "") -> AlterCommand:
        priority, throttle = self.priority, self.throttle_bytes_per_s
        return AlterCommand(
            move_id=self.move_id,
            priority=None if priority is UNSET else priority,
            throttle_bytes_per_s=None if throttle is UNSET else throttle,
        )

    async def answer(self, context: Context) -> MovesChanged:
        return await _change(self, context, self.command(context.who))

    def contradiction(self) -> str | None:
        if self.priority is UNSET and self.throttle_bytes_per_s is UNSET:
            return "nothing to change; give a priority, a throttle_bytes_per_s, or both"
        return None


async def _change(request: _ChangeMoves, context: Context, command: MoveCommand) -> MovesChanged:
    return changed(await alter_moves(context.service, context.who, command, request.key))


# --- from the image and the state machine's answers ----------------------------------------------


def changed(answer: MoveAnswer) -> MovesChanged:
    """The results of a command; raises `RequestRefused` if none of it was done."""
    match answer:
        case MovesAltered():
            return MovesChanged(moves=_of_moves(answer), repeated=answer.repeated)
        case MovesCancelled():
            shown = answer.partitions
            if len(shown) > RESULTS_LISTED_MAX:
                shown = refused_first(shown)[:RESULTS_LISTED_MAX]
            return MovesChanged(
                moves=_of_moves(answer),
                partitions=tuple([outcome_of(each) for each in shown]),
                partitions_accepted=answer.done_count,
                partitions_refused=answer.refused_count,
                repeated=answer.repeated,
            )
        case MoveStarted():
            if answer.error is not Error.NONE:
                raise refused(answer.error, answer.message)
            listed = (*answer.refused, *answer.foreseen)[:RESULTS_LISTED_MAX]
            return MovesChanged(
                partitions=tuple([outcome_of(each) for each in listed]),
                partitions_accepted=answer.accepted,
                partitions_refused=answer.refused_count,
                begun_move_id=answer.move_id or None,
                repeated=answer.repeated,
            )


def _of_moves(answer: MovesAltered | MovesCancelled) -> tuple[MoveResult, ...]:
    return tuple([MoveResult.of(each, move_id=each.move_id) for each in answer.moves])


def outcome_of(answer: ReassignmentAltered) -> PartitionResult:
    """The result for one partition."""
    number = None if answer.partition < 0 else answer.partition
    return PartitionResult.of(
        answer, topic=answer.topic, partition=number, replicas=answer.replicas
    )


def error_of(answer: ReassignmentAltered) -> PartitionError:
    """The result for one partition that was refused."""
    return convert(outcome_of(answer), PartitionError, from_attributes=True)


def described(
    image: Image, move_id: int, report_of: CopyLookup = no_report
) -> Slices[DescribedMove | Refusal]:
    """Describe a move with its first partitions; `report_of` looks up the copy reports."""
    summary = yield from summary_of(image, move_id)
    if summary is None:
        return _not_listed(move_id)
    found = yield from partitions_of_move(image, move_id, None, PARTITIONS_SHOWN_MAX)
    copies: dict[str, Any] = {}
    if summary.move.outcome is None:
        copies = yield from copies_of(image, move_id, report_of)
    partitions = []
    for topic, number in found:
        partitions.append(replace(moving(image, topic, number, report_of), move_id=UNSET))
        yield PROGRESS_US
    return DescribedMove(
        as_of_offset=image.end_offset,
        all_paused=pause_of(image),
        partitions=tuple(partitions),
        partitions_not_shown=max(0, summary.waiting + summary.stepping - len(found)),
        **asdict(move_of(image, summary)),
        **copies,
    )


def plan(image: Image, move_id: int, part: int) -> MovePlan | Refusal:
    """A part of the plan of a move, or the reason why there is none."""
    move = image.moves.get(move_id)
    if move is None:
        return _not_listed(move_id)
    if not 0 <= part < len(move.parts):
        reason = f"the plan of move {move_id} has {len(move.parts)} part(s), counted from 0"
        return Refusal(Error.INVALID_REQUEST, f"{reason}; there is no part {part}")
    partitions, gone = [], 0
    for planned in plan_of(move.parts[part]):
        topic = image.topics.get(planned.topic_id)
        if topic is None:
            gone += len(planned.partitions)
            continue
        partitions += [
            MovedPartition(
                topic=topic.name, partition=each.number, target=each.target, original=each.original
            )
            for each in planned.partitions
        ]
    return MovePlan(partitions=tuple(partitions), gone=gone, parts=len(move.parts))


class WholePlan(Struct, frozen=True, kw_only=True):
    """All parts of the plan of a move."""

    targets: dict[PartitionId, tuple[int, ...]]
    """In the order asked."""
    originals: dict[PartitionId, tuple[int, ...]]
    """The replicas of these before: the plan that leads back."""
    gone: int


async def whole_plan(
    ask: Callable[[DescribeMovePlan], Awaitable[MovePlan]], move_id: int
) -> WholePlan:
    """Read all parts of a plan, one after the other."""
    targets: dict[PartitionId, tuple[int, ...]] = {}
    originals: dict[PartitionId, tuple[int, ...]] = {}
    part, parts, gone = 0, 1, 0
    while part < parts:
        found = await ask(DescribeMovePlan(move_id=move_id, part=part))
        for each in found.partitions:
            named = PartitionId(each.topic, each.partition)
            targets[named], originals[named] = each.target, each.original
        part, parts, gone = part + 1, found.parts, gone + found.gone
    return WholePlan(targets=targets, originals=originals, gone=gone)


def pause_of(image: Image) -> Pause | None:
    """The pause of all moves, or None."""
    paused = image.all_paused
    if paused is None:
        return None
    return Pause(by=paused.who, since_ms=paused.since_ms, stops_copying=paused.stops_copying)


def move_of(image: Image, summary: MoveSummary) -> Move:
    """The move of this summary; a pause of all moves is its own, unless it has one."""
    move, begun = summary.move, summary.move.begun
    state, ended = _state(image, move), move.ended
    paused = image.all_paused
    if paused is not None and state == "paused" and move.state != MoveState.PAUSED:
        since_ms = max(paused.since_ms, begun.asked_at_ms)
        move = replace(move, since_ms=since_ms, who=paused.who, detail="")
    return Move(
        move_id=move.id,
        kind=_word(MoveKind(begun.kind).name),
        name=begun.name or None,
        state=state,
        ended=ended is not None,
        since_ms=move.since_ms if ended is None else ended.at_ms,
        stops_copying=is_stopped(move, image.all_paused),
        changed_by=(move.who if ended is None else "") or None,
        detail=(move.detail if ended is None else "") or None,
        asked_by=begun.who,
        asked_at_ms=begun.asked_at_ms,
        rollback_of=begun.rollback_of or None,
        priority=move.options.priority,
        throttle_bytes_per_s=move.options.throttle_bytes_per_s or None,
        throttle_lost=tuple([_config_name(key) for key in summary.lost]),
        partitions_total=begun.partitions,
        waiting=summary.waiting,
        stepping=summary.stepping,
        completed=summary.completed,
        cancelled=move.left.cancelled,
        superseded=move.left.superseded,
        gone=move.left.gone,
        refused=begun.refused,
    )


def _state(image: Image, move: ImageMove) -> MoveStateName:
    if move.outcome is not None:
        return _word(move.outcome.name)  # type: ignore[return-value]
    state = MoveState(move.state) if image.all_paused is None else MoveState.PAUSED
    return _word(state.name)  # type: ignore[return-value]


def _config_name(key: OwnedKey) -> str:
    (kind, resource), name = key
    return f"{name} of {KINDS[kind]} {resource}"


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def copies_of(image: Image, move_id: int, report_of: CopyLookup) -> Slices[dict[str, Any]]:
    """The fields of a `MoveProgress` about what is left to copy."""
    found = yield from move_copies(image, move_id, report_of)
    return {
        "partitions_bytes_unknown": found.unknown,
        "partitions_falling_behind": found.behind,
        "time_left_ms": found.time_left_ms,
        "bytes_left": found.bytes_left if found.known else None,
        "bytes_left_is_partial": found.known > 0 and found.is_partial,
        "bytes_per_s": found.bytes_per_s if found.known else None,
    }


def moving(image: Image, topic: Topic, number: int, report_of: CopyLookup) -> OngoingReassignment:
    """Describe a partition under reassignment with its progress and time left."""
    partition = topic.partition(number)
    assert partition is not None, f"{topic.name}-{number} is in a move, and does not exist"
    copies = partition_copies(image, topic, number, partition, report_of)
    return replace(
        reassignments.described(image, topic, number, partition, report_of),
        time_left_ms=None if copies is None else copies.time_left_ms,
    )


def _not_listed(move_id: int) -> Refusal:
    message = f"there is no move {move_id}, or it ended long ago and is not listed any more"
    return Refusal(Error.INVALID_REQUEST, message)

"""Operations: long work under one id and one set of states, whatever it is.

An operation is a view of what the log keeps anyway: moves, the cordon and the moves that empty a
broker, the target voters. So it survives a fail-over, and is listed as long as these are.
"""

import re
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from admin.capabilities.moves import BASE as MOVES
from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.paging import Page, PageRequest
from admin.capabilities.quorum import DescribeVoters, Voters
from admin.capabilities.schema import Answer, AsOfOffset, Context, Request, Route
from quorum.core.limits import VOTERS_MAX
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import PLANNED_PARTITIONS_MAX
from statemachine.reassignment.move import Move
from statemachine.reassignment.move_queries import SUMMARY_US
from statemachine.slices import PASSED_US, Slices
from statemachine.vocabulary import MoveKind, MoveOutcome, MoveState

BASE: Final = "/v1/operations"
RETRY_AFTER_SECONDS: Final = 2
"""When a client may ask again how far an operation is."""

OperationState = Literal["pending", "running", "paused", "succeeded", "failed", "cancelled"]
OperationKind = Literal["move", "decommission", "voters"]

_OUTCOMES: Final[dict[MoveOutcome, OperationState]] = {
    MoveOutcome.COMPLETED: "succeeded",
    MoveOutcome.CANCELLED: "cancelled",
    MoveOutcome.SUPERSEDED: "cancelled",
    MoveOutcome.GONE: "failed",
}
_DETAILS: Final = {
    MoveOutcome.SUPERSEDED: "another move took partitions over",
    MoveOutcome.GONE: "the topics of its partitions were deleted",
}
_ID: Final = re.compile(r"(move|decommission|voters)-(\d{1,19}(?:-\d{1,19})*)", re.ASCII)
_PARTS_MAX: Final = 100
"""Moves of one operation: as many as the largest plan has pieces, and more."""
_LAST: Final = 2**63 - 1

assert PLANNED_PARTITIONS_MAX // 5_000 <= _PARTS_MAX
assert VOTERS_MAX <= _PARTS_MAX


class Operation(Answer, frozen=True, kw_only=True):
    """Long work that a request has begun."""

    operation_id: Annotated[str, Meta(description="Like move-3, decommission-101, voters-1-2-3")]
    kind: OperationKind
    state: OperationState
    detail: Annotated[str | None, Meta(description="What it waits for, or why it ended so")]
    asked_by: Annotated[str | None, Meta(description="null: the log does not keep it")]
    asked_at_ms: Annotated[int | None, Meta(description="null: the log does not keep it")]
    ended_at_ms: Annotated[int | None, Meta(description="null: it goes on, or unknown")]
    partitions_left: Annotated[int | None, Meta(description="null: it is not about partitions")]
    moves: Annotated[tuple[int, ...], Meta(description="Ids of the moves that carry it out")]
    resource: Annotated[str, Meta(description="The path that tells more")]


class DescribedOperation(Operation, frozen=True, kw_only=True):
    """One operation, as of an offset."""

    as_of_offset: AsOfOffset


class Operations(Page, frozen=True, kw_only=True):
    """Moves in the order in which they began, decommissions after their last move, then voters."""

    operations: tuple[Operation, ...]


class ListOperations(PageRequest[Operations], frozen=True, kw_only=True):
    """List long work: moves, decommissions, and the change of voters that is under way.

    Ended ones are listed as long as their moves are: the last 1,000, for at most seven days.
    """

    state: Annotated[
        tuple[OperationState, ...], Meta(description="In any of these states; empty: all")
    ] = ()
    kind: Annotated[
        tuple[OperationKind, ...], Meta(description="Of any of these kinds; empty: all")
    ] = ()

    NAME = "operations.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    FAILING = "the operations cannot be listed"
    ITEMS = "operations"
    POSITION = tuple[int, str]

    async def answer(self, context: Context) -> Operations:
        voters = await DescribeVoters().answer(context)
        return await context.read_long(lambda image: self._page(image, voters))

    def _page(self, image: Image, voters: Voters) -> Slices[Operations]:
        drains = yield from _drains(image)
        positions = (
            (position, each.operation_id) if self._keeps(each) else None
            for position, each in _everything(image, drains, voters)
        )
        cut = yield from self.cut(positions, SUMMARY_US)
        operations = []
        for _, operation_id in cut.shown:
            kind, ids = _parts_of(operation_id)
            found = of_voters(voters, ids) if kind == "voters" else _of(image, kind, ids, drains)
            assert isinstance(found, Operation)
            operations.append(found)
            yield SUMMARY_US
        return Operations(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            operations=tuple(operations),
        )

    def _keeps(self, operation: Operation) -> bool:
        is_of_kind = not self.kind or operation.kind in self.kind
        return is_of_kind and (not self.state or operation.state in self.state)


class DescribeOperation(Request[DescribedOperation], frozen=True, kw_only=True):
    """Describe an operation: ask again until it has succeeded, failed or is cancelled."""

    operation_id: Annotated[str, Meta(max_length=1_000, description="As `Location` names it")]

    NAME = "operations.describe"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", f"{BASE}/{{id}}", id="operation_id"),)
    ERRORS = (Error.RESOURCE_NOT_FOUND,)
    FAILING = "the operation cannot be described"

    def contradiction(self) -> str | None:
        matched = _ID.fullmatch(self.operation_id)
        if matched is None or matched[2].count("-") >= _PARTS_MAX:
            return (
                f"{self.operation_id[:60]!r} is not the id of an operation; take one like move-3, "
                f"decommission-101 or voters-1-2-3 from Location or GET {BASE}"
            )
        return None

    async def answer(self, context: Context) -> DescribedOperation:
        kind, ids = _parts_of(self.operation_id)
        if kind == "voters":
            voters = await DescribeVoters().answer(context)
            return _described(of_voters(voters, ids), voters.as_of_offset)

        def described(image: Image) -> Slices[DescribedOperation | Refusal]:
            found = _of(image, kind, ids, (yield from _drains(image)))
            return found if isinstance(found, Refusal) else _described(found, image.end_offset)

        return await context.read_long(described)


def _parts_of(operation_id: str) -> tuple[str, tuple[int, ...]]:
    """The kind of an operation in its id, and the ids of its moves, broker or voters."""
    matched = _ID.fullmatch(operation_id)
    assert matched is not None, f"{operation_id} is no id"
    return matched[1], tuple([int(each) for each in matched[2].split("-")])


def _of(
    image: Image, kind: str, ids: Sequence[int], drains: Mapping[int, Sequence[Move]]
) -> Operation | Refusal:
    """The operation that moves carry out, or the decommission of a broker."""
    if kind == "move":
        return of_moves(image, ids)
    return of_decommission(image, ids, drains.get(ids[0], ()))


def moves_id(moves: Sequence[int]) -> str:
    """The id of the operation that these moves carry out."""
    return f"move-{'-'.join(map(str, moves))}"


def decommission_id(broker_id: int) -> str:
    """The id of the decommission of a broker."""
    return f"decommission-{broker_id}"


def voters_id(target: Sequence[int]) -> str:
    """The id of a change to these voters."""
    return f"voters-{'-'.join(map(str, sorted(target)))}"


def of_moves(image: Image, ids: Sequence[int]) -> Operation | Refusal:
    """The operation that moves carry out; those that are forgotten have ended long ago."""
    moves = [image.moves[each] for each in ids if each in image.moves]
    if not moves:
        return _unknown(moves_id(ids))
    resource = f"{MOVES}/{ids[0]}" if len(ids) == 1 else MOVES
    return _by_moves(image, moves, operation_id=moves_id(ids), kind="move", resource=resource)


def _drains(image: Image) -> Slices[dict[int, list[Move]]]:
    """The moves that empty each broker, in the order in which they began."""
    found: dict[int, list[Move]] = {}
    for move in image.moves.values():
        if move.begun.kind == MoveKind.DRAIN and move.begun.broker is not None:
            insort(found.setdefault(move.begun.broker, []), move, key=_id)
        yield PASSED_US
    return found


_id = attrgetter("id")


def of_decommission(
    image: Image, ids: Sequence[int], drains: Sequence[Move]
) -> Operation | Refusal:
    """The decommission of a broker, with these moves: it ends when the broker has no replicas."""
    broker_id, *others = ids
    broker = image.brokers.get(broker_id)
    is_cordoned = broker is not None and broker.cordoned
    if others or not (drains or is_cordoned):
        return _unknown("-".join(("decommission", *map(str, ids))))
    running = [each for each in drains if each.ended is None]
    known: dict[str, Any] = {
        "operation_id": decommission_id(broker_id),
        "kind": "decommission",
        "resource": f"/v1/brokers/{broker_id}/decommission",
    }
    if broker is not None and not is_cordoned and not running:
        # It is in service again; how the last one ended is known.
        return _by_moves(image, drains[-1:], **known)
    index = image.index
    held = index.replicas_of.get(broker_id)
    left = 0 if held is None else len(held)
    leaving = held is not None and held.intersection_cardinality(index.moving) > 0
    last = drains[-1] if drains else None
    state: OperationState
    detail = None
    if running:
        state, detail = _state_of(image, running)
    elif left and leaving:
        state, detail = "running", "other moves take its replicas away"
    elif left:
        state = "failed" if drains else "pending"
        detail = f"no move takes {left} replica(s) away; decommission it again to begin one"
    elif broker is not None and broker.leaving:
        state, detail = "running", "it is empty, and is unregistered once it is stopped"
    else:
        state = "succeeded"
    ended = None if last is None or last.ended is None else last.ended.at_ms
    return Operation(
        state=state,
        detail=detail,
        asked_by=None if last is None else last.begun.who or None,
        asked_at_ms=None if last is None else last.begun.asked_at_ms,
        ended_at_ms=ended if state in ("succeeded", "failed") else None,
        partitions_left=left,
        moves=tuple([each.id for each in running or drains[-1:]]),
        **known,
    )


def of_voters(voters: Voters, target: Sequence[int]) -> Operation:
    """The change to these voters. The log has the voters and the target, and no change before."""
    wanted, current = sorted(target), list(voters.current_voters)
    names = ", ".join(map(str, wanted))
    state: OperationState = "succeeded"
    detail = None
    if voters.target_voters is not None and sorted(voters.target_voters) == wanted:
        state, detail = "running", voters.waits_for
    elif current != wanted:
        state = "cancelled"
        detail = (
            f"the voters are {', '.join(map(str, current))}: a change to {names} was cancelled or "
            "replaced by another one, if there was one"
        )
    return Operation(
        operation_id=voters_id(wanted),
        kind="voters",
        state=state,
        detail=detail,
        asked_by=None,
        asked_at_ms=None,
        ended_at_ms=None,
        partitions_left=None,
        moves=(),
        resource="/v1/quorum/voters",
    )


def _everything(
    image: Image, drains: Mapping[int, Sequence[Move]], voters: Voters
) -> Iterator[tuple[int, Operation]]:
    """Every operation, with the position that its place in the list depends on first."""
    for move_id in image.moves:
        found = of_moves(image, (move_id,))
        assert isinstance(found, Operation)
        yield move_id, found
    leaving = [each.broker_id for each in image.brokers.values() if each.leaving]
    for broker_id in dict.fromkeys((*drains, *leaving)):
        own = drains.get(broker_id, ())
        decommission = of_decommission(image, (broker_id,), own)
        if isinstance(decommission, Operation):
            yield own[-1].id if own else 0, decommission
    if voters.target_voters is not None:
        yield _LAST, of_voters(voters, voters.target_voters)


def _by_moves(image: Image, moves: Sequence[Move], **known: Any) -> Operation:
    state, detail = _state_of(image, moves)
    ends = [each.ended.at_ms for each in moves if each.ended is not None]
    return Operation(
        state=state,
        detail=detail,
        asked_by=moves[0].begun.who or None,
        asked_at_ms=moves[0].begun.asked_at_ms,
        ended_at_ms=max(ends) if len(ends) == len(moves) else None,
        partitions_left=sum(len(image.index.keys_of_move(each.id)) for each in moves),
        moves=tuple([each.id for each in moves]),
        **known,
    )


def _state_of(image: Image, moves: Sequence[Move]) -> tuple[OperationState, str | None]:
    """The state of all these moves together, and its reason."""
    running = [each for each in moves if each.ended is None]
    if not running:
        outcomes = [each.outcome for each in moves if each.outcome is not None]
        # Another outcome than completed counts for the whole, the first one of the numbers.
        worst = min((each for each in outcomes if each is not MoveOutcome.COMPLETED), default=None)
        outcome = MoveOutcome.COMPLETED if worst is None else worst
        return _OUTCOMES[outcome], _DETAILS.get(outcome)
    if image.all_paused is not None:
        return "paused", f"all moves are paused by {image.all_paused.who or 'somebody'}"
    stopped = [each for each in running if each.state != MoveState.RUNNING]
    if len(stopped) == len(running):
        first = stopped[0]
        by = f"paused by {first.who or 'somebody'}"
        return "paused", first.detail or (by if first.state == MoveState.PAUSED else None)
    is_pending = len(running) == len(moves) and all(_is_pending(image, each) for each in running)
    return ("pending", "no step has begun") if is_pending else ("running", None)


def _is_pending(image: Image, move: Move) -> bool:
    """True if no partition of a move has begun its first step or left it."""
    keys = image.index.keys_of_move(move.id)
    stepping = keys.intersection_cardinality(image.index.stepping)
    return not stepping and len(keys) == move.begun.partitions


def _described(found: Operation, offset: int) -> DescribedOperation:
    fields = {name: getattr(found, name) for name in Operation.__struct_fields__}
    return DescribedOperation(as_of_offset=offset, **fields)


def _unknown(operation_id: str) -> Refusal:
    reason = (
        f"there is no operation {operation_id[:60]}, or it ended long ago; GET {BASE} lists them"
    )
    return Refusal(Error.RESOURCE_NOT_FOUND, reason)

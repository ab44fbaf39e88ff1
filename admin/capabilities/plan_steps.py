"""Plans that the active controller makes and begins: results, and the steps that all plans share.

Long work is done in pieces of a few milliseconds, one plan at a time, while the controller
goes on; changes meanwhile are found when the moves begin. A request may be repeated: moves under
way are found, and only the missing ones begin.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from admin.capabilities.moves import PartitionError, error_of, whole_plan
from admin.capabilities.schema import Answer, Context, Repeated, Request, json_of
from admin.model import PartitionId
from controller.apis.reassignments import alter_moves
from controller.move_requests import fingerprint
from controller.service import Service
from quorum.protocol.errors import RequestRefused
from statemachine.commands import (
    BeginMove,
    CancelMoves,
    MovesCancelled,
    MoveStarted,
    Reassignment,
)
from statemachine.image.image import Image
from statemachine.reassignment.planner.outcome import Outcome, outcome
from statemachine.reassignment.planner.placing import Assignment, Racks
from statemachine.reassignment.planner.survey import PIECE_PARTITIONS, Held, held
from statemachine.vocabulary import BrokerId, Replicas

A = TypeVar("A", bound=MoveStarted | MovesCancelled)
T = TypeVar("T")

PLAN_FILE_VERSION: Final = 1
"""Of the JSON files of `reassign-partitions`."""
PARTITIONS_MAX: Final = 5_000
"""Partitions of one piece; a larger plan becomes several moves or cancels."""
PARTITIONS_LISTED_MAX: Final = 20_000
"""Partitions of a plan that an answer lists: about a megabyte."""

_NAME_BYTES: Final = 16


class PlannedPartition(Answer, array_like=True, frozen=True, kw_only=True):
    """A partition with its replicas and its target."""

    id: PartitionId
    replicas: tuple[int, ...]
    target: tuple[int, ...]


class DrainProgress(Answer, frozen=True, kw_only=True):
    """The progress of brokers towards having no replicas."""

    held: Annotated[int, Meta(description="Partitions with a replica on any of them")] = 0
    leaving: Annotated[int, Meta(description="Those that earlier moves take away from them")] = 0
    leaderless: Annotated[tuple[PartitionId, ...], Meta(description="Without a leader")] = ()
    busy: Annotated[tuple[PartitionId, ...], Meta(description="Moving, but not away")] = ()
    cordoned: Annotated[
        tuple[int, ...], Meta(description="Brokers that the request cordoned, or uncordoned")
    ] = ()
    is_begun: Annotated[
        bool, Meta(description="Any of them is cordoned, or moves take its replicas away")
    ] = False
    to_be_unregistered: Annotated[
        tuple[int, ...], Meta(description="Brokers to be unregistered once empty and stopped")
    ] = ()
    unregistered: Annotated[tuple[int, ...], Meta(description="Brokers not registered")] = ()
    alive: Annotated[tuple[int, ...], Meta(description="Brokers registered and not fenced")] = ()


class PlanResult(
    Answer,
    frozen=True,
    kw_only=True,
    rename={
        "moves": "move_ids",
        "planned": "partitions_planned",
        "accepted": "partitions_accepted",
        "refused": "errors",
        "refused_count": "partitions_refused",
    },
):
    """The result of a request to plan."""

    reason: Annotated[str | None, Meta(description="The reason why there is no plan")] = None
    moves: Annotated[tuple[int, ...], Meta(description="Also earlier ones that drain them")] = ()
    planned: int = 0
    partitions: Annotated[tuple[PlannedPartition, ...], Meta(description="The first ones")] = ()
    accepted: int = 0
    refused: Annotated[tuple[PartitionError, ...], Meta(description="The first ones")] = ()
    refused_count: int = 0
    foreseen: Outcome = msgspec.field(default_factory=Outcome)
    drain: DrainProgress = msgspec.field(default_factory=DrainProgress)
    repeated: Repeated = False


class PlanRequest(Request[PlanResult], frozen=True, kw_only=True):
    """A request to plan."""

    async def carry_out(self, context: Context) -> PlanResult:
        """Plan and begin the moves. Without a plan the result has the reason: no refusal."""
        raise NotImplementedError

    async def answer(self, context: Context) -> PlanResult:
        # One plan at a time.
        async with context.service.planning:
            return await self.carry_out(context)


# --- JSON --------------------------------------------------------------------------------------


class BytesMoved(Answer, frozen=True):
    """The bytes that a plan copies, or the reason why they are unknown."""

    bytes_moved: int | None
    bytes_moved_unknown: str | None = None


UNTRIED: Final = BytesMoved(None, "only a dry run asks the brokers for sizes")
"""Of a plan that begins at once: its moves report the bytes that are left."""


def plan_data(found: PlanResult, moved: BytesMoved = UNTRIED) -> dict[str, Any]:
    """The JSON of a plan and its rollback, as for `reassign-partitions`, and of the outcome."""
    return {
        "partitions_planned": found.planned,
        "plan": _file((each.id, each.target) for each in found.partitions),
        "rollback_plan": _file((each.id, each.replicas) for each in found.partitions),
        "outcome": {**json_of(found.foreseen), **json_of(moved)},
    }


def begun_data(found: PlanResult) -> dict[str, Any]:
    """The JSON of what was begun and what was refused."""
    return {
        "move_ids": list(found.moves),
        "partitions_accepted": found.accepted,
        "partitions_refused": found.refused_count,
        "errors": [json_of(each) for each in found.refused],
    }


def drain_data(found: PlanResult) -> dict[str, Any]:
    """The JSON of the progress of a decommission."""
    drain = found.drain
    # A repeated answer counts partitions that may have been moved since.
    leaving = drain.leaving + (0 if found.repeated else found.accepted)
    going = "waiting" if drain.is_begun or leaving else "none"
    if drain.held <= leaving:
        going = "moving"
    return {
        "state": going if drain.held else "empty",
        "reason": found.reason,
        "registered": not drain.unregistered,
        "alive": bool(drain.alive),
        "to_be_unregistered": bool(drain.to_be_unregistered),
        "partitions_held": drain.held,
        "partitions_leaving": leaving,
        "partitions_leaderless": [each._asdict() for each in drain.leaderless],
        "partitions_busy": [each._asdict() for each in drain.busy],
    }


def _file(assigned: Iterable[tuple[PartitionId, Sequence[int]]]) -> dict[str, Any]:
    partitions = [{**id._asdict(), "replicas": list(replicas)} for id, replicas in assigned]
    return {"version": PLAN_FILE_VERSION, "partitions": partitions}


# --- steps -------------------------------------------------------------------------------------


class Pieces(Generic[A]):
    """The pieces of one request, and which of them an earlier attempt has done."""

    def __init__(
        self, context: Context, request: PlanRequest, key: str, answer_type: type[A]
    ) -> None:
        self._answer_type = answer_type
        self.is_over = False
        """True if an earlier attempt has done all pieces; known after `done_before`."""
        self.who = context.who
        self._service = context.service
        self._key = "" if request.only_reads() else key
        self._fingerprint = fingerprint((context.who, replace(request, key="")))
        self._count = 0

    def starts(self, count: int) -> range:
        """The places where the pieces of so many partitions begin.

        With a key there is at least one piece, which records that the request is done.
        """
        return range(0, count or bool(self._key), PARTITIONS_MAX)

    async def done_before(self, nothing: BeginMove | CancelMoves) -> list[A]:
        """The answers of the pieces that an earlier attempt has done, each repeated for `nothing`.

        Raises `RequestRefused` if the key belongs to another request.
        """
        if not self._key:
            return []
        self._count, self.is_over = (await self._service.read(self._known)).value
        keys = [self._key_of(place) for place in range(self._count)]
        return [await self._do(nothing, key) for key in (*keys, *[self._key] * self.is_over)]

    async def carry_out(self, pieces: Sequence[BeginMove | CancelMoves]) -> list[A]:
        """Carry out the pieces one after the other; with a key there is at least one."""
        assert pieces or not self._key, "nothing would be remembered"
        keys = [self._key_of(self._count + place) for place in range(len(pieces) - 1)]
        keys = [*keys, self._key] if self._key else [""] * len(pieces)
        return [await self._do(piece, key) for piece, key in zip(pieces, keys, strict=True)]

    def _known(self, image: Image) -> tuple[int, bool]:
        count = 0
        while self._key_of(count) in image.keys:
            count += 1
        return count, self._key in image.keys

    def _key_of(self, place: int) -> str:
        """The key of a piece that is not the last one."""
        name = blake2b(self._key.encode(), digest_size=_NAME_BYTES).hexdigest()
        return f"{name}.{place}"

    async def _do(self, piece: BeginMove | CancelMoves, key: str) -> A:
        answer = await alter_moves(self._service, self.who, piece, key, self._fingerprint)
        assert isinstance(answer, self._answer_type)
        return answer


async def in_pieces(work: Generator[None, None, T]) -> T:
    """Return the result of the work; other tasks run between its slices."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        await asyncio.sleep(0)


async def held_now(
    service: Service,
    keys_of: Callable[[Image, Sequence[BrokerId]], list[int]],
    brokers: Sequence[BrokerId],
) -> list[Held]:
    """The partitions with these keys that have a replica on any of the brokers, read in pieces."""
    keys = (await service.read(lambda image: keys_of(image, brokers))).value
    found: list[Held] = []
    for start in range(0, len(keys), PIECE_PARTITIONS):
        reading = partial(held, keys=keys[start : start + PIECE_PARTITIONS], brokers=brokers)
        found += (await service.read(reading, stale=True)).value
    return found


async def begin(
    pieces: Pieces[MoveStarted], plan: Assignment, command: BeginMove
) -> list[MoveStarted]:
    """Begin moves with the options of `command` for all planned partitions."""
    asked = tuple(
        [
            Reassignment(topic=topic, partition=number, replicas=replicas)
            for (topic, number), replicas in plan.items()
        ]
    )
    commands = [
        replace(command, reassignments=asked[start : start + PARTITIONS_MAX], who=pieces.who)
        for start in pieces.starts(len(asked))
    ]
    return await pieces.carry_out(commands)


def moves_of(begun: Iterable[MoveStarted]) -> list[int]:
    """The ids of the moves that were begun."""
    return [each.move_id for each in begun if each.move_id]


async def plan_result(
    begun: Sequence[MoveStarted],
    current: Assignment,
    plan: Assignment,
    racks: Racks,
    *,
    repeated: bool = False,
) -> PlanResult:
    """The result of planning `plan` for partitions that have `current`, as far as it was begun."""
    return PlanResult(
        moves=tuple(moves_of(begun)),
        planned=len(plan),
        partitions=planned(current, plan),
        accepted=sum(each.accepted for each in begun),
        refused=tuple([error_of(one) for each in begun for one in each.refused]),
        refused_count=sum(each.refused_count for each in begun),
        foreseen=await foreseen(current, plan, racks),
        repeated=repeated,
    )


async def begun_before(context: Context, moves: Sequence[int]) -> tuple[Assignment, Assignment]:
    """Return the replicas of partitions before these moves, and their targets."""
    current: dict[tuple[str, int], Replicas] = {}
    plan: dict[tuple[str, int], Replicas] = {}
    for move_id in moves:
        # A move that ended long ago is not listed any more.
        with suppress(RequestRefused):
            found = await whole_plan(lambda part: part.answer(context), move_id)
            current.update(found.originals.items())
            plan.update(found.targets.items())
    return current, plan


def planned(current: Assignment, plan: Assignment) -> tuple[PlannedPartition, ...]:
    """Return the planned partitions, as many as an answer tells."""
    return tuple(
        [
            PlannedPartition(id=PartitionId(*named), replicas=current[named], target=plan[named])
            for named in list(plan)[:PARTITIONS_LISTED_MAX]
        ]
    )


async def foreseen(current: Assignment, plan: Assignment, racks: Racks) -> Outcome:
    """Return the outcome of carrying out the plan."""
    # In a thread: it takes every partition in one go.
    return await asyncio.to_thread(outcome, current, plan, racks)

"""The steps of making and beginning a plan: slices of work, of reading, of beginning.

Each piece takes a few milliseconds, and the controller goes on in between.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from admin.capabilities.moves import MovePlan, PartitionOutcome, outcome_of
from admin.capabilities.moves import plan as plan_of
from admin.capabilities.plans import (
    PARTITIONS_TOLD_MAX,
    BrokerShare,
    ChangeReplicationFactor,
    DecommissionBrokers,
    Foreseen,
    PlannedPartition,
    RecommissionBrokers,
)
from admin.model import PartitionId
from controller import reassignments
from controller.move_requests import fingerprint
from controller.quorum_description import UNKNOWN
from controller.service import Service
from statemachine.commands import (
    BeginMove,
    CancelMoves,
    MoveStarted,
    Reassignment,
)
from statemachine.errors import Refusal
from statemachine.image.image import Image
from statemachine.reassignment.planner.outcome import Load, outcome
from statemachine.reassignment.planner.placing import Assignment, Racks
from statemachine.reassignment.planner.survey import PIECE_PARTITIONS, Held, held
from statemachine.vocabulary import BrokerId, Replicas

T = TypeVar("T")

PARTITIONS_MAX: Final = 5_000
"""Of one piece: what needs more is several moves, or several cancels."""

_NAME_BYTES: Final = 16


KeyedPlan: TypeAlias = ChangeReplicationFactor | DecommissionBrokers | RecommissionBrokers


class Pieces:
    """The pieces of one request, and which of them an attempt before this one has done."""

    def __init__(self, service: Service, who: str, request: KeyedPlan) -> None:
        self.is_over = False
        """True if all of it was done before; known once `done_before` was asked."""
        self.who = who
        self._service = service
        self._key = "" if request.only_reads() else request.key
        self._fingerprint = fingerprint((who, replace(request, key="")))
        self._count = 0

    def starts(self, count: int) -> range:
        """The beginnings of the pieces of so many partitions.

        With a key it is remembered as well that there was nothing to do, by a piece of none.
        """
        return range(0, count or bool(self._key), PARTITIONS_MAX)

    async def done_before(self, nothing: BeginMove | CancelMoves) -> list[reassignments.MoveAnswer]:
        """The answers of the pieces that were done before; `nothing` is a piece without partitions.

        Raises `Refused` if the key belongs to another request.
        """
        if not self._key:
            return []
        self._count, self.is_over = (await self._service.read(self._known)).value
        keys = [self._key_of(place) for place in range(self._count)]
        return [await self._do(nothing, key) for key in (*keys, *[self._key] * self.is_over)]

    async def carry_out(
        self, pieces: Sequence[BeginMove | CancelMoves]
    ) -> list[reassignments.MoveAnswer]:
        """Their answers, one after the other; with a key there is at least one piece."""
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
        """Of a piece that is not the last one; whoever has the same key has the same."""
        name = blake2b(self._key.encode(), digest_size=_NAME_BYTES).hexdigest()
        return f"{name}.{place}"

    async def _do(self, piece: BeginMove | CancelMoves, key: str) -> reassignments.MoveAnswer:
        return await reassignments.alter_moves(
            self._service, self.who, piece, key, self._fingerprint
        )


async def in_pieces(work: Generator[None, None, T]) -> T:
    """Return the result of the work; others have their turn between its slices."""
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
        piece = keys[start : start + PIECE_PARTITIONS]
        found += (await service.read(_held(piece, brokers), stale=True)).value
    return found


def _held(keys: Sequence[int], brokers: Sequence[BrokerId]) -> Callable[[Image], list[Held]]:
    return lambda image: held(image, keys, brokers)


class Begun:
    """The moves that were begun for one plan."""

    def __init__(self) -> None:
        self.moves: list[int] = []
        self.accepted = 0
        self.refused_count = 0
        self.refused: list[PartitionOutcome] = []

    async def begin(self, pieces: Pieces, plan: Assignment, command: BeginMove) -> None:
        """Begin moves as `command` says, of all that is planned."""
        asked = tuple(
            [
                Reassignment(topic=topic, partition=number, replicas=replicas)
                for (topic, number), replicas in plan.items()
            ]
        )
        wishes = [
            replace(command, reassignments=asked[start : start + PARTITIONS_MAX], who=pieces.who)
            for start in pieces.starts(len(asked))
        ]
        self.take(await pieces.carry_out(wishes))

    def take(self, answers: Sequence[reassignments.MoveAnswer]) -> None:
        """Take the answers of pieces, from now or an attempt before this one."""
        for answer in answers:
            assert isinstance(answer, MoveStarted)
            self.moves += [answer.move_id] if answer.move_id else []
            self.accepted += answer.accepted
            self.refused_count += answer.refused_count
            self.refused += [outcome_of(each) for each in answer.refused]


async def begun_before(service: Service, moves: Sequence[int]) -> tuple[Assignment, Assignment]:
    """Return the replicas of partitions before these moves, and their targets."""
    current: dict[tuple[str, int], Replicas] = {}
    plan: dict[tuple[str, int], Replicas] = {}
    for move_id in moves:
        part, count = 0, 1
        while part < count:
            found = (await service.read(_plan_part(move_id, part))).value
            if isinstance(found, Refusal):
                # It ended long ago, and is not listed any more.
                break
            for each in found.partitions:
                plan[each.topic, each.partition] = each.target
                current[each.topic, each.partition] = each.original
            part, count = part + 1, found.parts
    return current, plan


def _plan_part(move_id: int, part: int) -> Callable[[Image], MovePlan | Refusal]:
    return lambda image: plan_of(image, move_id, part)


def planned(current: Assignment, plan: Assignment) -> tuple[PlannedPartition, ...]:
    """Return the planned partitions, as many as an answer tells."""
    return tuple(
        [
            PlannedPartition(id=PartitionId(*named), replicas=current[named], target=plan[named])
            for named in list(plan)[:PARTITIONS_TOLD_MAX]
        ]
    )


async def foreseen(current: Assignment, plan: Assignment, racks: Racks) -> Foreseen:
    """Return the outcome of carrying out the plan."""
    if not current:
        # That nobody has anything of nothing would be taken for what the brokers have.
        return Foreseen()
    # In a thread: it looks at every partition in one go.
    found = await asyncio.to_thread(outcome, current, plan, racks)
    crowded = found.before.crowded, found.after.crowded
    return Foreseen(
        replicas_added=found.replicas_added,
        replicas_removed=found.replicas_removed,
        leaders_moved=found.leaders_moved,
        crowded_before=UNKNOWN if crowded[0] is None else crowded[0],
        crowded_after=UNKNOWN if crowded[1] is None else crowded[1],
        shares=shares(found.before.loads, found.after.loads),
    )


def shares(before: Sequence[Load], after: Sequence[Load]) -> tuple[BrokerShare, ...]:
    """Return the share of each broker that has any replica before or after."""
    had = {load.broker: load for load in before}
    return tuple(
        BrokerShare(
            broker=load.broker,
            replicas_before=had[load.broker].replicas if load.broker in had else 0,
            replicas_after=load.replicas,
            leaders_before=had[load.broker].leaders if load.broker in had else 0,
            leaders_after=load.leaders,
        )
        for load in after
    )

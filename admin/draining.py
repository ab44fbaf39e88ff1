"""Brokers are emptied by moves of their own kind, and that is undone: decommission, recommission.

What is begun is in the log, so it goes on whatever becomes of whoever asked for it, and of the
controller. Asked again, it begins what could not be begun before, and says what is left.
"""

from collections.abc import Sequence
from typing import Final

from admin import move_service
from admin.model import PartitionId
from admin.moves import PartitionOutcome
from admin.plan_steps import (
    BEGUN_AT_ONCE_MAX,
    Begun,
    foreseen,
    held_now,
    in_pieces,
    names_of,
    outcome_of,
    planned,
)
from admin.plans import PARTITIONS_TOLD_MAX, Emptying, PlannedPartition, PlanRequest, PlanResult
from admin.service import Service
from statemachine.commands import (
    BeginMove,
    CancelMoves,
    CordonBrokers,
    MovesCancelled,
    UnregisterBroker,
)
from statemachine.errors import Error
from statemachine.limits import REFUSED_SHOWN_MAX
from statemachine.planning.drain import drain as drained
from statemachine.planning.survey import Ground, Held, Stay, drained_keys, ground, held_keys
from statemachine.planning.unplanned import Unplanned
from statemachine.vocabulary import NO_MOVE, MoveKind

NAME_CHARACTERS_MAX: Final = 200
"""Of the name of a move that empties many brokers."""


async def drain(service: Service, who: str, request: PlanRequest) -> PlanResult:
    """Cordon brokers, begin what takes away what they have, forget them if that is wanted."""
    brokers = request.brokers or ()
    seen = (await service.read(ground)).value
    cordoned: list[int] = []
    if not request.dry_run:
        fresh = [each for each in brokers if each in seen.racks and each not in seen.cordoned]
        cordoned = await _cordon(service, who, fresh, cordoned=True)
    rows = await held_now(service, held_keys, brokers)
    free = {(row.topic, row.partition): row.replicas for row in rows if row.stay is Stay.FREE}
    plan = await in_pieces(
        drained(free, brokers, seen.takers, seen.racks, loads=seen.loads, leads=seen.leads)
    )
    moves = sorted({row.move for row in rows if row.stay is Stay.LEAVING} - {NO_MOVE})
    if isinstance(plan, Unplanned):
        emptying = _emptying(seen, brokers, rows, cordoned)
        return PlanResult(reason=plan.message, moves=moves, emptying=emptying)
    begun = Begun()
    if plan and not request.dry_run:
        await begun.begin(service, who, plan, _move(request, brokers))
    if request.unregister and not rows:
        seen = await _forget(service, who, brokers, seen)
    current = {named: free[named] for named in plan}
    return PlanResult(
        moves=[*moves, *begun.moves],
        planned=len(plan),
        partitions=planned(current, plan),
        accepted=begun.accepted,
        refused=begun.refused,
        refused_count=begun.refused_count,
        foreseen=await foreseen(current, plan, seen.racks),
        emptying=_emptying(seen, brokers, rows, cordoned),
    )


def _move(request: PlanRequest, brokers: Sequence[int]) -> BeginMove:
    return BeginMove(
        reassignments=(),
        kind=MoveKind.DRAIN,
        name=f"decommission of {names_of(brokers)}"[:NAME_CHARACTERS_MAX],
        broker=brokers[0] if len(brokers) == 1 else None,
        throttle_bytes_per_s=request.throttle_bytes_per_s,
    )


async def _cordon(
    service: Service, who: str, brokers: Sequence[int], *, cordoned: bool
) -> list[int]:
    """Those of the brokers of which it is so now."""
    if not brokers:
        return []
    command = CordonBrokers(broker_ids=tuple(brokers), cordoned=cordoned)
    answer = await service.cordon_brokers(who, command)
    return [each.broker_id for each in answer.brokers if each.error is Error.NONE]


async def _forget(service: Service, who: str, brokers: Sequence[int], seen: Ground) -> Ground:
    """Unregister those that are dead; what is known of the brokers then."""
    for each in brokers:
        if each in seen.fenced:
            await service.unregister_broker(who, UnregisterBroker(broker_id=each))
    return (await service.read(ground)).value


def _emptying(
    seen: Ground, brokers: Sequence[int], rows: Sequence[Held], cordoned: Sequence[int]
) -> Emptying:
    return Emptying(
        held=len(rows),
        leaving=sum(row.stay is Stay.LEAVING for row in rows),
        leaderless=_named(rows, Stay.LEADERLESS),
        busy=_named(rows, Stay.BUSY),
        cordoned=cordoned,
        strange=[each for each in brokers if each not in seen.racks],
        alive=[each for each in brokers if each in seen.racks and each not in seen.fenced],
    )


def _named(rows: Sequence[Held], stay: Stay) -> list[PartitionId]:
    found = sorted(PartitionId(row.topic, row.partition) for row in rows if row.stay is stay)
    return found[:PARTITIONS_TOLD_MAX]


async def undrain(service: Service, who: str, request: PlanRequest) -> PlanResult:
    """Let brokers get new replicas again, and cancel what is under way of moves that empty them.

    What has gone already does not come back by that: a rollback of the move brings it back.
    """
    brokers = request.brokers or ()
    seen = (await service.read(ground)).value
    cordoned: list[int] = []
    if not request.dry_run:
        known = [each for each in brokers if each in seen.racks]
        cordoned = await _cordon(service, who, known, cordoned=False)
    rows = [
        row for row in await held_now(service, drained_keys, brokers) if row.stay is Stay.LEAVING
    ]
    outcomes: list[PartitionOutcome] = []
    for start in range(0, len(rows), BEGUN_AT_ONCE_MAX):
        part = tuple((row.topic, row.partition) for row in rows[start : start + BEGUN_AT_ONCE_MAX])
        command = CancelMoves(partitions=part, dry_run=request.dry_run)
        answer = await move_service.alter_moves(service, who, command)
        assert isinstance(answer, MovesCancelled)
        outcomes += [outcome_of(each) for each in answer.partitions]
    refused = [each for each in outcomes if each.error_code]
    done = [each for each in outcomes if not each.error_code]
    return PlanResult(
        moves=sorted({row.move for row in rows}),
        planned=len(rows),
        partitions=[
            PlannedPartition(id=each.id, replicas=each.replicas, target=each.replicas)
            for each in done[:PARTITIONS_TOLD_MAX]
        ],
        accepted=len(done),
        refused=refused[:REFUSED_SHOWN_MAX],
        refused_count=len(refused),
        emptying=_emptying(seen, brokers, (), cordoned),
    )

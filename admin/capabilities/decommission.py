"""Decommission brokers: empty them by moves of a kind of their own, or cancel these moves.

The moves are in the log, so they go on after a fail-over and after the client has gone. A repeated
request begins what could not be begun before, and reports what is left.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from admin.capabilities.brokers import cordon, not_registered
from admin.capabilities.moves import LIST_MOVES, DryRun, NewMove, error_of
from admin.capabilities.needs import ALTER_CLUSTER
from admin.capabilities.plan_steps import (
    PARTITIONS_LISTED_MAX,
    PARTITIONS_MAX,
    DrainProgress,
    Pieces,
    PlanRequest,
    PlanResult,
    begin,
    begun_before,
    held_now,
    in_pieces,
    moves_of,
    plan_result,
    planned,
)
from admin.capabilities.schema import (
    BrokerId,
    Context,
    IdempotencyKey,
    Route,
    names_of,
    refused,
    twice,
)
from admin.model import PartitionId
from controller.move_requests import NAME_CHARACTERS_MAX
from statemachine.commands import (
    BeginMove,
    CancelMoves,
    Done,
    MovesCancelled,
    MoveStarted,
    UnregisterBroker,
)
from statemachine.errors import Error
from statemachine.limits import REFUSED_SHOWN_MAX
from statemachine.reassignment.planner.outcome import cluster_shares
from statemachine.reassignment.planner.placing import Assignment
from statemachine.reassignment.planner.plans import Unplanned
from statemachine.reassignment.planner.plans import drain as drained
from statemachine.reassignment.planner.survey import (
    ClusterSurvey,
    Held,
    Stay,
    drained_keys,
    drains,
    held_keys,
    nowhere,
    survey,
)
from statemachine.vocabulary import NO_MOVE, MoveKind

EmptiedBrokers = Annotated[
    tuple[BrokerId, ...], Meta(min_length=1, description="Ids of brokers, each once")
]


class DecommissionBrokers(NewMove[PlanResult], PlanRequest, frozen=True, kw_only=True):
    """Cordon brokers and begin moves that take away their replicas; `GET` shows the progress.

    A repeated request begins what could not be begun before. The request is refused if a broker was
    never registered.
    """

    broker_ids: EmptiedBrokers
    unregister: Annotated[
        bool, Meta(description="Unregister them once they have no replicas and are stopped")
    ] = False

    NAME = "brokers.decommission"
    NEEDS = ALTER_CLUSTER
    KEYED = False
    ROUTES = (
        Route("GET", "/v1/brokers/{id}/decommission", id="broker_ids", fixed={"dry_run": True}),
        Route(
            "PUT", "/v1/brokers/{id}/decommission", id="broker_ids", query=("dry_run", "unregister")
        ),
    )
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED,)

    def failing(self) -> str:
        return f"{names_of('broker', self.broker_ids)} cannot be decommissioned"

    def contradiction(self) -> str | None:
        if self.unregister and self.dry_run:
            return "a dry run unregisters nothing; omit unregister"
        return twice(self.broker_ids)

    async def carry_out(self, context: Context) -> PlanResult:
        service, brokers = context.service, self.broker_ids
        pieces = Pieces(context, self, self.key, MoveStarted)
        begun = await pieces.done_before(BeginMove(reassignments=()))
        unknown = [] if pieces.is_over else await _never_there(context, brokers)
        if unknown:
            raise refused(Error.BROKER_ID_NOT_REGISTERED, not_registered(unknown))
        before, wanted = await begun_before(context, moves_of(begun))
        seen = (await service.read(survey)).value
        rows = await held_now(service, held_keys, brokers)
        free = {(row.topic, row.partition): row.replicas for row in rows if row.stay is Stay.FREE}
        plan: Assignment | Unplanned = {}
        if not pieces.is_over:
            plan = await in_pieces(
                drained(
                    free,
                    brokers,
                    seen.takers,
                    seen.racks,
                    loads=seen.loads,
                    leads=seen.leads,
                    closed=seen.closed,
                )
            )
        moves = sorted({row.move for row in rows if row.stay is Stay.LEAVING} - {NO_MOVE})
        if isinstance(plan, Unplanned):
            drain = _drain_progress(seen, brokers, rows, ())
            return PlanResult(reason=plan.message, moves=tuple(moves), drain=drain)
        # A refusal changes nothing: the cordon waits for a plan. A replica that a broker gets in
        # between stays there until the request is repeated.
        cordoned: list[int] = []
        if not (self.dry_run or pieces.is_over):
            marked = seen.leaving if self.unregister else seen.cordoned
            fresh = [each for each in brokers if each in seen.racks and each not in marked]
            done = await _cordon(context, fresh, cordoned=True, unregister=self.unregister)
            cordoned = [each for each in done if each not in seen.cordoned]
            seen = (await service.read(survey)).value
        racks = seen.racks
        shares = cluster_shares(seen, rows, plan)
        if not (self.dry_run or pieces.is_over):
            begun += await begin(pieces, plan, _move(self, brokers))
            if self.unregister and not rows:
                seen = await _forget(context, brokers, seen)
        current = {**before, **{named: free[named] for named in plan}}
        plan = {**wanted, **plan}
        found = await plan_result(begun, current, plan, racks, repeated=pieces.is_over)
        return replace(
            found,
            moves=tuple(sorted({*moves, *found.moves})),
            foreseen=replace(found.foreseen, shares=shares),
            drain=_drain_progress(seen, brokers, rows, cordoned),
        )


class RecommissionBrokers(PlanRequest, frozen=True, kw_only=True):
    """End the cordon of brokers and cancel the moves that empty them.

    Replicas already moved stay where they are; a rollback of the move brings them back.
    """

    broker_ids: EmptiedBrokers
    dry_run: DryRun = False
    key: IdempotencyKey = ""

    NAME = "brokers.recommission"
    NEEDS = ALTER_CLUSTER
    CHANGES = True
    KEYED = False
    STATUS_COMMAND = LIST_MOVES
    ROUTES = (Route("PUT", "/v1/brokers/{id}/recommission", id="broker_ids", query=("dry_run",)),)

    def failing(self) -> str:
        return f"{names_of('broker', self.broker_ids)} cannot be recommissioned"

    def contradiction(self) -> str | None:
        return twice(self.broker_ids)

    async def carry_out(self, context: Context) -> PlanResult:
        service, brokers = context.service, self.broker_ids
        pieces = Pieces(context, self, self.key, MovesCancelled)
        answers = await pieces.done_before(CancelMoves())
        seen = (await service.read(survey)).value
        if pieces.is_over:
            back = [each for each in brokers if each in seen.racks and each not in seen.cordoned]
            return _undrained(answers, (), _drain_progress(seen, brokers, (), back), repeated=True)
        cordoned: list[int] = []
        if not self.dry_run:
            known = [each for each in brokers if each in seen.racks]
            cordoned = await _cordon(context, known, cordoned=False)
            seen = (await service.read(survey)).value
        rows = [
            row
            for row in await held_now(service, drained_keys, brokers)
            if row.stay is Stay.LEAVING
        ]
        named = [(row.topic, row.partition) for row in rows]
        commands = [
            CancelMoves(
                partitions=tuple(named[start : start + PARTITIONS_MAX]), dry_run=self.dry_run
            )
            for start in pieces.starts(len(named))
        ]
        answers += await pieces.carry_out(commands)
        return _undrained(answers, rows, _drain_progress(seen, brokers, (), cordoned))


async def _never_there(context: Context, brokers: Sequence[int]) -> list[int]:
    """The brokers that were never registered, as far as the image and listed moves tell."""
    service = context.service
    left = set((await service.read(lambda image: nowhere(image, brokers))).value)
    moves = (await service.read(drains)).value if left else []
    left -= {broker for _, broker in moves if broker is not None}
    for move_id, broker in moves:
        if left and broker is None:
            before, wanted = await begun_before(context, [move_id])
            left -= {each for named in before for each in {*before[named]} - {*wanted[named]}}
    return sorted(left)


def _move(request: DecommissionBrokers, brokers: Sequence[int]) -> BeginMove:
    command = BeginMove(
        reassignments=(),
        kind=MoveKind.DRAIN,
        name=f"decommission of {names_of('broker', brokers)}"[:NAME_CHARACTERS_MAX],
        broker=brokers[0] if len(brokers) == 1 else None,
    )
    return request.limited(command)


async def _cordon(
    context: Context,
    brokers: Sequence[int],
    *,
    cordoned: bool,
    unregister: bool = False,
) -> list[int]:
    """Change the cordon of brokers; return those for which that succeeded."""
    if not brokers:
        return []
    answer = await cordon(context, brokers, cordoned=cordoned, unregister=unregister)
    return [each.broker_id for each in answer.brokers if each.error is Error.NONE]


async def _forget(context: Context, brokers: Sequence[int], seen: ClusterSurvey) -> ClusterSurvey:
    """Unregister the fenced brokers; return the state of the brokers after that."""
    for each in brokers:
        if each in seen.fenced:
            await context.service.carry_out(UnregisterBroker(broker_id=each), Done, who=context.who)
    return (await context.service.read(survey)).value


def _drain_progress(
    seen: ClusterSurvey, brokers: Sequence[int], rows: Sequence[Held], cordoned: Sequence[int]
) -> DrainProgress:
    leaving = sum(row.stay is Stay.LEAVING for row in rows)
    return DrainProgress(
        held=len(rows),
        leaving=leaving,
        is_begun=leaving > 0 or not frozenset(brokers).isdisjoint(seen.cordoned),
        leaderless=_named(rows, Stay.LEADERLESS),
        busy=_named(rows, Stay.BUSY),
        cordoned=tuple(cordoned),
        to_be_unregistered=tuple(each for each in brokers if each in seen.leaving),
        unregistered=tuple(each for each in brokers if each not in seen.racks),
        alive=tuple(each for each in brokers if each in seen.racks and each not in seen.fenced),
    )


def _named(rows: Sequence[Held], stay: Stay) -> tuple[PartitionId, ...]:
    found = sorted(PartitionId(row.topic, row.partition) for row in rows if row.stay is stay)
    return tuple(found[:PARTITIONS_LISTED_MAX])


def _undrained(
    answers: Sequence[MovesCancelled],
    rows: Sequence[Held],
    drain: DrainProgress,
    *,
    repeated: bool = False,
) -> PlanResult:
    outcomes = [each for answer in answers for each in answer.partitions]
    refused = [each for each in outcomes if each.error is not Error.NONE]
    done = [each for each in outcomes if each.error is Error.NONE]
    replicas = {(each.topic, each.partition): each.replicas for each in done}
    return PlanResult(
        moves=tuple(sorted({row.move for row in rows})),
        planned=len(outcomes),
        partitions=planned(replicas, replicas),
        accepted=len(done),
        refused=tuple(error_of(each) for each in refused[:REFUSED_SHOWN_MAX]),
        refused_count=len(refused),
        drain=drain,
        repeated=repeated,
    )

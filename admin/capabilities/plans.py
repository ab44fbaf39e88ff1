"""Plans for topics: spread them over brokers, or change their replication factor."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

from msgspec import Meta

from admin.capabilities.moves import BASE, NewMove
from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER
from admin.capabilities.plan_steps import (
    PARTITIONS_LISTED_MAX,
    Pieces,
    PlanRequest,
    PlanResult,
    begin,
    begun_before,
    in_pieces,
    moves_of,
    plan_result,
)
from admin.capabilities.schema import BrokerId, Context, Route, names_of, refused, twice
from controller.service import Service
from statemachine.commands import BeginMove, MoveStarted
from statemachine.errors import Error
from statemachine.limits import PLANNED_PARTITIONS_MAX
from statemachine.reassignment.planner.placing import Racks
from statemachine.reassignment.planner.plans import Unplanned, generate, with_factor
from statemachine.reassignment.planner.survey import (
    ClusterSurvey,
    NoTopic,
    survey,
    topic_names,
    topics_piece,
)
from statemachine.vocabulary import Replicas

FACTOR_MAX: Final = 32_767

TopicNames = Annotated[tuple[str, ...], Meta(description="Names of topics, each once")]
Takers = Annotated[
    tuple[BrokerId, ...] | None,
    Meta(description="Brokers that may get replicas; null: all that take them"),
]
RackAware = Annotated[bool, Meta(description="Spread replicas over racks")]


class GeneratePlan(PlanRequest, frozen=True, kw_only=True):
    """Plan to spread topics evenly over brokers; nothing is begun."""

    topics: TopicNames | None = None
    brokers: Takers = None
    rack_aware: RackAware = True

    NAME = "plans.generate"
    NEEDS = DESCRIBE_CLUSTER
    STALE = False
    ROUTES = (Route("POST", f"{BASE}:generate"),)
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED, Error.UNKNOWN_TOPIC_OR_PARTITION)
    FAILING = "no plan can be made"

    def contradiction(self) -> str | None:
        return _contradiction(self.topics, self.brokers)

    async def carry_out(self, context: Context) -> PlanResult:
        service = context.service
        seen = (await service.read(survey)).value
        onto = _onto(seen, self.brokers)
        racks = _racks(seen, onto, rack_aware=self.rack_aware)
        current, moving = await _read_topics(service, self.topics)
        if moving:
            return PlanResult(reason=being_reassigned(moving))
        closed = [each for each in onto if each not in seen.takers]
        plan = await in_pieces(generate(current, racks, closed=closed))
        if isinstance(plan, Unplanned):
            return PlanResult(reason=plan.message)
        if len(plan) > PARTITIONS_LISTED_MAX:
            most = f"at most {PARTITIONS_LISTED_MAX:,} can be listed; plan for fewer topics"
            return PlanResult(reason=f"the plan would change {len(plan):,} partitions, and {most}")
        return await plan_result((), current, plan, racks)


class ChangeReplicationFactor(NewMove[PlanResult], PlanRequest, frozen=True, kw_only=True):
    """Begin a move that gives partitions of topics another number of replicas."""

    topics: TopicNames
    replication_factor: Annotated[int, Meta(ge=1, le=FACTOR_MAX)]
    brokers: Takers = None
    rack_aware: RackAware = True

    NAME = "topics.replication-factor"
    NEEDS = ALTER_CLUSTER
    ROUTES = (Route("POST", f"{BASE}:replication-factor", query=("dry_run",)),)
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED, Error.UNKNOWN_TOPIC_OR_PARTITION)
    FAILING = "the replication factor cannot be changed"

    def contradiction(self) -> str | None:
        return _contradiction(self.topics, self.brokers)

    async def carry_out(self, context: Context) -> PlanResult:
        service = context.service
        seen = (await service.read(survey)).value
        racks: Racks = seen.racks if self.rack_aware else dict.fromkeys(seen.racks)
        pieces = Pieces(context, self, self.key, MoveStarted)
        begun = await pieces.done_before(BeginMove(reassignments=()))
        before, plan = await begun_before(context, moves_of(begun))
        if pieces.is_over:
            return await plan_result(begun, before, plan, racks, repeated=True)
        onto = _onto(seen, self.brokers)
        current, underway = await _read_topics(service, self.topics)
        left = {each: had for each, had in current.items() if each not in plan}
        moving = [each for each in underway if each in left]
        if moving:
            return PlanResult(reason=being_reassigned(moving))
        takers = [each for each in onto if each in seen.takers]
        more = await in_pieces(
            with_factor(left, self.replication_factor, takers, racks, loads=seen.loads)
        )
        if isinstance(more, Unplanned):
            if not moves_of(begun):
                return PlanResult(reason=more.message)
            more = {}
        if not self.dry_run:
            name = f"replication factor {self.replication_factor}"
            command = self.limited(BeginMove(reassignments=(), name=name))
            begun += await begin(pieces, more, command)
        return await plan_result(begun, {**left, **before}, {**plan, **more}, racks)


def _contradiction(topics: Sequence[str] | None, brokers: Sequence[int] | None) -> str | None:
    if topics is not None and len(set(topics)) != len(topics):
        return "a topic is named twice; name each once"
    if topics == ():
        return "no topic is named; name at least one, or omit topics for all"
    if brokers == ():
        return "no broker is named; name at least one, or omit brokers for all that take replicas"
    return twice(brokers or ())


def _onto(seen: ClusterSurvey, brokers: Sequence[int] | None) -> Sequence[int]:
    """The brokers that may get replicas: those named, or else all that take them."""
    if brokers is None:
        return seen.takers
    unknown = [each for each in brokers if each not in seen.racks]
    if unknown:
        there = f"the brokers are {', '.join(map(str, seen.racks)) or 'none'}"
        what = "are not registered" if len(unknown) > 1 else "is not registered"
        raise refused(
            Error.BROKER_ID_NOT_REGISTERED, f"{names_of('broker', unknown)} {what}; {there}"
        )
    dead = [each for each in brokers if each not in seen.live]
    if dead:
        what = "are not alive" if len(dead) > 1 else "is not alive"
        raise refused(
            Error.INVALID_REQUEST, f"{names_of('broker', dead)} {what}; omit dead brokers"
        )
    return brokers


def _racks(seen: ClusterSurvey, onto: Sequence[int], *, rack_aware: bool) -> Racks:
    if not rack_aware:
        return dict.fromkeys(onto)
    racks = {each: seen.racks[each] for each in onto}
    without = [each for each, rack in racks.items() if rack is None]
    if without and len(without) < len(racks):
        has = "have" if len(without) > 1 else "has"
        reason = (
            f"{names_of('broker', without)} {has} no rack, and others have one; plan without racks"
        )
        raise refused(Error.INVALID_REQUEST, reason)
    return racks


async def _read_topics(
    service: Service, topics: Sequence[str] | None
) -> tuple[dict[tuple[str, int], Replicas], list[tuple[str, int]]]:
    """Return the replicas of the partitions to plan for, and those under reassignment."""
    names = topics
    if names is None:
        names = (await service.read_long(topic_names)).value
    replicas: dict[tuple[str, int], Replicas] = {}
    moving: list[tuple[str, int]] = []
    at = 0, 0
    while at[0] < len(names) and len(replicas) <= PLANNED_PARTITIONS_MAX:
        reading = partial(topics_piece, names=names, at=at)
        piece = (await service.read(reading, stale=True)).value
        if isinstance(piece, NoTopic):
            if topics is not None:
                reason = f"there is no topic {piece.name}"
                raise refused(Error.UNKNOWN_TOPIC_OR_PARTITION, reason)
            # Deleted since its name was read.
            at = at[0] + 1, 0
            continue
        replicas |= piece.replicas
        moving += piece.moving
        at = piece.next
    return replicas, moving


def being_reassigned(moving: Sequence[tuple[str, int]]) -> str:
    """Return the reason why partitions under reassignment cannot be planned for."""
    topic, number = moving[0]
    more = len(moving) - 1
    others = f", as are {more} other partition(s) of these topics" if more else ""
    return f"{topic}-{number} is being reassigned{others}; wait until that is done, or cancel it"

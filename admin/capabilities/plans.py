"""Plans: spread topics, change replication factors, decommission brokers and take them back."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from admin.capabilities.moves import LOOK, NewMove, PartitionOutcome
from admin.capabilities.schema import (
    Answer,
    BrokerId,
    IdempotencyKey,
    Request,
    Route,
    known,
)
from admin.model import PartitionId
from controller.quorum_description import UNKNOWN
from statemachine.errors import Error

PLAN_FILE_VERSION: Final = 1
"""Of the JSON files of `reassign-partitions`."""
FACTOR_MAX: Final = 32_767
PARTITIONS_TOLD_MAX: Final = 20_000
"""Partitions of a plan that an answer tells one by one: about a megabyte."""
MOVES: Final = "/v1/reassignments"

TopicNames = Annotated[tuple[str, ...], Meta(description="Names of topics, each once")]
Takers = Annotated[
    tuple[BrokerId, ...] | None,
    Meta(description="Brokers that may get replicas; null: all that take them"),
]
RackAware = Annotated[bool, Meta(description="Whether to spread replicas over racks")]
DryRun = Annotated[bool, Meta(description="Only tell what would be done")]
EmptiedBrokers = Annotated[
    tuple[BrokerId, ...], Meta(min_length=1, description="Ids of brokers, each once")
]


class PlannedPartition(Answer, array_like=True, frozen=True, kw_only=True):
    """A partition with its replicas and its target."""

    id: PartitionId
    replicas: tuple[int, ...]
    target: tuple[int, ...]


class BrokerShare(Answer, frozen=True, kw_only=True):
    """The share of a broker in the planned partitions, before and after.

    Where brokers are emptied it is of all that there are, and what it leads.
    """

    broker: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    """Of how many it is the preferred leader; where brokers are emptied, how many it leads."""
    leaders_after: int


class Foreseen(Answer, frozen=True, kw_only=True):
    """The outcome of a plan."""

    replicas_added: int = 0
    replicas_removed: int = 0
    leaders_moved: int = 0
    crowded_before: int = UNKNOWN
    """Partitions that share racks needlessly; `UNKNOWN` where racks are not known."""
    crowded_after: int = UNKNOWN
    shares: tuple[BrokerShare, ...] = ()


class Emptying(Answer, frozen=True, kw_only=True):
    """The progress of brokers towards having no replicas."""

    held: int = 0
    """Partitions that have a replica on any of them."""
    leaving: int = 0
    """Those of them that were on their way elsewhere before."""
    leaderless: tuple[PartitionId, ...] = ()
    """Those that nobody leads: there is nobody to copy them from."""
    busy: tuple[PartitionId, ...] = ()
    """Those that are being moved, and keep a replica on the brokers."""
    cordoned: tuple[int, ...] = ()
    """Brokers that get no new replicas from now on, or again."""
    to_be_unregistered: tuple[int, ...] = ()
    """Brokers that are unregistered once they have nothing and are stopped, by whoever leads."""
    strange: tuple[int, ...] = ()
    """Brokers that are not registered, or not any more."""
    alive: tuple[int, ...] = ()
    """Those that are, and live."""


class PlanResult(Answer, frozen=True, kw_only=True):
    """The result of a request to plan."""

    reason: str | None = None
    """The reason why there is no plan."""
    moves: tuple[int, ...] = ()
    """That were begun, and of a drain those that empty the brokers already."""
    planned: int = 0
    """Partitions that are to be changed."""
    partitions: tuple[PlannedPartition, ...] = ()
    """As many of them as there is room for."""
    accepted: int = 0
    refused: tuple[PartitionOutcome, ...] = ()
    """The first of those that could not be begun, or cancelled."""
    refused_count: int = 0
    foreseen: Foreseen = msgspec.field(default_factory=Foreseen)
    emptying: Emptying = msgspec.field(default_factory=Emptying)
    repeated: Annotated[bool, Meta(description="It was carried out before, with this key")] = False


class GeneratePlan(Request[PlanResult], frozen=True, kw_only=True):
    """Plan to spread topics evenly over brokers; nothing is begun."""

    topics: TopicNames | None = None
    brokers: Takers = None
    rack_aware: RackAware = True

    NAME = "plans.generate"
    STALE = False
    ROUTES = (Route(method="POST", path=f"{MOVES}:generate"),)
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED, Error.UNKNOWN_TOPIC_OR_PARTITION)

    def failing(self) -> str:
        return "no plan can be made"


class ChangeReplicationFactor(NewMove[PlanResult], frozen=True, kw_only=True):
    """Begin a move that gives partitions of topics another number of replicas."""

    topics: TopicNames
    replication_factor: Annotated[int, Meta(ge=1, le=FACTOR_MAX)]
    brokers: Takers = None
    rack_aware: RackAware = True
    dry_run: DryRun = False
    key: IdempotencyKey = ""

    NAME = "topics.replication-factor"
    CHANGES = True
    LOOK = LOOK
    ROUTES = (
        Route(method="POST", path=f"{MOVES}:replication-factor", fields={"dry_run": "dry_run"}),
    )
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED, Error.UNKNOWN_TOPIC_OR_PARTITION)

    def only_reads(self) -> bool:
        return self.dry_run

    def failing(self) -> str:
        return "the replication factor cannot be changed"


class DecommissionBrokers(NewMove[PlanResult], frozen=True, kw_only=True):
    """Cordon brokers and begin moves that take away their replicas; `GET` tells how far that is.

    Repeated, it begins what could not be begun before.
    """

    broker_ids: EmptiedBrokers
    unregister: Annotated[
        bool, Meta(description="Unregister them once they have no replicas and are stopped")
    ] = False
    dry_run: DryRun = False
    key: IdempotencyKey = ""

    NAME = "brokers.decommission"
    CHANGES = True
    KEYED = False
    LOOK = LOOK
    ROUTES = (
        Route(
            method="GET",
            path="/v1/brokers/{id}/decommission",
            fields={"id": "broker_ids"},
            fixed={"dry_run": True},
        ),
        Route(
            method="PUT",
            path="/v1/brokers/{id}/decommission",
            fields={"id": "broker_ids", "dry_run": "dry_run", "unregister": "unregister"},
        ),
    )
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED,)

    def only_reads(self) -> bool:
        return self.dry_run

    def failing(self) -> str:
        return f"{names_of(self.broker_ids)} cannot be decommissioned"


class RecommissionBrokers(Request[PlanResult], frozen=True, kw_only=True):
    """End the cordon of brokers and cancel the moves that empty them.

    What has been moved away stays there; a rollback of the move brings it back.
    """

    broker_ids: EmptiedBrokers
    dry_run: DryRun = False
    key: IdempotencyKey = ""

    NAME = "brokers.recommission"
    CHANGES = True
    KEYED = False
    LOOK = LOOK
    ROUTES = (
        Route(
            method="PUT",
            path="/v1/brokers/{id}/recommission",
            fields={"id": "broker_ids", "dry_run": "dry_run"},
        ),
    )

    def only_reads(self) -> bool:
        return self.dry_run

    def failing(self) -> str:
        return f"{names_of(self.broker_ids)} cannot be recommissioned"


PlanRequest = GeneratePlan | ChangeReplicationFactor | DecommissionBrokers | RecommissionBrokers


def contradiction(request: PlanRequest) -> str | None:
    """Return the contradiction in the request, with what would be right, or None."""
    if isinstance(request, DecommissionBrokers | RecommissionBrokers):
        if len(set(request.broker_ids)) != len(request.broker_ids):
            return "a broker is named twice; name each once"
        if isinstance(request, DecommissionBrokers) and request.unregister and request.dry_run:
            return "nothing is unregistered by what changes nothing; leave it out"
        return None
    named, topics = request.brokers, request.topics
    if named is not None and len(set(named)) != len(named):
        return "a broker is named twice; name each once"
    if topics is not None and len(set(topics)) != len(topics):
        return "a topic is named twice; name each once"
    if topics == ():
        return "no topic is named; name at least one, or none at all for all of them"
    if named == ():
        return "no broker is named; name at least one, or none at all for all that take replicas"
    return None


def names_of(brokers: Sequence[int] | Mapping[int, object]) -> str:
    """Brokers in a sentence."""
    several = "brokers" if len(brokers) > 1 else "broker"
    return f"{several} {', '.join(map(str, brokers))}"


# --- JSON --------------------------------------------------------------------------------------


class BytesMoved(Answer, frozen=True):
    """The bytes that a plan copies, or the reason why they are unknown."""

    size_bytes: int | None
    reason: str | None = None


UNTRIED: Final = BytesMoved(None, "brokers are asked for it when a plan is tried (dry run)")
"""Of what begins at once: what is left to copy is told with its moves."""


def plan_data(found: PlanResult, moved: BytesMoved = UNTRIED) -> dict[str, Any]:
    """A plan in the form of `reassign-partitions`, the one that leads back, and what it does."""
    return {
        "partitions_planned": found.planned,
        "plan": _file([(each.id, each.target) for each in found.partitions]),
        "rollback_plan": _file([(each.id, each.replicas) for each in found.partitions]),
        "outcome": {**_foreseen(found.foreseen), **bytes_data(moved)},
    }


def begun_data(found: PlanResult) -> dict[str, Any]:
    """The JSON of what was begun and what was refused."""
    return {
        "move_ids": list(found.moves),
        "partitions_accepted": found.accepted,
        "partitions_refused": found.refused_count,
        "errors": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "kafka_error": each.kafka_error,
                "kafka_error_code": each.kafka_error_code,
                "message": each.message,
            }
            for each in found.refused
        ],
    }


def replicas_data(found: PlanResult) -> list[dict[str, Any]]:
    """The JSON of the replicas of partitions whose move is cancelled."""
    return [
        {"topic": each.id.topic, "partition": each.id.partition, "replicas": list(each.replicas)}
        for each in found.partitions
    ]


def emptying_data(found: PlanResult) -> dict[str, Any]:
    """The progress of brokers towards having no replicas."""
    emptying = found.emptying
    return {
        "state": _state(found),
        "reason": found.reason,
        "registered": not emptying.strange,
        "alive": bool(emptying.alive),
        "to_be_unregistered": bool(emptying.to_be_unregistered),
        "partitions_held": emptying.held,
        "partitions_leaving": _leaving(found),
        "partitions_leaderless": _named(emptying.leaderless),
        "partitions_busy": _named(emptying.busy),
    }


def _state(found: PlanResult) -> str:
    """empty; moving while all is on its way; waiting where something cannot be, or is not asked."""
    if not found.emptying.held:
        return "empty"
    return "moving" if found.emptying.held <= _leaving(found) else "waiting"


def _leaving(found: PlanResult) -> int:
    """Partitions on their way; of what had begun before, those that are so still."""
    return found.emptying.leaving + (0 if found.repeated else found.accepted)


def bytes_data(moved: BytesMoved) -> dict[str, Any]:
    """The JSON of the bytes that a plan copies, or the reason why they are unknown."""
    return {"bytes_moved": moved.size_bytes, "bytes_moved_unknown": moved.reason}


def _foreseen(foreseen: Foreseen) -> dict[str, Any]:
    return {
        "replicas_added": foreseen.replicas_added,
        "replicas_removed": foreseen.replicas_removed,
        "leaders_moved": foreseen.leaders_moved,
        "racks_shared_before": known(foreseen.crowded_before),
        "racks_shared_after": known(foreseen.crowded_after),
        "brokers": [
            {
                "broker_id": each.broker,
                "replicas_before": each.replicas_before,
                "replicas_after": each.replicas_after,
                "leaders_before": each.leaders_before,
                "leaders_after": each.leaders_after,
            }
            for each in foreseen.shares
        ],
    }


def _file(assigned: list[tuple[PartitionId, Any]]) -> dict[str, Any]:
    return {
        "version": PLAN_FILE_VERSION,
        "partitions": [
            {"topic": id.topic, "partition": id.partition, "replicas": list(replicas)}
            for id, replicas in assigned
        ],
    }


def _named(ids: Any) -> list[dict[str, Any]]:
    return [{"topic": each.topic, "partition": each.partition} for each in ids]

"""The bodies of HTTP responses that differ from the answer of the capability.

`openapi` describes them, and `app` makes them. Every response in the tests of the HTTP listener is
validated against that description.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from admin.capabilities.brokers import (
    CordonBrokers,
    DescribedBroker,
    UncordonBrokers,
    UnregisterBrokers,
)
from admin.capabilities.decommission import DecommissionBrokers, RecommissionBrokers
from admin.capabilities.moves import (
    AlterMove,
    CancelMoves,
    CopiesNotStopped,
    CopiesNotStoppedTotal,
    DescribedMove,
    MoveProgress,
    MovesChanged,
    PartitionError,
    PauseMoves,
    PauseOfAll,
    ResumeMoves,
    RollBackMove,
)
from admin.capabilities.plans import ChangeReplicationFactor, GeneratePlan
from admin.capabilities.schema import Answer, AsOfOffset, Partition, Request, Route, answer_type
from statemachine.reassignment.planner.outcome import Outcome

STORED: Final = "/v1/brokers:stored-bytes"
STORED_BROKERS_MAX: Final = 50
"""Brokers of one request: each is asked, sixteen at a time."""

BytesMoved = Annotated[int | None, Meta(description="Bytes to copy; null: unknown")]
Unknown = Annotated[str | None, Meta(description="The reason why the bytes are unknown")]
DryRun = Annotated[bool, Meta(description="True: nothing was changed")]
Refused = Annotated[tuple[PartitionError, ...], Meta(description="The first refused partitions")]


class PlannedReplicas(Partition, frozen=True, kw_only=True):
    """The replicas of a partition in a plan."""

    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] | UnsetType = UNSET


class Plan(Struct, frozen=True, kw_only=True):
    """A plan as `reassign-partitions` takes it."""

    version: int
    partitions: tuple[PlannedReplicas, ...]


class PlanOutcome(Outcome, frozen=True, kw_only=True):
    """The outcome of a plan, and what it copies."""

    bytes_moved: BytesMoved
    bytes_moved_unknown: Unknown


class GeneratedPlan(Answer, frozen=True, kw_only=True):
    """A plan, the plan that takes it back, and its outcome."""

    partitions_planned: int
    plan: Plan
    rollback_plan: Plan
    outcome: PlanOutcome


class BegunPlan(GeneratedPlan, frozen=True, kw_only=True):
    """A plan, and the moves that it began."""

    dry_run: DryRun
    move_ids: tuple[int, ...]
    partitions_accepted: int
    partitions_refused: int
    errors: Refused


class Decommission(BegunPlan, frozen=True, kw_only=True):
    """The progress of a broker towards having no replicas."""

    broker_id: int
    state: Annotated[
        Literal["none", "moving", "waiting", "empty"],
        Meta(description="none: not begun; waiting: some partitions cannot be moved now"),
    ]
    reason: Annotated[str | None, Meta(description="The reason why there is no plan")]
    registered: bool
    alive: bool
    to_be_unregistered: bool
    partitions_held: int
    partitions_leaving: int
    partitions_leaderless: tuple[Partition, ...]
    partitions_busy: tuple[Partition, ...]
    moves: tuple[MoveProgress, ...]


class Recommission(Answer, frozen=True, kw_only=True):
    """A broker that takes replicas again, and the moves away from it that were cancelled."""

    broker_id: int
    dry_run: DryRun
    cordoned: bool
    partitions: tuple[PlannedReplicas, ...]
    move_ids: tuple[int, ...]
    partitions_accepted: int
    partitions_refused: int
    errors: Refused


class AllPaused(Answer, frozen=True, kw_only=True):
    """The pause of all moves; null: there is none."""

    as_of_offset: AsOfOffset
    all_paused: PauseOfAll
    not_stopped: CopiesNotStopped = ()
    not_stopped_total: CopiesNotStoppedTotal = 0


class PausedMove(DescribedMove, frozen=True, kw_only=True):
    """A move after a pause or its end."""

    not_stopped: CopiesNotStopped = ()
    not_stopped_total: CopiesNotStoppedTotal = 0


class Cancelled(MovesChanged, frozen=True, kw_only=True):
    """The effects of a cancel."""

    dry_run: DryRun


class RolledBack(MovesChanged, frozen=True, kw_only=True):
    """The effects of a rollback; of a dry run with the bytes to copy."""

    dry_run: DryRun | UnsetType = UNSET
    bytes_moved: BytesMoved | UnsetType = UNSET
    bytes_moved_unknown: Unknown | UnsetType = UNSET


class Unregistered(Answer, frozen=True, kw_only=True):
    """A broker that is no longer registered."""

    broker_id: int
    registered: bool


class StoredBytes(Answer, frozen=True, kw_only=True):
    """The bytes of the logs of a broker."""

    broker_id: int
    stored_bytes: Annotated[int | None, Meta(description="null: unknown")]
    unknown: Annotated[str | None, Meta(description="The reason why they are unknown")]


class BrokersStored(Answer, frozen=True, kw_only=True):
    """The bytes of the logs of brokers, as these reported them in the last seconds."""

    brokers: Annotated[tuple[StoredBytes, ...], Meta(description="In the order of the request")]


class PlannedMove(PlannedReplicas, frozen=True, kw_only=True):
    """The steps of a partition."""

    steps: Annotated[tuple[tuple[int, ...], ...], Meta(description="The replicas after each step")]


class NewMove(Answer, frozen=True, kw_only=True):
    """The move that has begun; of a dry run with what it would do."""

    move_id: Annotated[int | None, Meta(description="null: nothing had to change")]
    accepted: int
    refused: int
    errors: Refused
    dry_run: DryRun | UnsetType = UNSET
    planned: tuple[PlannedMove, ...] | UnsetType = UNSET
    planned_not_shown: int | UnsetType = UNSET
    bytes_moved: BytesMoved | UnsetType = UNSET
    bytes_moved_unknown: Unknown | UnsetType = UNSET


class ProblemDetails(Struct, frozen=True, kw_only=True):
    """An error (RFC 9457)."""

    type: Annotated[str, Meta(description="urn:metaquorum:problem: and the kind; it is stable")]
    title: str
    status: int
    detail: Annotated[str, Meta(description="What is wrong, and what would be right")]
    kafka_error: str | UnsetType = UNSET
    kafka_error_code: int | UnsetType = UNSET
    retriable: bool | UnsetType = UNSET
    leader_id: Annotated[
        int | UnsetType | None, Meta(description="The active controller, if one is known")
    ] = UNSET
    errors: Refused | UnsetType = UNSET
    refused: int | UnsetType = UNSET


_BODIES: Final[Mapping[type[Request[Any]], type[Struct]]] = MappingProxyType(
    {
        PauseMoves: AllPaused,
        ResumeMoves: AllPaused,
        AlterMove: DescribedMove,
        CancelMoves: Cancelled,
        RollBackMove: RolledBack,
        GeneratePlan: GeneratedPlan,
        ChangeReplicationFactor: BegunPlan,
        DecommissionBrokers: Decommission,
        RecommissionBrokers: Recommission,
        CordonBrokers: DescribedBroker,
        UncordonBrokers: DescribedBroker,
        UnregisterBrokers: Unregistered,
    }
)


def body_of(kind: type[Request[Any]], route: Route) -> type[Struct]:
    """The body of a successful response on this route."""
    if kind in (PauseMoves, ResumeMoves) and route.id:
        return PausedMove
    return _BODIES.get(kind) or answer_type(kind)

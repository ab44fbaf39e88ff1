"""The question of those who let plans be made, and how its answer is read."""

from collections.abc import Sequence
from typing import Any, Final

from admin.client.asking import Answer, Question
from admin.client.channels import Form
from admin.faults import error_name
from admin.model import PartitionId
from admin.moves import PartitionOutcome
from admin.plans import (
    BrokerShare,
    Emptying,
    Foreseen,
    Operation,
    PlannedPartition,
    PlanRequest,
    PlanResult,
)
from quorum.protocol.apis import ApiKey

LOOK: Final = "metaquorum moves list"


def plan_moves(request: PlanRequest) -> Question:
    """Spread topics, change a replication factor, empty brokers, or end that."""
    changes = not request.dry_run and request.operation is not Operation.SPREAD

    def fill(form: Form) -> Any:
        return form.request(
            timeout=form.patience,
            operation=request.operation.value,
            topics=request.topics,
            broker_ids=request.brokers,
            heeds_racks=request.heeds_racks,
            replication_factor=request.factor,
            dry_run=request.dry_run,
            unregister=request.unregister,
            throttle=request.throttle_bytes_per_s,
            key=request.key,
        )

    return Question(
        api_key=ApiKey.PLAN_MOVES,
        fill=fill,
        failing=failing(request),
        look=LOOK if changes else None,
    )


def failing(request: PlanRequest) -> str:
    """How to begin the sentence that says that it failed."""
    match request.operation:
        case Operation.SPREAD:
            return "no plan can be made"
        case Operation.FACTOR:
            return "the replication factor cannot be changed"
        case Operation.DRAIN:
            return f"{_brokers(request)} cannot be decommissioned"
        case Operation.UNDRAIN:
            return f"{_brokers(request)} cannot be recommissioned"


def _brokers(request: PlanRequest) -> str:
    ids = request.brokers or ()
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def read_plan(answer: Answer) -> PlanResult:
    """What came of it."""
    response = answer.response
    return PlanResult(
        reason=response.reason,
        moves=response.move_ids,
        planned=response.planned_count,
        partitions=[
            PlannedPartition(
                id=PartitionId(each.topic_name, each.partition_index),
                replicas=each.replicas,
                target=each.target,
            )
            for each in response.planned
        ],
        accepted=response.accepted_count,
        refused=[
            PartitionOutcome(
                id=PartitionId(each.topic_name, each.partition_index),
                error_code=int(each.error_code),
                error_name=error_name(int(each.error_code)),
                message=each.error_message,
            )
            for each in response.refused
        ],
        refused_count=response.refused_count,
        foreseen=_foreseen(response),
        emptying=Emptying(
            held=response.held_count,
            leaving=response.leaving_count,
            leaderless=_named(response.leaderless),
            busy=_named(response.busy),
            cordoned=response.cordoned,
            to_be_unregistered=response.to_be_unregistered,
            strange=response.strange,
            alive=response.alive,
        ),
        is_repeated=response.repeated,
    )


def _foreseen(response: Any) -> Foreseen:
    return Foreseen(
        replicas_added=response.replicas_added,
        replicas_removed=response.replicas_removed,
        leaders_moved=response.leaders_moved,
        crowded_before=response.crowded_before,
        crowded_after=response.crowded_after,
        shares=[
            BrokerShare(
                broker=each.broker_id,
                replicas_before=each.replicas_before,
                replicas_after=each.replicas_after,
                leaders_before=each.leaders_before,
                leaders_after=each.leaders_after,
            )
            for each in response.shares
        ],
    )


def _named(partitions: Sequence[Any]) -> list[PartitionId]:
    return [PartitionId(each.topic_name, each.partition_index) for each in partitions]

"""Plans: PlanMoves (20005)."""

from collections.abc import Sequence
from typing import Any, Final

from admin.capabilities import planning
from admin.model import PartitionId
from admin.plans import Operation, PlanRequest
from controller.apis.request import KafkaRequest, code
from controller.service import Service
from statemachine.errors import Refusal

INVALID_REQUEST: Final = 42


async def plan_moves(call: KafkaRequest, service: Service) -> Any:
    """Spread topics, change a replication factor, empty brokers, or end that."""
    message = call.message
    if message.operation not in tuple(Operation):
        known = ", ".join(f"{each.value} {each.name.lower()}" for each in Operation)
        text = f"operation {message.operation} is not known; there is {known}"
        return refuse_plan(call, INVALID_REQUEST, text)
    found = await planning.carry_out(service, call.principal, _request(message))
    if isinstance(found, Refusal):
        return refuse_plan(call, found.error.code, found.message)
    foreseen, emptying = found.foreseen, found.emptying
    return call.respond(
        error_code=code(0),
        error_message=None,
        reason=found.reason,
        move_ids=tuple(found.moves),
        planned_count=found.planned,
        planned=tuple(
            call.part(
                "PlannedPartition",
                topic_name=each.id.topic,
                partition_index=each.id.partition,
                replicas=tuple(each.replicas),
                target=tuple(each.target),
            )
            for each in found.partitions
        ),
        accepted_count=found.accepted,
        refused_count=found.refused_count,
        refused=tuple(
            call.part(
                "RefusedPartition",
                topic_name=each.id.topic,
                partition_index=each.id.partition,
                error_code=code(each.error_code),
                error_message=each.message,
            )
            for each in found.refused
        ),
        replicas_added=foreseen.replicas_added,
        replicas_removed=foreseen.replicas_removed,
        leaders_moved=foreseen.leaders_moved,
        crowded_before=foreseen.crowded_before,
        crowded_after=foreseen.crowded_after,
        shares=tuple(
            call.part(
                "BrokerShare",
                broker_id=each.broker,
                replicas_before=each.replicas_before,
                replicas_after=each.replicas_after,
                leaders_before=each.leaders_before,
                leaders_after=each.leaders_after,
            )
            for each in foreseen.shares
        ),
        held_count=emptying.held,
        leaving_count=emptying.leaving,
        leaderless=_named(call, emptying.leaderless),
        busy=_named(call, emptying.busy),
        cordoned=tuple(emptying.cordoned),
        strange=tuple(emptying.strange),
        alive=tuple(emptying.alive),
        repeated=found.is_repeated,
        to_be_unregistered=tuple(emptying.to_be_unregistered),
    )


def _request(message: Any) -> PlanRequest:
    topics, brokers = message.topics, message.broker_ids
    return PlanRequest(
        operation=Operation(message.operation),
        topics=None if topics is None else tuple(topics),
        brokers=None if brokers is None else tuple(brokers),
        heeds_racks=message.heeds_racks,
        factor=message.replication_factor,
        dry_run=message.dry_run,
        unregister=message.unregister,
        throttle_bytes_per_s=message.throttle,
        key=message.key,
    )


def _named(call: KafkaRequest, ids: Sequence[PartitionId]) -> tuple[Any, ...]:
    return tuple(
        call.part("NamedPartition", topic_name=each.topic, partition_index=each.partition)
        for each in ids
    )


def refuse_plan(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message or None)

"""Moves: AlterMoves (20003), DescribeMoves (20004), DescribeMovePlan (20009)."""

from dataclasses import fields
from typing import Any, Final

from admin import move_plans, move_requests, move_service, moves
from admin.model import PartitionId
from admin.moves import (
    PARTITIONS_SHOWN_MAX,
    MovesRequest,
    MoveStanding,
    MovingPartition,
    Operation,
    Page,
)
from controller.apis.request import KafkaRequest, code
from controller.service import AsOf, Service
from statemachine.errors import Refusal

INVALID_REQUEST: Final = 42

_PLAIN: Final = tuple(
    each.name for each in fields(MoveStanding) if each.name not in ("id", "partitions")
)
_COPIES: Final = ("bytes_left", "bytes_per_s", "time_left_ms")
_PARTITION_PLAIN: Final = ("step", "step_count", "state", "reason", "detail", "since_ms", *_COPIES)
_REPLICAS: Final = ("replicas", "target", "adding", "removing", "reason_brokers")
"""Fields that are on the wire as they are told."""


async def alter_moves(call: KafkaRequest, service: Service) -> Any:
    """Pause, resume, cancel, roll back, order or throttle moves."""
    if call.message.operation not in tuple(Operation):
        words = [f"{each.value} {each.name.lower().replace('_', ' ')}" for each in Operation]
        known = ", ".join(words)
        text = f"operation {call.message.operation} is not known; there is {known}"
        return refuse_alter(call, INVALID_REQUEST, text)
    command = move_requests.command_of(_request(call.message), call.principal)
    if isinstance(command, Refusal):
        return refuse_alter(call, command.error.code, command.message)
    key = call.message.key
    found = moves.told(await move_service.alter_moves(service, call.principal, command, key))
    if isinstance(found, Refusal):
        return refuse_alter(call, found.error.code, found.message)
    return call.respond(
        error_code=code(0),
        error_message=None,
        begun_move_id=found.begun,
        repeated=found.is_repeated,
        accepted_count=found.accepted,
        refused_count=found.refused,
        moves=tuple(
            call.part(
                "AlteredMove",
                move_id=each.move_id,
                error_code=code(each.error_code),
                error_message=each.message,
            )
            for each in found.moves
        ),
        partitions=tuple(
            call.part(
                "AlteredPartition",
                topic_name=each.id.topic,
                partition_index=each.id.partition,
                error_code=code(each.error_code),
                error_message=each.message,
                replicas=tuple(each.replicas),
            )
            for each in found.partitions
        ),
    )


def _request(message: Any) -> MovesRequest:
    whole = [each.name for each in message.topics if each.partition_indexes is None]
    parts = [
        PartitionId(topic.name, each)
        for topic in message.topics
        for each in topic.partition_indexes or ()
    ]
    return MovesRequest(
        operation=Operation(message.operation),
        move_ids=tuple(message.move_ids),
        topics=tuple(whole),
        partitions=tuple(parts),
        everything=message.everything,
        dry_run=message.dry_run,
        priority=message.priority,
        throttle_bytes_per_s=message.throttle,
        key=message.key,
    )


def refuse_alter(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(
        error_code=code(error), error_message=message or None, moves=(), partitions=()
    )


async def describe_moves(call: KafkaRequest, service: Service) -> Any:
    """The moves that are listed, or those named with where their partitions stand."""
    wanted, page = call.message.move_ids, _page(call.message)
    if not 0 < page.size <= PARTITIONS_SHOWN_MAX:
        reason = f"{page.size} partitions cannot be told of; ask for 1 to {PARTITIONS_SHOWN_MAX}"
        return refuse_describe(call, INVALID_REQUEST, reason)
    told = service.controller.told_of_copies()
    found = await service.read(
        lambda image: moves.standings(image, wanted, page, told), stale=call.stale
    )
    if isinstance(found.value, Refusal):
        return refuse_describe(call, found.value.error.code, found.value.message)
    payload = call.respond(
        error_code=code(0),
        error_message=None,
        all_paused_by=found.value.all_paused_by,
        all_paused_since_ms=found.value.all_paused_since_ms,
        moves=tuple(_described(call, each) for each in found.value.moves),
    )
    return AsOf(payload, found.offset)


def _page(message: Any) -> Page:
    after = None
    if message.after_topic is not None:
        after = PartitionId(message.after_topic, message.after_partition)
    return Page(after=after, size=message.partitions_max)


def _described(call: KafkaRequest, move: MoveStanding) -> Any:
    return call.part(
        "DescribedMove",
        move_id=move.id,
        partitions=tuple(_moving(call, each) for each in move.partitions),
        **{name: getattr(move, name) for name in _PLAIN},
    )


def _moving(call: KafkaRequest, partition: MovingPartition) -> Any:
    return call.part(
        "MovingPartition",
        topic_name=partition.id.topic,
        partition_index=partition.id.partition,
        **{name: getattr(partition, name) for name in _PARTITION_PLAIN},
        **{name: tuple(getattr(partition, name)) for name in _REPLICAS},
    )


def refuse_describe(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message or None, moves=())


async def describe_plan(call: KafkaRequest, service: Service) -> Any:
    """A part of what a move asked for, and of what there was before."""
    move_id, part = call.message.move_id, call.message.part
    found = await service.read(
        lambda image: move_plans.plan(image, move_id, part), stale=call.stale
    )
    plan = found.value
    if isinstance(plan, Refusal):
        return refuse_plan(call, plan.error.code, plan.message)
    partitions = tuple(
        call.part(
            "PlannedPartition",
            topic_name=id.topic,
            partition_index=id.partition,
            target=target,
            original=plan.originals[id],
        )
        for id, target in plan.targets.items()
    )
    payload = call.respond(
        error_code=code(0),
        error_message=None,
        part_count=plan.part_count,
        gone_count=plan.gone,
        partitions=partitions,
    )
    return AsOf(payload, found.offset)


def refuse_plan(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message or None, partitions=())

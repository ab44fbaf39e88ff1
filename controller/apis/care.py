"""Care of brokers: AlterBrokers (20006), SafeToStop (20007), DescribeBrokers (20008)."""

from typing import Any, Final

from admin import broker_service, care
from admin.care import Operation
from controller.apis.request import KafkaRequest, code
from controller.service import AsOf, Service
from statemachine.errors import Refusal

INVALID_REQUEST: Final = 42


async def alter_brokers(call: KafkaRequest, service: Service) -> Any:
    """Cordon brokers, end that, or forget those that are not in use; each on its own."""
    operation, ids = call.message.operation, call.message.broker_ids
    if operation not in tuple(Operation):
        known = ", ".join(f"{each.value} {each.name.lower()}" for each in Operation)
        text = f"operation {operation} is not known; there is {known}"
        return refuse_brokers(call, INVALID_REQUEST, text)
    if not ids:
        return refuse_brokers(call, INVALID_REQUEST, "no broker is named; name at least one")
    found = await broker_service.alter_brokers(service, call.principal, ids, Operation(operation))
    brokers = tuple(
        call.part(
            "AlteredBroker",
            broker_id=each.broker_id,
            error_code=code(each.error_code),
            error_message=each.message,
        )
        for each in found
    )
    return call.respond(error_code=code(0), error_message=None, brokers=brokers)


async def describe_brokers(call: KafkaRequest, service: Service) -> Any:
    """The brokers with what they have; null asks for all."""
    wanted = call.message.broker_ids
    found = await service.read(lambda image: care.standings(image, wanted), stale=call.stale)
    if isinstance(found.value, Refusal):
        return refuse_brokers(call, found.value.error.code, found.value.message)
    brokers = tuple(
        call.part(
            "DescribedBroker",
            broker_id=each.id,
            broker_epoch=each.epoch,
            rack=each.rack,
            is_fenced=each.is_fenced,
            is_stopping=each.is_stopping,
            is_cordoned=each.is_cordoned,
            replica_count=each.replica_count,
            in_sync_count=each.in_sync_count,
            leader_count=each.leader_count,
            to_be_unregistered=each.is_to_be_unregistered,
        )
        for each in found.value
    )
    payload = call.respond(error_code=code(0), error_message=None, brokers=brokers)
    return AsOf(payload, found.offset)


def refuse_brokers(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message or None, brokers=())


async def safe_to_stop(call: KafkaRequest, service: Service) -> Any:
    """What would be hurt if all of these brokers stopped now."""
    ids = call.message.broker_ids
    found = await service.read_long(lambda image: care.safety(image, ids), stale=call.stale)
    if isinstance(found.value, Refusal):
        return refuse_safety(call, found.value.error.code, found.value.message)
    hurt = tuple(
        call.part(
            "HurtPartition",
            topic_name=each.id.topic,
            partition_index=each.id.partition,
            harm=each.harm,
            left=tuple(each.left),
            min_isr=each.min_isr,
        )
        for each in found.value.hurt
    )
    payload = call.respond(
        error_code=code(0),
        error_message=None,
        looked_at=found.value.looked_at,
        hurt_count=found.value.hurt_count,
        hurt=hurt,
    )
    return AsOf(payload, found.offset)


def refuse_safety(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message or None, hurt=())

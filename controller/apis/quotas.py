"""AlterClientQuotas (49) and DescribeClientQuotas (48), asked of controllers (KIP-546)."""

from typing import Any

from controller.apis.request import KafkaRequest, code
from controller.service import Service
from quorum.protocol.codec import response_schema
from quorum.protocol.config_responses import (
    describe_quotas_error,
    describe_quotas_response,
    quota_filters,
)
from statemachine.commands import AlterClientQuotas, ClientQuotasAltered, QuotaChange, QuotaOp
from statemachine.configs.quotas import QuotaFilter, describe_quotas
from statemachine.image.image import Image
from statemachine.records.kafka_records import QuotaEntity


async def alter_quotas(request: KafkaRequest, service: Service) -> Any:
    command = AlterClientQuotas(
        changes=tuple(
            QuotaChange(
                entity=_entity(entry),
                ops=tuple(
                    QuotaOp(key=each.key, value=each.value, remove=each.remove)
                    for each in entry.ops
                ),
            )
            for entry in request.message.entries
        ),
        validate_only=request.message.validate_only,
    )
    answer = await service.carry_out(command, ClientQuotasAltered, who=request.principal)
    return request.respond(
        entries=tuple(
            _entry(request, each.entity, each.error.code, each.message or None)
            for each in answer.entities
        )
    )


def refuse_alter(request: KafkaRequest, error: int, message: str) -> Any:
    return request.respond(
        entries=tuple(
            _entry(request, _entity(entry), error, message) for entry in request.message.entries
        )
    )


def _entity(entry: Any) -> tuple[QuotaEntity, ...]:
    return tuple(QuotaEntity(type=each.entity_type, name=each.entity_name) for each in entry.entity)


def _entry(
    request: KafkaRequest, entity: tuple[QuotaEntity, ...], error: int, message: str | None
) -> Any:
    return request.part(
        "EntryData",
        error_code=code(error),
        error_message=message,
        entity=tuple(
            request.part("EntityData", entity_type=part.type, entity_name=part.name)
            for part in entity
        ),
    )


async def describe_client_quotas(request: KafkaRequest, service: Service) -> Any:
    schema = response_schema(request.api_key, request.version)
    filters = quota_filters(request.message, QuotaFilter)

    def read(image: Image) -> Any:
        found = describe_quotas(image, filters, strict=request.message.strict)
        return describe_quotas_response(schema, found)

    return await service.read(read, stale=request.stale)


def refuse_describe(request: KafkaRequest, error: int, message: str) -> Any:
    schema = response_schema(request.api_key, request.version)
    return describe_quotas_error(schema, error, message)

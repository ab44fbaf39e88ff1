"""IncrementalAlterConfigs (44), AlterConfigs (33), DescribeConfigs (32), asked of controllers."""

from collections.abc import Iterable
from typing import Any

from controller.apis.request import KafkaRequest, code
from controller.service import Service
from quorum.protocol.codec import response_schema
from quorum.protocol.config_responses import describe_configs_error, describe_configs_response
from statemachine.commands import (
    AlterConfigs,
    ConfigAltered,
    ConfigChange,
    ConfigOp,
    ConfigReplacement,
    ConfigsAltered,
    IncrementalAlterConfigs,
)
from statemachine.configs.describe_configs import describe_configs as describe
from statemachine.configs.resources import without_secrets
from statemachine.image.image import Image


async def incremental_alter(request: KafkaRequest, service: Service) -> Any:
    """KIP-339: what is not named stays as it is."""
    command = IncrementalAlterConfigs(
        changes=tuple(
            ConfigChange(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                ops=tuple(
                    ConfigOp(name=each.name, operation=each.config_operation, value=each.value)
                    for each in resource.configs
                ),
            )
            for resource in request.message.resources
        ),
        validate_only=request.message.validate_only,
    )
    answer = await _carry_out(request, service, command)
    return request.respond(responses=_responses(request, answer.resources))


async def alter(request: KafkaRequest, service: Service) -> Any:
    """What is not named is removed."""
    command = AlterConfigs(
        replacements=tuple(
            ConfigReplacement(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=tuple((each.name, each.value) for each in resource.configs),
            )
            for resource in request.message.resources
        ),
        validate_only=request.message.validate_only,
    )
    answer = await _carry_out(request, service, command)
    return request.respond(responses=_responses(request, answer.resources))


async def _carry_out(
    request: KafkaRequest, service: Service, command: IncrementalAlterConfigs | AlterConfigs
) -> ConfigsAltered:
    shown = without_secrets(command)
    return await service.carry_out(command, ConfigsAltered, who=request.principal, shown=shown)


def _responses(request: KafkaRequest, resources: Iterable[ConfigAltered]) -> Any:
    return tuple(
        request.part(
            "AlterConfigsResourceResponse",
            error_code=code(each.error.code),
            error_message=each.message or None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in resources
    )


def refuse_alter(request: KafkaRequest, error: int, message: str) -> Any:
    return request.respond(
        responses=tuple(
            request.part(
                "AlterConfigsResourceResponse",
                error_code=code(error),
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.message.resources
        )
    )


async def describe_configs(request: KafkaRequest, service: Service) -> Any:
    """What the log says; the files of brokers only they themselves know."""
    schema = response_schema(request.api_key, request.version)

    def read(image: Image) -> Any:
        return describe_configs_response(
            schema, request.message, lambda resource: describe(image, resource)
        )

    return await service.read(read, stale=request.stale)


def refuse_describe(request: KafkaRequest, error: int, message: str) -> Any:
    schema = response_schema(request.api_key, request.version)
    return describe_configs_error(schema, request.message, error, message)

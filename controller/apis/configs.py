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
    IncrementalAlterConfigs,
)
from statemachine.configs.describe_configs import describe_configs as describe
from statemachine.image.image import Image


async def incremental_alter(call: KafkaRequest, service: Service) -> Any:
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
            for resource in call.message.resources
        ),
        validate_only=call.message.validate_only,
    )
    answer = await service.alter_configs(call.principal, command)
    return call.respond(responses=_responses(call, answer.resources))


async def alter(call: KafkaRequest, service: Service) -> Any:
    """What is not named is removed."""
    command = AlterConfigs(
        replacements=tuple(
            ConfigReplacement(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=tuple((each.name, each.value) for each in resource.configs),
            )
            for resource in call.message.resources
        ),
        validate_only=call.message.validate_only,
    )
    answer = await service.alter_configs(call.principal, command)
    return call.respond(responses=_responses(call, answer.resources))


def _responses(call: KafkaRequest, resources: Iterable[ConfigAltered]) -> Any:
    return tuple(
        call.part(
            "AlterConfigsResourceResponse",
            error_code=code(each.error.code),
            error_message=each.message or None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in resources
    )


def refuse_alter(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(
        responses=tuple(
            call.part(
                "AlterConfigsResourceResponse",
                error_code=code(error),
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in call.message.resources
        )
    )


async def describe_configs(call: KafkaRequest, service: Service) -> Any:
    """What the log says; the files of brokers only they themselves know."""
    schema = response_schema(call.api_key, call.version)

    def read(image: Image) -> Any:
        return describe_configs_response(
            schema, call.message, lambda resource: describe(image, resource)
        )

    return await service.read(read, stale=call.stale)


def refuse_describe(call: KafkaRequest, error: int, message: str) -> Any:
    schema = response_schema(call.api_key, call.version)
    return describe_configs_error(schema, call.message, error, message)

"""Configurations, client quotas and features.

IncrementalAlterConfigs (44), AlterConfigs (33), DescribeConfigs (32), AlterClientQuotas (49) and
DescribeClientQuotas (48, KIP-546), UpdateFeatures (57, KIP-584).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from msgspec import convert

from controller.apis.access import access_of, refused
from controller.apis.long_answers import answer_in_slices
from controller.apis.request import (
    KafkaRequest,
    encode_body,
    free_in_slices,
    offload,
    outcome,
    refuse,
)
from controller.audited_actions import wanted
from controller.service import AsOf, Service
from quorum import log_levels
from quorum.protocol.apis import ApiKey
from quorum.protocol.long_array import encode_items
from quorum.transport.audit_log import ACTIONS_MAX, Action
from statemachine.commands import (
    AlterClientQuotas,
    ClientQuotasAltered,
    ConfigAltered,
    ConfigChange,
    ConfigOp,
    ConfigOperation,
    ConfigsAltered,
    Done,
    FeatureUpdate,
    IncrementalAlterConfigs,
    QuotaChange,
    QuotaOp,
    UpdateFeatures,
    UpgradeType,
)
from statemachine.configs.config_responses import config_results, quotas_response
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.records.kafka_records import QuotaEntity
from statemachine.security.authorizer import CLUSTER_NAME
from statemachine.security.rights import ALTER_CLUSTER_CONFIGS, config_right
from statemachine.vocabulary import BROKER_LOGGER_RESOURCE


def is_about_loggers(request: KafkaRequest) -> bool:
    """Return True for a request about log levels alone, which each node has its own of."""
    kinds = {each.resource_type for each in request.message.resources}
    return kinds == {BROKER_LOGGER_RESOURCE}


def _altered_loggers(request: KafkaRequest, service: Service, asked: Any) -> ConfigAltered:
    """Change the log levels of this node, all that one resource names or none (KIP-412)."""
    node_id = service.quorum.node.me.id
    named = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    if request.api_key == ApiKey.ALTER_CONFIGS:
        reason: str | None = "log levels are changed by IncrementalAlterConfigs"
    else:
        reason = log_levels.other_node(node_id, asked.resource_name)
    changes = [
        (each.name, getattr(each, "config_operation", 0), each.value) for each in asked.configs
    ]
    who, validate_only = str(request.principal), request.message.validate_only
    if reason is None:
        reason = log_levels.alter(changes, who, validate_only=validate_only)
    detail = f"log levels of node {node_id}: {log_levels.text(changes)}"
    action = Action.of(ALTER_CLUSTER_CONFIGS, CLUSTER_NAME, detail)
    if reason is not None:
        error = Error.INVALID_REQUEST
        service.audit_log.without_effect(who, "AlterLogLevels", [action], error.name, reason=reason)
        return ConfigAltered(error=error, message=reason, **named)
    if not validate_only:
        service.audit_log.carried_out(who, "AlterLogLevels", [action], Error.NONE.name, None)
    return ConfigAltered(**named)


async def alter_configs(request: KafkaRequest, service: Service) -> Any:
    """Change single configurations of resources, or replace all of each one (AlterConfigs)."""
    replaces = request.api_key == ApiKey.ALTER_CONFIGS
    asked = request.message.resources
    access = access_of(request, service, partial(_wanted, asked))
    kept: dict[tuple[int, str], ConfigAltered] = {}
    for resource_type, resource_name in {
        (each.resource_type, each.resource_name): None for each in asked
    }:
        right, name = config_right(resource_type, resource_name, alters=True)
        if not access.may(right, name):
            kept[resource_type, resource_name] = refused(
                ConfigAltered,
                access,
                right,
                name,
                resource_type=resource_type,
                resource_name=resource_name,
            )
    for each in asked:
        key = each.resource_type, each.resource_name
        if key not in kept and each.resource_type == BROKER_LOGGER_RESOURCE:
            kept[key] = _altered_loggers(request, service, each)
    command = IncrementalAlterConfigs(
        changes=tuple(
            ConfigChange(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                ops=tuple(
                    ConfigOp(
                        name=each.name,
                        operation=ConfigOperation.SET if replaces else each.config_operation,
                        value=each.value,
                    )
                    for each in resource.configs
                ),
                is_whole=replaces,
            )
            for resource in asked
            if (resource.resource_type, resource.resource_name) not in kept
        ),
        validate_only=request.message.validate_only,
        forwarded=request.envelope_id is not None,
    )
    decided: Iterator[ConfigAltered] = iter(())
    if command.changes or not kept:
        answer = await service.carry_out(command, ConfigsAltered, who=str(request.principal))
        decided = iter(answer.resources)
    named = dict.fromkeys((each.resource_type, each.resource_name) for each in asked)
    results = [kept[each] if each in kept else next(decided) for each in named]
    return request.respond(responses=map(outcome, results))


def _wanted(resources: Sequence[Any], resource: str) -> str:
    """Return the names of the configurations of a resource that a refused request changes."""
    changes = (
        ConfigChange(
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            ops=tuple([ConfigOp(name=op.name, operation=0) for op in each.configs[:ACTIONS_MAX]]),
        )
        for each in resources
        if resource == _guarded(each)
    )
    return wanted(IncrementalAlterConfigs(changes=tuple(islice(changes, ACTIONS_MAX))), resource)


def _guarded(asked: Any) -> str:
    """Return the resource that the right on these configurations is needed on."""
    right, name = config_right(asked.resource_type, asked.resource_name, alters=True)
    return right.resource(name)


async def describe_configs(request: KafkaRequest, service: Service) -> Any:
    """Describe configurations from the log; only a broker knows its own file."""
    access = access_of(request, service)

    def loggers_of(node: str) -> Mapping[str, str] | str:
        return log_levels.other_node(service.quorum.node.me.id, node) or log_levels.levels()

    def encoded(image: Image) -> Generator[None, None, bytes]:
        results = config_results(image, request.message, access=access, loggers_of=loggers_of)
        return encode_items(request.api_key, request.version, {}, "results", results)

    read = partial(service.read, stale=request.stale or is_about_loggers(request))
    return await answer_in_slices(request, service, read, encoded)


def quota_changes(message: Any, parts_max: int | None = None) -> AlterClientQuotas:
    """Return the command of an AlterClientQuotas request, or of its first parts."""
    return AlterClientQuotas(
        changes=tuple(
            QuotaChange(
                entity=_entity(entry, parts_max),
                ops=convert(entry.ops[:parts_max], tuple[QuotaOp, ...], from_attributes=True),
            )
            for entry in message.entries[:parts_max]
        ),
        validate_only=message.validate_only,
    )


async def alter_quotas(request: KafkaRequest, service: Service) -> Any:
    command = quota_changes(request.message)
    answer = await service.carry_out(command, ClientQuotasAltered, who=str(request.principal))
    return request.respond(
        entries=[outcome(each, **_entity_fields(each.entity)) for each in answer.entities]
    )


def _entity(entry: Any, parts_max: int | None) -> tuple[QuotaEntity, ...]:
    return tuple(
        QuotaEntity(type=each.entity_type, name=each.entity_name)
        for each in entry.entity[:parts_max]
    )


def _entity_fields(entity: tuple[QuotaEntity, ...]) -> dict[str, Any]:
    return {"entity": [{"entity_type": each.type, "entity_name": each.name} for each in entity]}


async def describe_client_quotas(request: KafkaRequest, service: Service) -> Any:
    found = await service.read_long(
        lambda image: quotas_response(image, request.message, image.quotas), stale=request.stale
    )
    entries = found.value["entries"] or ()
    respond = partial(_encoded, request, found.value)
    response = await offload(respond, len(entries))
    free_in_slices(entries)
    return AsOf(response, found.offset)


def _encoded(request: KafkaRequest, fields: Mapping[str, Any]) -> bytes:
    return encode_body(request, request.respond(**fields))


_UPGRADE_TYPES_FROM = 1

FAILED_FOR_ALL = "The update failed for all features since the following feature had an error: "


async def change_features(
    service: Service, who: str, updates: tuple[FeatureUpdate, ...], *, validate_only: bool
) -> Done:
    """Change the levels of features, all of them or none; only the active controller can."""
    node, controller = service.quorum.node, service.controller
    command = UpdateFeatures(
        updates=updates,
        validate_only=validate_only,
        controller_id=node.me.id,
        voters=tuple(map(int, node.voters.sorted())),
        observers=service.quorum.observers,
        kraft_version=controller.kraft_version,
        default_min_isr=controller.default_min_isr,
    )
    return await service.carry_out(command, Done, who=who)


async def update_features(request: KafkaRequest, service: Service) -> Any:
    """Carry out all of the updates, or none."""
    updates = tuple(
        FeatureUpdate(
            name=each.feature, level=each.max_version_level, upgrade=_upgrade_type(request, each)
        )
        for each in request.message.feature_updates
    )
    validate_only = getattr(request.message, "validate_only", False)
    who = str(request.principal)
    answer = await change_features(service, who, updates, validate_only=validate_only)
    message = FAILED_FOR_ALL + answer.message if answer.message else ""
    # Before version 2 there is an error for each feature as well, and it is the same.
    return refuse(request, answer.error.code, message)


def _upgrade_type(request: KafkaRequest, update: Any) -> UpgradeType:
    if request.version < _UPGRADE_TYPES_FROM:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType(update.upgrade_type)

"""UpdateFeatures (57): features of the cluster shall be in force at other levels (KIP-584)."""

from typing import Any

from controller.apis.request import KafkaRequest, code
from controller.service import Service
from statemachine.commands import FeaturesUpdated, FeatureUpdate, UpdateFeatures, UpgradeType

_UPGRADE_TYPES_FROM = 1
_RESULTS_UNTIL = 1
"""From version 2 on there is one error for all: all are done, or none is."""

FAILED_FOR_ALL = "The update failed for all features since the following feature had an error: "


async def update_features(request: KafkaRequest, service: Service) -> Any:
    """All of the updates, or none and why."""
    updates = tuple(
        FeatureUpdate(
            name=each.feature, level=each.max_version_level, upgrade=_upgrade_type(request, each)
        )
        for each in request.message.feature_updates
    )
    node = service.quorum.node
    command = UpdateFeatures(
        updates=updates,
        validate_only=getattr(request.message, "validate_only", False),
        controller_id=node.me.id,
        voters=tuple(map(int, node.voters.sorted())),
        kraft_version=service.controller.kraft_version,
        default_min_isr=service.controller.default_min_isr,
    )
    answer = await service.carry_out(command, FeaturesUpdated, who=request.principal)
    message = FAILED_FOR_ALL + answer.message if answer.message else None
    return _respond(request, answer.error.code, message)


def _upgrade_type(request: KafkaRequest, update: Any) -> UpgradeType:
    if request.version < _UPGRADE_TYPES_FROM:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType(update.upgrade_type)


def refuse_update(request: KafkaRequest, error: int, message: str) -> Any:
    return _respond(request, error, message)


def _respond(request: KafkaRequest, error: int, message: str | None) -> Any:
    if request.version > _RESULTS_UNTIL:
        return request.respond(error_code=code(error), error_message=message)
    results = tuple(
        request.part(
            "UpdatableFeatureResult",
            feature=each.feature,
            error_code=code(error),
            error_message=message,
        )
        for each in request.message.feature_updates
    )
    return request.respond(error_code=code(error), error_message=message, results=results)

"""Commands about the cluster as a whole: its founding, features, controllers and producer ids.

UpdateFeatures (api 57, KIP-584) changes all features of a request or none. A level must be
supported by this controller, by every registered broker, fenced or not, and by every voter. The
order of the checks and the messages are those of Kafka's `FeatureControlManager`. metadata.version
never goes below a level whose records an older level cannot hold.
"""

from collections.abc import Mapping

from msgspec import convert

from statemachine.commands import (
    AllocateProducerIds,
    Done,
    FeatureUpdate,
    FoundCluster,
    ProducerIdsAllocated,
    RegisterController,
    UpdateFeatures,
    UpgradeType,
)
from statemachine.configs.effective import DEFAULTS, MIN_ISR
from statemachine.errors import Error
from statemachine.features.features import (
    ELR_VERSION,
    FEATURES,
    KRAFT_VERSION,
    RANGES,
    RECORDED,
    RECORDS_CHANGED_AT,
    default_levels,
    elr_in_force,
    range_refusal,
    unmet_need,
)
from statemachine.image.image import Image
from statemachine.limits import (
    METADATA_VERSION_MAX,
    METADATA_VERSION_MIN,
    PRODUCER_ID_MAX,
    PRODUCER_IDS_PER_BLOCK,
)
from statemachine.partitions.change_builder import clear_all_elr
from statemachine.partitions.isr import stale_broker
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    LEVEL_CONTROLLER_REGISTRATION,
    METADATA_VERSION,
)

BOOTSTRAP = "Bootstrap records"


def found_cluster(pending: PendingDecision, command: FoundCluster) -> Done:
    """Put the features in force, unless some are. An interrupted founding is repeated."""
    levels = founding_levels(command)
    if isinstance(levels, str):
        return Done(error=Error.UNSUPPORTED_VERSION, message=levels)
    transaction = pending.image.transaction
    if transaction is not None:
        pending.records.append(kafka_records.AbortTransaction(reason="its controller is gone"))
    if pending.level if transaction is None else transaction.level:
        return Done()
    pending.records.append(kafka_records.BeginTransaction(name=BOOTSTRAP))
    pending.records += [
        kafka_records.FeatureLevel(name=name, level=level)
        for name, level in levels.items()
        if level
    ]
    if elr_in_force(levels):
        pending.set_configs(DEFAULTS, {MIN_ISR: str(command.default_min_isr)})
    pending.records += command.scram_credentials
    pending.records.append(kafka_records.EndTransaction())
    return Done()


def founding_levels(command: FoundCluster) -> dict[str, int] | str:
    """Return the level of each feature, metadata.version first, or the reason to refuse them."""
    level = command.metadata_version
    if not METADATA_VERSION_MIN <= level <= METADATA_VERSION_MAX:
        return (
            f"metadata.version {level} is not supported,"
            f" {METADATA_VERSION_MIN} to {METADATA_VERSION_MAX} are"
        )
    levels = {METADATA_VERSION: level, **default_levels(level)}
    for name, asked in command.features:
        if name not in RECORDED:
            return f"{name} cannot be set at the founding; {', '.join(RECORDED)} can"
        lowest, highest = FEATURES[name].lowest, FEATURES[name].highest
        if not lowest <= asked <= highest:
            return f"{name} {asked} is not supported, {lowest} to {highest} are"
        levels[name] = asked
    for name in RECORDED:
        reason = unmet_need(name, levels[name], levels)
        if reason is not None:
            return reason
    return levels


def update_features(pending: PendingDecision, command: UpdateFeatures) -> Done:
    """Change the levels of all features, or refuse the first one that cannot change."""
    proposed = dict(pending.image.features)
    proposed |= {update.name: update.level for update in command.updates}
    if len({update.name for update in command.updates}) != len(command.updates):
        return Done(error=Error.INVALID_REQUEST, message="a feature is named more than once")
    changes = []
    for update in command.updates:
        current = pending.image.features.get(update.name, 0)
        if update.name == KRAFT_VERSION:
            current = command.kraft_version
        reason = _refusal(pending.image, command, update, current, proposed)
        if reason is not None:
            return Done(error=Error.INVALID_UPDATE_VERSION, message=reason)
        if update.level != current:
            changes.append(kafka_records.FeatureLevel(name=update.name, level=update.level))
    # metadata.version precedes the features that depend on it.
    changes.sort(key=lambda change: change.name != METADATA_VERSION)
    for change in changes:
        if change.name == ELR_VERSION:
            if change.level:
                _make_elr_safe(pending, command.default_min_isr)
            clear_all_elr(pending)
    pending.records += changes
    return Done()


def _make_elr_safe(pending: PendingDecision, default_min_isr: int) -> None:
    """Record what must precede ELR: a min ISR for all brokers, and none for single ones.

    Controllers and brokers must use the same min ISR, that of the log (KIP-966).
    """
    if MIN_ISR not in pending.image.configs.get(DEFAULTS, {}):
        pending.set_configs(DEFAULTS, {MIN_ISR: str(default_min_isr)})
    for resource, configs in sorted(pending.image.configs.items()):
        if resource[0] == BROKER_RESOURCE and resource != DEFAULTS and MIN_ISR in configs:
            pending.set_configs(resource, {MIN_ISR: None})


def _refusal(
    image: Image,
    command: UpdateFeatures,
    update: FeatureUpdate,
    current: int,
    proposed: Mapping[str, int],
) -> str | None:
    """Return the reason to refuse the level of the feature, or None."""
    reason = (
        _nonsense(update)
        or _support_refusal(image, command, update)
        or _direction_refusal(update, current)
    )
    if reason is None and update.name not in FEATURES:
        reason = f"Feature {update.name} not found."
    if reason is None and update.name == METADATA_VERSION:
        return _metadata_version_refusal(update, current)
    if reason is None and update.name == KRAFT_VERSION:
        reason = _kraft_version_refusal(update, current)
    elif reason is None:
        reason = unmet_need(update.name, update.level, proposed)
    if reason is None:
        return None
    return f"Invalid update version {update.level} for feature {update.name}. {reason}"


def _nonsense(update: FeatureUpdate) -> str | None:
    if update.upgrade is UpgradeType.UNKNOWN:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    return None


def _direction_refusal(update: FeatureUpdate, current: int) -> str | None:
    if update.level < current and update.upgrade is UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if update.level > current and update.upgrade is not UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _support_refusal(image: Image, command: UpdateFeatures, update: FeatureUpdate) -> str | None:
    """Return the refusal for the first node that is not known to support the level, or None.

    Kafka asks it of every controller that ever registered, and none can be unregistered. A retired
    one must not block upgrades for ever, so here it counts only while it follows the log, or while
    a new leader cannot know that it does not.
    """
    name, level = update.name, update.level
    local = f"Local controller {command.controller_id}"
    reason = _unsupported(local, RANGES, name, level)
    if reason is not None:
        return reason
    for _, broker in sorted(image.brokers.items()):
        reason = _unsupported(f"Broker {broker.broker_id}", broker.features, name, level)
        if reason is not None:
            return reason
    registered = image.controllers.keys()
    observers = registered if command.observers is None else registered & command.observers
    for id in sorted({*command.voters, *observers} - {command.controller_id}):
        controller = image.controllers.get(id)
        if controller is None:
            return f"controller {id} has not registered, and may not support this feature"
        reason = _unsupported(f"Controller {id}", controller.features, name, level)
        if reason is not None and id not in command.voters and command.observers is None:
            reason += "; the leader is new, and cannot know yet whether this observer is gone"
        if reason is not None:
            return reason
    return None


def _unsupported(
    who: str, ranges: tuple[kafka_records.FeatureRange, ...], name: str, level: int
) -> str | None:
    for each in ranges:
        if each.name == name:
            return range_refusal(who, each.min_supported, each.max_supported, level)
    return range_refusal(who, 0, 0, level)


def _kraft_version_refusal(update: FeatureUpdate, current: int) -> str | None:
    if update.level < current:
        return "Can't downgrade the version of this feature."
    if update.level > current:
        return "It comes with the voters in the log, and these are fixed when the log begins."
    return None


def _metadata_version_refusal(update: FeatureUpdate, current: int) -> str | None:
    """Return the reason why metadata.version cannot go down to that level, or None."""
    lost = any(update.level < changed <= current for changed in RECORDS_CHANGED_AT)
    if not lost:
        return None
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if update.upgrade is UpgradeType.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata"
        " information."
    )
    return f"Unsupported metadata.version downgrade from {current} to {update.level}. {reason}"


def register_controller(pending: PendingDecision, command: RegisterController) -> Done:
    """Record the registration of a controller, unless the log has it already (KIP-919)."""
    if pending.level < LEVEL_CONTROLLER_REGISTRATION:
        return Done(
            error=Error.UNSUPPORTED_VERSION,
            message=f"metadata.version is {pending.level}, controllers register from"
            f" {LEVEL_CONTROLLER_REGISTRATION} on",
        )
    if command.controller_id < 0:
        return Done(
            error=Error.INVALID_REQUEST,
            message=f"controller ids are not negative: {command.controller_id}",
        )
    record = convert(command, kafka_records.RegisterController, from_attributes=True)
    if pending.image.controllers.get(command.controller_id) != record:
        pending.records.append(record)
    return Done()


def allocate_producer_ids(
    pending: PendingDecision, command: AllocateProducerIds
) -> ProducerIdsAllocated:
    """Give the broker the next block of producer ids (KIP-730)."""
    stale = stale_broker(pending.image, command.broker_id, command.broker_epoch)
    if stale is not None:
        return ProducerIdsAllocated.from_refusal(stale)
    first = pending.image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        return ProducerIdsAllocated(
            error=Error.UNKNOWN_SERVER_ERROR, message="all producer ids are allocated"
        )
    pending.records.append(
        kafka_records.ProducerIds(
            broker_id=command.broker_id,
            broker_epoch=command.broker_epoch,
            next_producer_id=first + PRODUCER_IDS_PER_BLOCK,
        )
    )
    return ProducerIdsAllocated(first_id=first, count=PRODUCER_IDS_PER_BLOCK)

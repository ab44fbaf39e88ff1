"""Commands about the cluster as a whole: its founding, its controllers, its producer ids."""

from statemachine.commands import (
    AllocateProducerIds,
    Done,
    FoundCluster,
    ProducerIdsAllocated,
    RegisterController,
)
from statemachine.errors import Error
from statemachine.features.features import (
    FEATURES,
    RECORDED,
    default_levels,
    elr_in_force,
    unmet_need,
)
from statemachine.features.updates import min_isr_of_the_cluster
from statemachine.limits import (
    METADATA_VERSION_MAX,
    METADATA_VERSION_MIN,
    PRODUCER_ID_MAX,
    PRODUCER_IDS_PER_BLOCK,
)
from statemachine.partitions.isr import stale_broker
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records
from statemachine.vocabulary import LEVEL_CONTROLLER_REGISTRATION, METADATA_VERSION

BOOTSTRAP = "Bootstrap records"


def found_cluster(draft: PendingDecision, command: FoundCluster) -> Done:
    """Put the features in force, if none is. A founding that broke off begins anew."""
    levels = founding_levels(command)
    if isinstance(levels, str):
        return Done(error=Error.UNSUPPORTED_VERSION, message=levels)
    transaction = draft.image.transaction
    if transaction is not None:
        draft.records.append(kafka_records.AbortTransaction(reason="its controller is gone"))
    if draft.level if transaction is None else transaction.level:
        return Done()
    draft.records.append(kafka_records.BeginTransaction(name=BOOTSTRAP))
    draft.records += [
        kafka_records.FeatureLevel(name=name, level=level)
        for name, level in levels.items()
        if level
    ]
    if elr_in_force(levels):
        draft.records.append(min_isr_of_the_cluster(command.default_min_isr))
    draft.records.append(kafka_records.EndTransaction())
    return Done()


def founding_levels(command: FoundCluster) -> dict[str, int] | str:
    """The level of each feature, metadata.version before the others; or why they cannot be."""
    level = command.metadata_version
    if not METADATA_VERSION_MIN <= level <= METADATA_VERSION_MAX:
        return (
            f"metadata.version {level} is not supported,"
            f" {METADATA_VERSION_MIN} to {METADATA_VERSION_MAX} are"
        )
    levels = {METADATA_VERSION: level, **default_levels(level)}
    for name, asked in command.features:
        if name not in RECORDED:
            return f"{name} is no feature to found a cluster with; {', '.join(RECORDED)} are"
        lowest, highest = FEATURES[name].lowest, FEATURES[name].highest
        if not lowest <= asked <= highest:
            return f"{name} {asked} is not supported, {lowest} to {highest} are"
        levels[name] = asked
    for name in RECORDED:
        reason = unmet_need(name, levels[name], levels)
        if reason is not None:
            return reason
    return levels


def register_controller(draft: PendingDecision, command: RegisterController) -> Done:
    """Record where a controller is, unless the log says so already (KIP-919)."""
    if draft.level < LEVEL_CONTROLLER_REGISTRATION:
        return Done(
            error=Error.UNSUPPORTED_VERSION,
            message=f"metadata.version is {draft.level}, controllers register from"
            f" {LEVEL_CONTROLLER_REGISTRATION} on",
        )
    if command.controller_id < 0:
        return Done(
            error=Error.INVALID_REQUEST,
            message=f"controller ids are not negative: {command.controller_id}",
        )
    record = kafka_records.RegisterController(
        controller_id=command.controller_id,
        incarnation_id=command.incarnation_id,
        endpoints=command.endpoints,
        features=command.features,
    )
    if draft.image.controllers.get(command.controller_id) != record:
        draft.records.append(record)
    return Done()


def allocate_producer_ids(
    draft: PendingDecision, command: AllocateProducerIds
) -> ProducerIdsAllocated:
    """Give the broker the next block of producer ids (KIP-730)."""
    stale = stale_broker(draft, command.broker_id, command.broker_epoch)
    if stale is not None:
        return ProducerIdsAllocated.from_refusal(stale)
    first = draft.image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        return ProducerIdsAllocated(
            error=Error.UNKNOWN_SERVER_ERROR, message="all producer ids have been given out"
        )
    draft.records.append(
        kafka_records.ProducerIds(
            broker_id=command.broker_id,
            broker_epoch=command.broker_epoch,
            next_producer_id=first + PRODUCER_IDS_PER_BLOCK,
        )
    )
    return ProducerIdsAllocated(first_id=first, count=PRODUCER_IDS_PER_BLOCK)

"""What concerns the cluster as a whole: its founding, its controllers, its producer ids."""

from statemachine import records
from statemachine.commands import (
    AllocateProducerIds,
    Done,
    FoundCluster,
    ProducerIdsAllocated,
    RegisterController,
)
from statemachine.draft import Draft
from statemachine.errors import Error
from statemachine.isr import stale_broker
from statemachine.limits import (
    METADATA_VERSION_MAX,
    METADATA_VERSION_MIN,
    PRODUCER_ID_MAX,
    PRODUCER_IDS_PER_BLOCK,
)
from statemachine.vocabulary import LEVEL_CONTROLLER_REGISTRATION, METADATA_VERSION

BOOTSTRAP = "Bootstrap records"


def found_cluster(draft: Draft, command: FoundCluster) -> Done:
    """Put metadata.version in force, if none is. A founding that broke off begins anew."""
    level = command.metadata_version
    if not METADATA_VERSION_MIN <= level <= METADATA_VERSION_MAX:
        return Done(
            error=Error.UNSUPPORTED_VERSION,
            message=f"metadata.version {level} is not supported,"
            f" {METADATA_VERSION_MIN} to {METADATA_VERSION_MAX} are",
        )
    transaction = draft.image.transaction
    if transaction is not None:
        draft.records.append(records.AbortTransaction(reason="its controller is gone"))
    if draft.level if transaction is None else transaction.level:
        return Done()
    draft.records += [
        records.BeginTransaction(name=BOOTSTRAP),
        records.FeatureLevel(name=METADATA_VERSION, level=level),
        records.EndTransaction(),
    ]
    return Done()


def register_controller(draft: Draft, command: RegisterController) -> Done:
    """Record where a controller is, unless the log says so already (KIP-919)."""
    if draft.level < LEVEL_CONTROLLER_REGISTRATION:
        return Done(
            error=Error.UNSUPPORTED_VERSION,
            message=f"metadata.version is {draft.level}, controllers register from"
            f" {LEVEL_CONTROLLER_REGISTRATION} on",
        )
    record = records.RegisterController(
        controller_id=command.controller_id,
        incarnation_id=command.incarnation_id,
        endpoints=command.endpoints,
        features=command.features,
    )
    if draft.image.controllers.get(command.controller_id) != record:
        draft.records.append(record)
    return Done()


def allocate_producer_ids(draft: Draft, command: AllocateProducerIds) -> ProducerIdsAllocated:
    """Give the broker the next block of producer ids (KIP-730)."""
    stale = stale_broker(draft, command.broker_id, command.broker_epoch)
    if stale is not None:
        return ProducerIdsAllocated(error=stale.error, message=stale.message)
    first = draft.image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        return ProducerIdsAllocated(
            error=Error.UNKNOWN_SERVER_ERROR, message="all producer ids have been given out"
        )
    draft.records.append(
        records.ProducerIds(
            broker_id=command.broker_id,
            broker_epoch=command.broker_epoch,
            next_producer_id=first + PRODUCER_IDS_PER_BLOCK,
        )
    )
    return ProducerIdsAllocated(first_id=first, count=PRODUCER_IDS_PER_BLOCK)

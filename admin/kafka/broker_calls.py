"""What brokers ask of the active controller: AlterPartition (56), BrokerRegistration (62),
BrokerHeartbeat (63), AllocateProducerIds (67).

These are not passed on: a broker that asks the wrong node is told so (NOT_CONTROLLER) and looks
for the right one, as it does with Kafka's controllers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from admin.controller import Controller, Unavailable
from admin.kafka.call import Call, code
from quorum.ports import Clock
from quorum.wire.apis import ApiKey, VersionRange
from statemachine.commands import (
    AllocateProducerIds,
    AlterPartition,
    BrokerHeartbeat,
    Command,
    IsrMember,
    IsrProposal,
    RegisterBroker,
)
from statemachine.records import Endpoint, FeatureRange
from statemachine.sessions import NEVER_HEARD

NOT_CONTROLLER: Final = 41
REQUEST_TIMED_OUT: Final = 7

Respond = Callable[[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What answering a broker takes: the controller, its clock, and the cluster it serves."""

    controller: Controller
    clock: Clock
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerApi:
    versions: VersionRange
    handle: Callable[[Call, Desk, Respond], None]


def alter_partition(call: Call, desk: Desk, respond: Respond) -> None:
    """A leader wants another ISR (KIP-497, KIP-903)."""
    message = call.message
    command = AlterPartition(
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        proposals=tuple(
            IsrProposal(
                topic_id=topic.topic_id or UUID(int=0),
                partition=each.partition_index,
                leader_epoch=each.leader_epoch,
                partition_epoch=each.partition_epoch,
                isr=_isr(call.version, each),
                recovery=each.leader_recovery_state,
            )
            for topic in message.topics
            for each in topic.partitions
        ),
    )

    def answer(altered: Any) -> Any:
        topics = tuple(
            call.part(
                "TopicData",
                topic_id=topic_id,
                partitions=tuple(
                    call.part(
                        "PartitionData",
                        partition_index=each.partition,
                        error_code=code(each.error.code),
                        leader_id=each.leader,
                        leader_epoch=each.leader_epoch,
                        isr=each.isr,
                        leader_recovery_state=each.recovery,
                        partition_epoch=each.partition_epoch,
                    )
                    for each in partitions
                ),
            )
            for topic_id, partitions in groupby(altered.partitions, key=lambda each: each.topic_id)
        )
        return call.respond(error_code=code(altered.error.code), topics=topics)

    def refuse(error: int) -> Any:
        return call.respond(error_code=code(error), topics=())

    _submit(desk, command, respond, answer, refuse)


def register(call: Call, desk: Desk, respond: Respond) -> None:
    """An incarnation of a broker wants to belong to the cluster (KIP-631)."""
    message = call.message
    command = RegisterBroker(
        broker_id=message.broker_id,
        cluster_id=message.cluster_id,
        our_cluster_id=desk.cluster_id,
        incarnation_id=message.incarnation_id or UUID(int=0),
        endpoints=tuple(
            Endpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in message.listeners
        ),
        features=tuple(
            FeatureRange(
                name=each.name,
                min_supported=each.min_supported_version,
                max_supported=each.max_supported_version,
            )
            for each in message.features
        ),
        rack=message.rack,
        log_dirs=tuple(each or UUID(int=0) for each in getattr(message, "log_dirs", ())),
    )

    def answer(registered: Any) -> Any:
        sessions = desk.controller.sessions
        if not registered.error.code and sessions is not None:
            sessions.touch(message.broker_id, NEVER_HEARD, desk.clock())
        return call.respond(
            error_code=code(registered.error.code), broker_epoch=registered.broker_epoch
        )

    def refuse(error: int) -> Any:
        return call.respond(error_code=code(error), broker_epoch=-1)

    _submit(desk, command, respond, answer, refuse)


def heartbeat(call: Call, desk: Desk, respond: Respond) -> None:
    """A broker lives, and says what it wants next (KIP-631)."""
    message = call.message
    controller = desk.controller
    sessions = controller.sessions

    def answer(answered: Any) -> Any:
        return call.respond(
            error_code=code(answered.error.code),
            is_caught_up=answered.caught_up,
            is_fenced=answered.fenced,
            should_shut_down=answered.should_shut_down,
        )

    def refuse(error: int) -> Any:
        return call.respond(error_code=code(error), should_shut_down=False)

    if sessions is None:
        respond(refuse(NOT_CONTROLLER))
        return
    broker = controller.image.brokers.get(message.broker_id)
    if broker is not None and broker.epoch == message.broker_epoch:
        sessions.touch(message.broker_id, message.current_metadata_offset, desk.clock())
    command = BrokerHeartbeat(
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        lowest_live_offset=sessions.lowest_live_offset(controller.image),
    )
    _submit(desk, command, respond, answer, refuse)


def allocate_producer_ids(call: Call, desk: Desk, respond: Respond) -> None:
    """A broker needs a block of producer ids (KIP-730)."""
    command = AllocateProducerIds(
        broker_id=call.message.broker_id, broker_epoch=call.message.broker_epoch
    )

    def answer(allocated: Any) -> Any:
        return call.respond(
            error_code=code(allocated.error.code),
            producer_id_start=allocated.first_id,
            producer_id_len=allocated.count,
        )

    def refuse(error: int) -> Any:
        return call.respond(error_code=code(error), producer_id_start=-1, producer_id_len=0)

    _submit(desk, command, respond, answer, refuse)


def _submit(
    desk: Desk,
    command: Command,
    respond: Respond,
    answer: Callable[[Any], Any],
    refuse: Callable[[int], Any],
) -> None:
    def done(outcome: Any) -> None:
        if isinstance(outcome, Unavailable):
            overloaded = outcome is Unavailable.OVERLOADED
            respond(refuse(REQUEST_TIMED_OUT if overloaded else NOT_CONTROLLER))
        else:
            respond(answer(outcome))

    desk.controller.submit(command, done)


def _isr(version: int, partition: Any) -> tuple[IsrMember, ...]:
    if version < 3:
        return tuple(IsrMember(each) for each in partition.new_isr)
    members = partition.new_isr_with_epochs
    return tuple(IsrMember(each.broker_id, each.broker_epoch) for each in members)


APIS: Final = {
    ApiKey.ALTER_PARTITION: BrokerApi(versions=VersionRange(2, 3), handle=alter_partition),
    ApiKey.BROKER_REGISTRATION: BrokerApi(versions=VersionRange(0, 4), handle=register),
    ApiKey.BROKER_HEARTBEAT: BrokerApi(versions=VersionRange(0, 1), handle=heartbeat),
    ApiKey.ALLOCATE_PRODUCER_IDS: BrokerApi(
        versions=VersionRange(0, 0), handle=allocate_producer_ids
    ),
}

"""What nodes ask of the active controller: AlterPartition (56), BrokerRegistration (62),
BrokerHeartbeat (63), AllocateProducerIds (67), ControllerRegistration (70), AssignReplicasToDirs
(73).

These are not passed on: a node that asks the wrong node is told so (NOT_CONTROLLER) and looks
for the right one, as it does with Kafka's controllers.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, assert_never
from uuid import UUID

from controller.apis.alter_partition import VERSIONS, read_request, write_answer, write_refusal
from controller.apis.request import ANONYMOUS, KafkaRequest, code, parse_request, respond_to
from controller.heartbeats import NEVER_HEARD
from controller.ports import Unavailable
from controller.quorum_controller import QuorumController
from quorum.cluster import Cluster
from quorum.ports import Clock
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.copy_reports import reports_of
from quorum.transport.inbound import InboundRequest
from statemachine.commands import (
    AllocateProducerIds,
    AssignReplicasToDirs,
    BrokerHeartbeat,
    Command,
    DirectoryAssignment,
    PartitionsAltered,
    RegisterBroker,
    RegisterController,
    ReplicaAssigned,
)
from statemachine.errors import Error
from statemachine.reassignment.copies import CopyReport
from statemachine.records.kafka_records import Endpoint, FeatureRange

logger = logging.getLogger("controller")

NOT_CONTROLLER: Final = 41
REQUEST_TIMED_OUT: Final = 7
UNKNOWN_SERVER_ERROR: Final = -1

BROKERS_REMEMBERED_MAX: Final = 1_024
"""Brokers whose last refusal is remembered; beyond it the longest unheard one is told again."""

Respond = Callable[[Any], None]


class RegistrationRefusals:
    """The last refusal of each broker, so that it is told once."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: OrderedDict[int, tuple[Error, str]] = OrderedDict()

    def note(self, broker_id: int, error: Error, reason: str) -> None:
        """The broker's registration was answered with this; the log hears of it if it is news."""
        if error is Error.NONE:
            self._last.pop(broker_id, None)
            return
        if self._last.get(broker_id) != (error, reason):
            logger.warning(
                "broker %d may not register (%s %d): %s", broker_id, error.name, error.code, reason
            )
        self._last[broker_id] = (error, reason)
        self._last.move_to_end(broker_id)
        if len(self._last) > BROKERS_REMEMBERED_MAX:
            self._last.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerApiContext:
    """What answering a broker takes: the controller, its clock, and the cluster it serves."""

    controller: QuorumController
    clock: Clock
    cluster: Cluster
    refusals: RegistrationRefusals = field(default_factory=RegistrationRefusals)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerApi:
    versions: VersionRange
    handle: Callable[[InboundRequest, BrokerApiContext], None]
    """Submits what the request asks for; raises `Malformed`."""


def alter_partition(request: InboundRequest, desk: BrokerApiContext) -> None:
    """A leader wants another ISR (KIP-497, KIP-903)."""
    command = read_request(request.api_version, request.body)
    desk.controller.submit(command, partial(_answer_altered, request))


def _answer_altered(request: InboundRequest, outcome: PartitionsAltered | Unavailable) -> None:
    if isinstance(outcome, Unavailable):
        request.respond(write_refusal(_error_of(outcome)))
    else:
        request.respond(write_answer(outcome))


def register(call: KafkaRequest, desk: BrokerApiContext, respond: Respond) -> None:
    """An incarnation of a broker wants to belong to the cluster (KIP-631)."""
    message = call.message
    command = RegisterBroker(
        broker_id=message.broker_id,
        cluster_id=message.cluster_id,
        our_cluster_id=desk.cluster.id or "",
        incarnation_id=message.incarnation_id or UUID(int=0),
        endpoints=_endpoints(message),
        features=_features(message),
        rack=message.rack,
        log_dirs=tuple(each or UUID(int=0) for each in getattr(message, "log_dirs", ())),
        previous_epoch=getattr(message, "previous_broker_epoch", None),
        kraft_version=desk.controller.kraft_version,
    )

    def answer(registered: Any) -> Any:
        sessions = desk.controller.sessions
        desk.refusals.note(message.broker_id, registered.error, registered.message)
        if not registered.error.code and sessions is not None:
            sessions.touch(message.broker_id, NEVER_HEARD, desk.clock())
        return call.respond(
            error_code=code(registered.error.code), broker_epoch=registered.broker_epoch
        )

    def refuse(error: int) -> Any:
        return call.respond(error_code=code(error), broker_epoch=-1)

    _submit(desk, command, respond, answer, refuse)


def heartbeat(request: InboundRequest, desk: BrokerApiContext) -> None:
    """A broker lives, and says what it wants next (KIP-631), and how far its copies are."""
    call = parse_request(request, ANONYMOUS)
    respond = partial(respond_to, request, call)
    reports = reports_of(call.version, request.body, CopyReport)
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
        sessions.copies.reported(message.broker_id, reports, desk.clock())
    command = BrokerHeartbeat(
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        offline_log_dirs=tuple(
            each or UUID(int=0) for each in getattr(message, "offline_log_dirs", ())
        ),
        lowest_live_offset=sessions.lowest_live_offset(controller.image),
    )
    _submit(desk, command, respond, answer, refuse)


def allocate_producer_ids(call: KafkaRequest, desk: BrokerApiContext, respond: Respond) -> None:
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


def assign_replicas_to_dirs(call: KafkaRequest, desk: BrokerApiContext, respond: Respond) -> None:
    """A broker has put replicas into log directories (KIP-858); each one asked is answered."""
    directories = call.message.directories
    command = AssignReplicasToDirs(
        broker_id=call.message.broker_id,
        broker_epoch=call.message.broker_epoch,
        assignments=tuple(
            DirectoryAssignment(
                directory_id=directory.id_ or UUID(int=0),
                topic_id=topic.topic_id or UUID(int=0),
                partition=each.partition_index,
            )
            for directory in directories
            for topic in directory.topics
            for each in topic.partitions
        ),
    )

    def answer(assigned: Any) -> Any:
        if assigned.error.code:
            return refuse(assigned.error.code)
        left = iter(assigned.replicas)
        return call.respond(
            error_code=code(0),
            directories=tuple(
                call.part(
                    "DirectoryData",
                    id_=directory.id_,
                    topics=tuple(_topic(topic, left) for topic in directory.topics),
                )
                for directory in directories
            ),
        )

    def _topic(topic: Any, left: Iterator[ReplicaAssigned]) -> Any:
        partitions = tuple(
            call.part(
                "PartitionData",
                partition_index=each.partition_index,
                error_code=code(next(left).error.code),
            )
            for each in topic.partitions
        )
        return call.part("TopicData", topic_id=topic.topic_id, partitions=partitions)

    def refuse(error: int) -> Any:
        return call.respond(error_code=code(error), directories=())

    _submit(desk, command, respond, answer, refuse)


def register_controller(call: KafkaRequest, desk: BrokerApiContext, respond: Respond) -> None:
    """A controller says where it is (KIP-919)."""
    message = call.message
    command = RegisterController(
        controller_id=message.controller_id,
        incarnation_id=message.incarnation_id or UUID(int=0),
        endpoints=_endpoints(message),
        features=_features(message),
    )

    def answer(registered: Any) -> Any:
        if registered.error is Error.NONE:
            desk.controller.locate(command)
        return call.respond(
            error_code=code(registered.error.code), error_message=registered.message or None
        )

    def refuse(error: int) -> Any:
        message = "the active controller did not do it; ask again"
        return call.respond(error_code=code(error), error_message=message)

    _submit(desk, command, respond, answer, refuse)


def _endpoints(message: Any) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            name=each.name,
            host=each.host,
            port=each.port,
            security_protocol=each.security_protocol,
        )
        for each in message.listeners
    )


def _features(message: Any) -> tuple[FeatureRange, ...]:
    return tuple(
        FeatureRange(
            name=each.name,
            min_supported=each.min_supported_version,
            max_supported=each.max_supported_version,
        )
        for each in message.features
    )


def _submit(
    desk: BrokerApiContext,
    command: Command,
    respond: Respond,
    answer: Callable[[Any], Any],
    refuse: Callable[[int], Any],
) -> None:
    def done(outcome: Any) -> None:
        if isinstance(outcome, Unavailable):
            respond(refuse(_error_of(outcome)))
        else:
            respond(answer(outcome))

    desk.controller.submit(command, done)


def _error_of(unavailable: Unavailable) -> int:
    match unavailable:
        case Unavailable.NOT_ACTIVE | Unavailable.NOT_READY | Unavailable.LEAD_LOST:
            return NOT_CONTROLLER
        case Unavailable.HANDING_OVER:
            # Another one is the active controller in a moment.
            return NOT_CONTROLLER
        case Unavailable.OVERLOADED | Unavailable.DISK_FULL | Unavailable.NOT_PROVED:
            return REQUEST_TIMED_OUT
        case Unavailable.TOO_LARGE:
            return UNKNOWN_SERVER_ERROR
        case _:
            assert_never(unavailable)


def _by_kio(
    handle: Callable[[KafkaRequest, BrokerApiContext, Respond], None],
) -> Callable[[InboundRequest, BrokerApiContext], None]:
    """A handler of kio's values, as one of requests."""

    def handle_request(request: InboundRequest, desk: BrokerApiContext) -> None:
        call = parse_request(request, ANONYMOUS)
        handle(call, desk, partial(respond_to, request, call))

    return handle_request


APIS: Final[Mapping[int, BrokerApi]] = {
    ApiKey.ALTER_PARTITION: BrokerApi(versions=VERSIONS, handle=alter_partition),
    ApiKey.BROKER_REGISTRATION: BrokerApi(versions=VersionRange(0, 4), handle=_by_kio(register)),
    ApiKey.BROKER_HEARTBEAT: BrokerApi(versions=VersionRange(0, 1), handle=heartbeat),
    ApiKey.ALLOCATE_PRODUCER_IDS: BrokerApi(
        versions=VersionRange(0, 0), handle=_by_kio(allocate_producer_ids)
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: BrokerApi(
        versions=VersionRange(0, 0), handle=_by_kio(assign_replicas_to_dirs)
    ),
    ApiKey.CONTROLLER_REGISTRATION: BrokerApi(
        versions=VersionRange(0, 0), handle=_by_kio(register_controller)
    ),
}

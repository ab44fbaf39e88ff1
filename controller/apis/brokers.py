"""Requests of nodes to the active controller.

AlterPartition (56), BrokerRegistration (62), BrokerHeartbeat (63), AllocateProducerIds (67),
ControllerRegistration (70), AssignReplicasToDirs (73). They are not forwarded: a node that asks the
wrong controller hears NOT_CONTROLLER and looks for the right one, as with Kafka's controllers.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, assert_never
from uuid import UUID

from controller.apis import alter_partition
from controller.apis.request import KafkaRequest, code, decode_inbound, encode
from controller.heartbeats import NEVER_HEARD
from controller.ports import Unavailable
from controller.quorum_controller import QuorumController
from quorum.cluster_id import ClusterIdentity
from quorum.ports import Clock
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.copy_reports import reports_of
from quorum.protocol.errors import ErrorCode
from quorum.transport.inbound import InboundRequest
from statemachine.commands import (
    AllocateProducerIds,
    AssignReplicasToDirs,
    BrokerHeartbeat,
    Command,
    DirectoryAssignment,
    Done,
    PartitionsAltered,
    RegisterBroker,
    RegisterController,
)
from statemachine.errors import Error
from statemachine.reassignment.copies import CopyReport
from statemachine.records.kafka_records import Endpoint, FeatureRange

logger = logging.getLogger("controller")

VERSIONS: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        ApiKey.ALTER_PARTITION: alter_partition.VERSIONS,
        ApiKey.BROKER_REGISTRATION: VersionRange(0, 4),
        ApiKey.BROKER_HEARTBEAT: VersionRange(0, 1),
        ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: VersionRange(0, 0),
        ApiKey.CONTROLLER_REGISTRATION: VersionRange(0, 0),
    }
)

BROKERS_REMEMBERED_MAX: Final = 1_024
"""Brokers whose last refusal is remembered; beyond it the oldest is forgotten, and logged again."""


class RegistrationRefusals:
    """The last refusal of each broker: a broker repeats its request, and the log tells it once."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: OrderedDict[int, tuple[Error, str]] = OrderedDict()

    def note(self, broker_id: int, error: Error, reason: str) -> None:
        """Log the answer to a registration if it is a new refusal."""
        if error is Error.NONE:
            self._last.pop(broker_id, None)
            return
        if self._last.get(broker_id) != (error, reason):
            logger.warning(
                "Registration of broker %d refused: %s (%s %d)",
                broker_id,
                reason,
                error.name,
                error.code,
            )
        self._last[broker_id] = (error, reason)
        self._last.move_to_end(broker_id)
        if len(self._last) > BROKERS_REMEMBERED_MAX:
            self._last.popitem(last=False)


class BrokerApis:
    """Answers nodes from one controller; each request is submitted at once, without a task."""

    def __init__(
        self, controller: QuorumController, cluster: ClusterIdentity, *, clock: Clock
    ) -> None:
        self._controller = controller
        self._cluster = cluster
        self._clock = clock
        self._refusals = RegistrationRefusals()
        self.handlers: Mapping[int, Callable[[InboundRequest], None]] = MappingProxyType(
            {
                ApiKey.ALTER_PARTITION: self.alter_partition,
                ApiKey.BROKER_REGISTRATION: self.register_broker,
                ApiKey.BROKER_HEARTBEAT: self.heartbeat,
                ApiKey.ALLOCATE_PRODUCER_IDS: self.allocate_producer_ids,
                ApiKey.ASSIGN_REPLICAS_TO_DIRS: self.assign_replicas_to_dirs,
                ApiKey.CONTROLLER_REGISTRATION: self.register_controller,
            }
        )
        """By API key; each raises `Malformed`."""

    def alter_partition(self, inbound: InboundRequest) -> None:
        """Change ISRs as a leader proposes (KIP-497, KIP-903)."""
        command = alter_partition.read_request(inbound.api_version, inbound.body)
        self._controller.submit(command, partial(_answer_altered, inbound))

    def register_broker(self, inbound: InboundRequest) -> None:
        """Register an incarnation of a broker (KIP-631)."""
        request = decode_inbound(inbound)
        message = request.message
        command = RegisterBroker(
            broker_id=message.broker_id,
            cluster_id=message.cluster_id,
            our_cluster_id=self._cluster.id or "",
            incarnation_id=message.incarnation_id or UUID(int=0),
            endpoints=_endpoints(message),
            features=_features(message),
            rack=message.rack,
            log_dirs=tuple(each or UUID(int=0) for each in getattr(message, "log_dirs", ())),
            previous_epoch=getattr(message, "previous_broker_epoch", None),
            kraft_version=self._controller.kraft_version,
        )

        def answer(registered: Any) -> Any:
            heartbeats = self._controller.heartbeats
            self._refusals.note(message.broker_id, registered.error, registered.message)
            if not registered.error.code and heartbeats is not None:
                heartbeats.touch(message.broker_id, NEVER_HEARD, self._clock())
            return request.respond(
                error_code=code(registered.error.code), broker_epoch=registered.broker_epoch
            )

        def refuse(error: int) -> Any:
            return request.respond(error_code=code(error), broker_epoch=-1)

        self._submit(inbound, request, command, answer, refuse)

    def heartbeat(self, inbound: InboundRequest) -> None:
        """Take note that a broker lives, of the state that it wants and of its copies (KIP-631)."""
        request = decode_inbound(inbound)
        reports = reports_of(request.version, inbound.body, CopyReport)
        message = request.message
        image, heartbeats = self._controller.image, self._controller.heartbeats

        def answer(answered: Any) -> Any:
            return request.respond(
                error_code=code(answered.error.code),
                is_caught_up=answered.caught_up,
                is_fenced=answered.fenced,
                should_shut_down=answered.should_shut_down,
            )

        def refuse(error: int) -> Any:
            return request.respond(error_code=code(error), should_shut_down=False)

        if heartbeats is None:
            inbound.respond(encode(request, refuse(ErrorCode.NOT_CONTROLLER)))
            return
        command = BrokerHeartbeat(
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            metadata_offset=message.current_metadata_offset,
            want_fence=message.want_fence,
            want_shut_down=message.want_shut_down,
            offline_log_dirs=tuple(
                each or UUID(int=0) for each in getattr(message, "offline_log_dirs", ())
            ),
        )
        heard = heartbeats.heard(image, command, reports, self._clock())
        self._submit(inbound, request, heard, answer, refuse)

    def allocate_producer_ids(self, inbound: InboundRequest) -> None:
        """Give a broker a block of producer ids (KIP-730)."""
        request = decode_inbound(inbound)
        command = AllocateProducerIds(
            broker_id=request.message.broker_id, broker_epoch=request.message.broker_epoch
        )

        def answer(allocated: Any) -> Any:
            return request.respond(
                error_code=code(allocated.error.code),
                producer_id_start=allocated.first_id,
                producer_id_len=allocated.count,
            )

        def refuse(error: int) -> Any:
            return request.respond(error_code=code(error), producer_id_start=-1, producer_id_len=0)

        self._submit(inbound, request, command, answer, refuse)

    def assign_replicas_to_dirs(self, inbound: InboundRequest) -> None:
        """Note the log directories of a broker's replicas (KIP-858), one result for each."""
        request = decode_inbound(inbound)
        directories = request.message.directories
        command = AssignReplicasToDirs(
            broker_id=request.message.broker_id,
            broker_epoch=request.message.broker_epoch,
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
            return request.respond(
                error_code=code(ErrorCode.NONE),
                directories=tuple(
                    request.part(
                        "DirectoryData",
                        id_=directory.id_,
                        topics=tuple(_assigned(request, each, left) for each in directory.topics),
                    )
                    for directory in directories
                ),
            )

        def refuse(error: int) -> Any:
            return request.respond(error_code=code(error), directories=())

        self._submit(inbound, request, command, answer, refuse)

    def register_controller(self, inbound: InboundRequest) -> None:
        """Register another controller with its endpoints (KIP-919)."""
        request = decode_inbound(inbound)
        message = request.message
        command = RegisterController(
            controller_id=message.controller_id,
            incarnation_id=message.incarnation_id or UUID(int=0),
            endpoints=_endpoints(message),
            features=_features(message),
        )

        def answer(registered: Any) -> Any:
            if registered.error is Error.NONE:
                self._controller.locate(command)
            return request.respond(
                error_code=code(registered.error.code), error_message=registered.message or None
            )

        def refuse(error: int) -> Any:
            message = "the active controller did not do it; ask again"
            return request.respond(error_code=code(error), error_message=message)

        self._submit(inbound, request, command, answer, refuse)

    def _submit(
        self,
        inbound: InboundRequest,
        request: KafkaRequest,
        command: Command,
        answer: Callable[[Any], Any],
        refuse: Callable[[int], Any],
    ) -> None:
        def done(outcome: Any) -> None:
            if isinstance(outcome, Unavailable):
                payload = refuse(_error_of(outcome))
            else:
                payload = answer(outcome)
            inbound.respond(encode(request, payload))

        self._controller.submit(command, done)


def _answer_altered(inbound: InboundRequest, outcome: PartitionsAltered | Unavailable) -> None:
    if isinstance(outcome, Unavailable):
        inbound.respond(alter_partition.write_refusal(_error_of(outcome)))
    else:
        inbound.respond(alter_partition.write_answer(outcome))


def _assigned(request: KafkaRequest, topic: Any, left: Iterator[Done]) -> Any:
    partitions = tuple(
        request.part(
            "PartitionData",
            partition_index=each.partition_index,
            error_code=code(next(left).error.code),
        )
        for each in topic.partitions
    )
    return request.part("TopicData", topic_id=topic.topic_id, partitions=partitions)


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


def _error_of(unavailable: Unavailable) -> ErrorCode:
    match unavailable:
        case Unavailable.NOT_ACTIVE | Unavailable.NOT_READY | Unavailable.LEAD_LOST:
            return ErrorCode.NOT_CONTROLLER
        case Unavailable.HANDING_OVER:
            # Another one is the active controller in a moment.
            return ErrorCode.NOT_CONTROLLER
        case Unavailable.OVERLOADED | Unavailable.DISK_FULL | Unavailable.NOT_PROVED:
            return ErrorCode.REQUEST_TIMED_OUT
        case Unavailable.TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            assert_never(unavailable)

"""Requests of nodes to the active controller.

AlterPartition (56), BrokerRegistration (62), BrokerHeartbeat (63), AllocateProducerIds (67),
ControllerRegistration (70), AssignReplicasToDirs (73). They are not forwarded: a node that asks the
wrong controller hears NOT_CONTROLLER and looks for the right one, as with Kafka's controllers.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, overload
from uuid import UUID

from msgspec import convert

from controller.apis import alter_partition
from controller.apis.request import decode_inbound, encode, refuse
from controller.ports import Unavailable
from controller.quorum_controller import QuorumController
from quorum.cluster_id import ClusterIdentity
from quorum.log_events import LogEvent
from quorum.ports import Clock
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import details_of
from quorum.protocol.refusals import bounded
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
)
from statemachine.errors import Error
from statemachine.reassignment.copies import CopyReports
from statemachine.records.kafka_records import Endpoint, FeatureRange
from statemachine.vocabulary import Directories

logger = logging.getLogger("controller")

BROKERS_REMEMBERED_MAX: Final = 1_024
"""Brokers whose last refusal is remembered; beyond it the oldest is forgotten, and logged again."""

_NOT_DONE: Final = "the active controller did not carry it out; retry"
_ZERO: Final = UUID(int=0)
_ERRORS: Final = {
    Unavailable.NOT_ACTIVE: ErrorCode.NOT_CONTROLLER,
    Unavailable.NOT_READY: ErrorCode.NOT_CONTROLLER,
    Unavailable.LEAD_LOST: ErrorCode.NOT_CONTROLLER,
    # Another controller is active in a moment.
    Unavailable.HANDING_OVER: ErrorCode.NOT_CONTROLLER,
    Unavailable.OVERLOADED: ErrorCode.REQUEST_TIMED_OUT,
    Unavailable.DISK_FULL: ErrorCode.REQUEST_TIMED_OUT,
    Unavailable.NOT_PROVED: ErrorCode.REQUEST_TIMED_OUT,
    Unavailable.TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

NOT_DONE_FIELDS: Final[Mapping[int, Mapping[str, Any]]] = {
    ApiKey.ALLOCATE_PRODUCER_IDS: {"producer_id_start": -1, "producer_id_len": 0}
}
"""Fields of a response to a refused command that are not simply empty."""

Submission: TypeAlias = tuple[Command, Callable[[Any], Mapping[str, Any]]]
"""The command of a request, and a function from its outcome to the fields of the response."""


class BrokerApis:
    """Answers nodes from one controller; each request is submitted at once, without a task."""

    def __init__(
        self, controller: QuorumController, cluster: ClusterIdentity, *, clock: Clock
    ) -> None:
        self._controller = controller
        self._cluster = cluster
        self._clock = clock
        self._refusals: OrderedDict[int, tuple[Error, str]] = OrderedDict()

    def alter_partition(self, inbound: InboundRequest) -> None:
        """Change ISRs as a leader proposes (KIP-497, KIP-903); raises `Malformed`."""
        command = alter_partition.read_request(inbound.api_version, inbound.body)
        self._controller.submit(command, partial(_answer_altered, inbound))

    def submit(self, inbound: InboundRequest) -> None:
        """Submit the command of a request in `SUBMITTED`, and respond; raises `Malformed`."""
        request = decode_inbound(inbound)
        if request.api_key == ApiKey.BROKER_HEARTBEAT and self._is_live(request.message):
            inbound.serve_first()
        command, answer = SUBMITTED[request.api_key](self, request.message)

        def done(outcome: Any) -> None:
            if isinstance(outcome, Unavailable):
                fields = NOT_DONE_FIELDS.get(request.api_key, {})
                response = refuse(request, _ERRORS[outcome], _NOT_DONE, **fields)
            else:
                response = request.respond(error_code=outcome.error.code, **answer(outcome))
            inbound.respond(encode(request, response))

        self._controller.submit(command, done)

    def _is_live(self, message: Any) -> bool:
        """Return True if the sender of a heartbeat knows the epoch of the broker."""
        broker = self._controller.image.brokers.get(message.broker_id)
        return broker is not None and broker.broker_epoch == message.broker_epoch

    def register_broker(self, message: Any) -> Submission:
        """Register an incarnation of a broker (KIP-631)."""
        command = RegisterBroker(
            broker_id=message.broker_id,
            cluster_id=message.cluster_id,
            our_cluster_id=self._cluster.id or "",
            incarnation_id=message.incarnation_id or _ZERO,
            endpoints=convert(message.listeners, tuple[Endpoint, ...], from_attributes=True),
            features=_features(message),
            rack=message.rack,
            log_dirs=_ids(getattr(message, "log_dirs", ())),
            previous_epoch=getattr(message, "previous_broker_epoch", None),
            kraft_version=self._controller.kraft_version,
        )

        def answer(registered: Any) -> Mapping[str, Any]:
            heartbeats = self._controller.heartbeats
            if registered.error is not Error.NONE:
                self._note_refusal(message.broker_id, registered.error, registered.message)
            else:
                self._refusals.pop(message.broker_id, None)
                if heartbeats is not None:
                    heartbeats.touch(message.broker_id, self._clock())
            return {"broker_epoch": registered.broker_epoch}

        return command, answer

    def _note_refusal(self, broker_id: int, error: Error, reason: str) -> None:
        """Log a refusal once: a broker repeats its request."""
        if self._refusals.pop(broker_id, None) != (error, reason):
            logger.warning(
                "Registration of broker %d refused: %s (%s %d)",
                broker_id,
                reason,
                error.name,
                error.code,
                extra=LogEvent.BROKER_REFUSED.extra,
            )
        self._refusals[broker_id] = (error, reason)
        if len(self._refusals) > BROKERS_REMEMBERED_MAX:
            self._refusals.popitem(last=False)

    def heartbeat(self, message: Any) -> Submission:
        """Note a broker's heartbeat, the state that it wants and its copies (KIP-631)."""
        reports = details_of(message, CopyReports) or ()
        command = BrokerHeartbeat(
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            metadata_offset=message.current_metadata_offset,
            want_fence=message.want_fence,
            want_shut_down=message.want_shut_down,
            offline_log_dirs=_ids(getattr(message, "offline_log_dirs", ())),
            cordoned_log_dirs=_ids(getattr(message, "cordoned_log_dirs", None)),
        )
        heartbeats = self._controller.heartbeats
        if heartbeats is not None:
            command = heartbeats.heard(command, reports, self._clock())
        return command, lambda answered: {
            "is_caught_up": answered.caught_up,
            "is_fenced": answered.fenced,
            "should_shut_down": answered.should_shut_down,
        }

    def allocate_producer_ids(self, message: Any) -> Submission:
        """Give a broker a block of producer ids (KIP-730)."""
        command = AllocateProducerIds(
            broker_id=message.broker_id, broker_epoch=message.broker_epoch
        )
        return command, lambda allocated: {
            "producer_id_start": allocated.first_id,
            "producer_id_len": allocated.count,
        }

    def assign_replicas_to_dirs(self, message: Any) -> Submission:
        """Note the log directories of a broker's replicas (KIP-858), one result for each."""
        directories = message.directories
        command = AssignReplicasToDirs(
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            assignments=tuple(
                DirectoryAssignment(
                    directory_id=directory.id_ or _ZERO,
                    topic_id=topic.topic_id or _ZERO,
                    partition=each.partition_index,
                )
                for directory in directories
                for topic in directory.topics
                for each in topic.partitions
            ),
        )

        def answer(assigned: Any) -> Mapping[str, Any]:
            left = iter(assigned.replicas)
            return {
                "directories": [
                    {
                        "id_": directory.id_,
                        "topics": [
                            {
                                "topic_id": topic.topic_id,
                                "partitions": [
                                    {
                                        "partition_index": each.partition_index,
                                        "error_code": next(left).error.code,
                                    }
                                    for each in topic.partitions
                                ],
                            }
                            for topic in directory.topics
                        ],
                    }
                    for directory in (() if assigned.error.code else directories)
                ]
            }

        return command, answer

    def register_controller(self, message: Any) -> Submission:
        """Register another controller with its endpoints (KIP-919)."""
        command = RegisterController(
            controller_id=message.controller_id,
            incarnation_id=message.incarnation_id or _ZERO,
            endpoints=convert(message.listeners, tuple[Endpoint, ...], from_attributes=True),
            features=_features(message),
        )

        def answer(registered: Any) -> Mapping[str, Any]:
            if registered.error is Error.NONE:
                self._controller.locate(command)
            return {"error_message": bounded(registered.message) or None}

        return command, answer


SUBMITTED: Final[Mapping[ApiKey, Callable[[BrokerApis, Any], Submission]]] = MappingProxyType(
    {
        ApiKey.BROKER_REGISTRATION: BrokerApis.register_broker,
        ApiKey.BROKER_HEARTBEAT: BrokerApis.heartbeat,
        ApiKey.ALLOCATE_PRODUCER_IDS: BrokerApis.allocate_producer_ids,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: BrokerApis.assign_replicas_to_dirs,
        ApiKey.CONTROLLER_REGISTRATION: BrokerApis.register_controller,
    }
)
"""The requests of nodes that `BrokerApis.submit` answers."""


def _answer_altered(inbound: InboundRequest, outcome: PartitionsAltered | Unavailable) -> None:
    if isinstance(outcome, Unavailable):
        inbound.respond(alter_partition.write_refusal(_ERRORS[outcome]))
    else:
        inbound.respond(alter_partition.write_answer(outcome))


@overload
def _ids(found: Iterable[UUID | None]) -> Directories: ...
@overload
def _ids(found: Iterable[UUID | None] | None) -> Directories | None: ...
def _ids(found: Iterable[UUID | None] | None) -> Directories | None:
    """Return ids of directories as read, where a zero id is None; None for no list."""
    return None if found is None else tuple([each or _ZERO for each in found])


def _features(message: Any) -> tuple[FeatureRange, ...]:
    return tuple(
        FeatureRange(
            name=each.name,
            min_supported=each.min_supported_version,
            max_supported=each.max_supported_version,
        )
        for each in message.features
    )

"""Produce: append batches to the logs that this broker leads and respond when acknowledged.

acks=1 waits until this broker has written the batch, acks=all until every in-sync replica has
confirmed it. acks=0 has no response: a batch that cannot be appended closes the connection, as in
Kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from broker.authorization import OPEN, BrokerRights
from broker.limits import PENDING_APPENDS_PER_PARTITION_MAX, PRODUCE_TIMEOUT_MS_MAX
from broker.replica_manager import ReplicaManager
from broker.storage.batch_validation import InvalidBatch
from quorum.ports import Clock
from quorum.protocol import codec
from quorum.protocol.errors import ErrorCode
from quorum.transport.inbound import InboundRequest
from statemachine.security.rights import WRITE_TOPIC, WRITE_TRANSACTION, Right
from statemachine.topics.metadata_responses import live_brokers
from statemachine.vocabulary import NO_LEADER

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "this broker does not lead the partition",
    ErrorCode.REQUEST_TIMED_OUT: "the followers did not confirm in time",
    ErrorCode.NOT_ENOUGH_REPLICAS: ("fewer replicas are in sync than min.insync.replicas requires"),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "fewer replicas than required stayed in sync",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "an earlier batch of this producer is missing",
    ErrorCode.INVALID_PRODUCER_EPOCH: "a newer epoch of this producer is in the log",
}
"""The message beside the error code of a batch that a partition refuses."""


class Outcome(NamedTuple):
    """The result of one partition's batch."""

    code: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1
    log_start: int = -1
    message: str | None = None


class ProduceApi:
    """The handler of Produce; `wall_clock` stamps records of topics with LogAppendTime."""

    def __init__(
        self, manager: ReplicaManager, wall_clock: Clock, rights: BrokerRights = OPEN
    ) -> None:
        self._rights = rights
        self._manager = manager
        self._wall_clock = wall_clock

    def handle(self, request: InboundRequest, message: Any) -> None:
        """Append the batches; respond now or when they are acknowledged."""
        response = _Response(request, message, self._manager)
        timeout_ms = round(message.timeout.total_seconds() * 1_000)
        deadline_ms = self._manager.now_ms() + max(0, min(timeout_ms, PRODUCE_TIMEOUT_MS_MAX))
        access, transaction = self._rights.access(request), message.transactional_id
        refusal: tuple[Right, str] | None = None
        if transaction is not None and not access.may(WRITE_TRANSACTION, transaction):
            refusal = WRITE_TRANSACTION, transaction
        at = 0
        for topic in message.topic_data:
            why = refusal
            if why is None and not access.may(WRITE_TOPIC, topic.name):
                why = WRITE_TOPIC, topic.name
            for data in topic.partition_data:
                settle = partial(response.settle, at)
                if why is None:
                    self._append(topic.name, data, message.acks, deadline_ms, settle)
                else:
                    right, name = why
                    code = ErrorCode(right.error.code)
                    settle(Outcome(code, message=access.refusal(right, name)))
                at += 1
        response.count_down()

    def _append(
        self, topic: str, data: Any, acks: int, deadline_ms: int, settle: Callable[[Outcome], None]
    ) -> None:
        if acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            reason = f"acks is {acks}, it must be 0, 1 or -1 (all)"
            settle(Outcome(ErrorCode.INVALID_REQUIRED_ACKS, message=reason))
            return
        partition = self._manager.partition(topic, data.index)
        if isinstance(partition, ErrorCode):
            settle(_failed(partition))
            return
        if partition.waiting >= PENDING_APPENDS_PER_PARTITION_MAX:
            reason = "too many appends wait for followers"
            settle(Outcome(ErrorCode.REQUEST_TIMED_OUT, message=reason))
            return
        result = partition.produce(
            data.records, for_all=acks == ACKS_ALL, wall_ms=self._wall_clock()
        )
        if isinstance(result, InvalidBatch):
            settle(Outcome(result.code, message=result.message))
            return
        if isinstance(result, ErrorCode):
            settle(_failed(result))
            return
        self._manager.traffic.bytes_in += len(data.records)
        outcome = Outcome(
            ErrorCode.NONE, result.base_offset, result.append_time_ms, partition.log.start
        )

        def done(error: ErrorCode | None) -> None:
            settle(outcome if error is None else _failed(error))

        if acks == ACKS_NONE:
            done(None)
        elif acks == ACKS_LEADER:
            partition.when_written(result.end_offset, deadline_ms, done)
        else:
            partition.when_committed(result.end_offset, deadline_ms, done)
        if partition.waiting:
            self._manager.watch_acks(partition)


class _Response:
    """The response under construction: the results so far and the number of missing ones."""

    __slots__ = ("_manager", "_message", "_missing", "_outcomes", "_request")

    def __init__(self, request: InboundRequest, message: Any, manager: ReplicaManager) -> None:
        count = sum(len(topic.partition_data) for topic in message.topic_data)
        self._request = request
        self._message = message
        self._manager = manager
        self._outcomes: list[Outcome] = [Outcome(ErrorCode.UNKNOWN_SERVER_ERROR)] * count
        # One more than the partitions: no response leaves before all appends were started.
        self._missing = count + 1

    def settle(self, at: int, outcome: Outcome) -> None:
        """Take the result of the partition at this place of the request."""
        self._outcomes[at] = outcome
        self.count_down()

    def count_down(self) -> None:
        """Note that one partition, or the start of the appends, is done; respond after the last."""
        self._missing -= 1
        if self._missing:
            return
        request = self._request
        if self._message.acks != ACKS_NONE:
            body = codec.response_body(request.api_key, request.api_version, **self._values())
            request.respond(body)
            return
        failed = [each for each in self._outcomes if each.code != ErrorCode.NONE]
        if failed:
            request.reject(f"a Produce with acks=0 failed with error {failed[0].code}")
        else:
            request.respond_nothing()

    def _values(self) -> Mapping[str, Any]:
        outcomes = iter(self._outcomes)
        topics = [
            {
                "name": topic.name,
                "partition_responses": [
                    self._partition(topic.name, data.index, next(outcomes))
                    for data in topic.partition_data
                ],
            }
            for topic in self._message.topic_data
        ]
        is_misdirected = any(
            each.code == ErrorCode.NOT_LEADER_OR_FOLLOWER for each in self._outcomes
        )
        # The addresses of the live brokers (KIP-951).
        endpoints: Sequence[Mapping[str, Any]] = ()
        if is_misdirected:
            endpoints = live_brokers(self._manager.image, self._request.listener)
        return {"responses": topics, "node_endpoints": endpoints}

    def _partition(self, topic: str, index: int, outcome: Outcome) -> Mapping[str, Any]:
        time_ms = outcome.append_time_ms
        values: dict[str, Any] = {
            "index": index,
            "error_code": outcome.code,
            "base_offset": outcome.base_offset,
            "log_append_time": (
                None if time_ms < 0 else datetime.fromtimestamp(time_ms / 1_000, tz=UTC)
            ),
            "log_start_offset": outcome.log_start,
            "record_errors": (),
            "error_message": outcome.message,
        }
        if outcome.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            values["current_leader"] = self._current_leader(topic, index)
        return values

    def _current_leader(self, topic: str, number: int) -> Mapping[str, int]:
        """The current leader, for a client that asked the wrong broker (KIP-951)."""
        found = self._manager.image.topic_named(topic)
        partition = None if found is None else found.partition(number)
        if partition is None:
            return {"leader_id": NO_LEADER, "leader_epoch": -1}
        return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}


def _failed(code: ErrorCode) -> Outcome:
    return Outcome(code, message=MESSAGES.get(code))

"""Produce: append batches to the logs that this broker leads and respond when acknowledged.

acks=1 waits until this broker has written the batch, acks=all until every in-sync replica has
confirmed it. acks=0 has no response: a batch that cannot be appended closes the connection, as in
Kafka.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from broker.apis.partition_lookup import PartitionLookup
from broker.limits import PENDING_APPENDS_PER_PARTITION_MAX, PRODUCE_TIMEOUT_MS_MAX
from broker.partition.assignment import Appended, Refusal
from broker.partition.partition import Partition
from broker.replica_manager import ReplicaManager
from broker.storage.batch_validation import InvalidBatch
from broker.storage.producer_state import SequenceError
from quorum.ports import Clock
from quorum.protocol import codec
from quorum.protocol.errors import ErrorCode
from quorum.transport.inbound import InboundRequest

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

_LEADER_HINTS_FROM: Final = 10
"""The first version whose response may name the leader (KIP-951)."""
_MESSAGES_FROM: Final = 8
_LOG_START_FROM: Final = 5


class Outcome(NamedTuple):
    """The result of one partition's batch."""

    code: int
    base_offset: int = -1
    append_time_ms: int = -1
    log_start: int = -1
    message: str | None = None


class ProduceApi:
    """The handler of Produce; `wall_clock` stamps records of topics with LogAppendTime."""

    def __init__(
        self, manager: ReplicaManager, lookup: PartitionLookup, *, clock: Clock, wall_clock: Clock
    ) -> None:
        self._manager = manager
        self._lookup = lookup
        self._clock = clock
        self._wall_clock = wall_clock

    def handle(self, request: InboundRequest) -> None:
        """Append the batches; respond now or when they are acknowledged."""
        message = codec.decode_request(request.api_key, request.api_version, request.body)
        answer = _Answer(request, message, self._lookup)
        acks = message.acks
        timeout_ms = _milliseconds(message.timeout)
        deadline_ms = self._clock() + max(0, min(timeout_ms, PRODUCE_TIMEOUT_MS_MAX))
        at = 0
        for topic in message.topic_data:
            for data in topic.partition_data:
                settle = answer.settler(at)
                at += 1
                if acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
                    settle(Outcome(ErrorCode.INVALID_REQUIRED_ACKS, message=_acks_message(acks)))
                    continue
                self._append(topic.name, data, acks, deadline_ms, settle)
        answer.all_begun()

    def _append(
        self, topic: str, data: Any, acks: int, deadline_ms: int, settle: Callable[[Outcome], None]
    ) -> None:
        partition = self._lookup.partition(topic, data.index)
        if isinstance(partition, ErrorCode):
            settle(Outcome(partition))
            return
        if partition.waiting >= PENDING_APPENDS_PER_PARTITION_MAX:
            settle(
                Outcome(ErrorCode.REQUEST_TIMED_OUT, message="too many appends wait for followers")
            )
            return
        result = partition.produce(
            data.records, for_all=acks == ACKS_ALL, wall_ms=self._wall_clock()
        )
        if not isinstance(result, Appended):
            settle(_refused(result))
            return
        outcome = Outcome(
            ErrorCode.NONE, result.base_offset, result.append_time_ms, partition.log.start
        )
        if acks == ACKS_NONE:
            settle(outcome)
            return

        def done(refusal: Refusal | None) -> None:
            settle(outcome if refusal is None else Outcome(refusal.code, message=refusal.meaning))

        self._wait(partition, result.end_offset, acks, deadline_ms, done)

    def _wait(
        self,
        partition: Partition,
        end_offset: int,
        acks: int,
        deadline_ms: int,
        done: Callable[[Refusal | None], None],
    ) -> None:
        if acks == ACKS_ALL:
            partition.when_committed(end_offset, deadline_ms, done)
        else:
            partition.when_written(end_offset, deadline_ms, done)
        if partition.waiting:
            self._manager.watch_acks(partition)


class _Answer:
    """The response under construction: the results so far and the number of missing ones."""

    __slots__ = ("_is_complete", "_lookup", "_message", "_missing", "_outcomes", "_request")

    def __init__(self, request: InboundRequest, message: Any, lookup: PartitionLookup) -> None:
        count = sum(len(topic.partition_data) for topic in message.topic_data)
        self._request = request
        self._message = message
        self._lookup = lookup
        self._outcomes: list[Outcome] = [Outcome(ErrorCode.UNKNOWN_SERVER_ERROR)] * count
        # One more than the partitions: no response leaves before all appends were started.
        self._missing = count + 1

    def settler(self, at: int) -> Callable[[Outcome], None]:
        def settle(outcome: Outcome) -> None:
            self._outcomes[at] = outcome
            self._count_down()

        return settle

    def all_begun(self) -> None:
        self._count_down()

    def _count_down(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._finish()

    def _finish(self) -> None:
        if self._message.acks != ACKS_NONE:
            self._request.respond(self._encoded())
            return
        failed = [each for each in self._outcomes if each.code != ErrorCode.NONE]
        if failed:
            self._request.reject(f"a Produce with acks=0 failed with error {failed[0].code}")
        else:
            self._request.respond_nothing()

    def _encoded(self) -> bytes:
        version = self._request.api_version
        schema = codec.response_schema(self._request.api_key, version)
        of_topic = codec.nested(schema, "TopicProduceResponse")
        outcomes = iter(self._outcomes)
        topics = tuple(
            codec.make(
                of_topic,
                name=topic.name,
                partition_responses=tuple(
                    self._partition(schema, topic.name, data.index, next(outcomes))
                    for data in topic.partition_data
                ),
            )
            for topic in self._message.topic_data
        )
        values: dict[str, Any] = {"responses": topics}
        if version >= _LEADER_HINTS_FROM:
            missed = any(each.code == ErrorCode.NOT_LEADER_OR_FOLLOWER for each in self._outcomes)
            values["node_endpoints"] = self._lookup.endpoints(schema) if missed else ()
        payload = codec.make(schema, **values)
        return codec.encode_response_body(self._request.api_key, version, payload)

    def _partition(self, schema: type[Any], topic: str, index: int, outcome: Outcome) -> Any:
        version = self._request.api_version
        values: dict[str, Any] = {
            "index": index,
            "error_code": codec.error_code(outcome.code),
            "base_offset": outcome.base_offset,
            "log_append_time": _time(outcome.append_time_ms),
        }
        if version >= _LOG_START_FROM:
            values["log_start_offset"] = outcome.log_start
        if version >= _MESSAGES_FROM:
            values["record_errors"] = ()
            values["error_message"] = outcome.message
        if version >= _LEADER_HINTS_FROM and outcome.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            hint = self._lookup.hint(topic, index)
            values["current_leader"] = codec.make(codec.nested(schema, "LeaderIdAndEpoch"), **hint)
        return codec.make(codec.nested(schema, "PartitionProduceResponse"), **values)


def _refused(result: Refusal | SequenceError | InvalidBatch) -> Outcome:
    if isinstance(result, InvalidBatch):
        return Outcome(result.code, message=result.message)
    return Outcome(result.code, message=result.meaning)


def _acks_message(acks: int) -> str:
    return f"acks is {acks}, it must be 0, 1 or -1 (all)"


def _milliseconds(delta: Any) -> int:
    milliseconds: int = round(delta.total_seconds() * 1_000)
    return milliseconds


def _time(time_ms: int) -> datetime | None:
    return None if time_ms < 0 else datetime.fromtimestamp(time_ms / 1_000, tz=UTC)

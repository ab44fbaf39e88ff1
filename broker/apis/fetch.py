"""Fetch: records of the partitions that this broker leads, for consumers and followers.

A consumer reads up to the high watermark, a follower up to the end of the log; a follower's fetch
also reports its progress. There are no fetch sessions (KIP-227): every fetch names all of its
partitions. There are no transactions, so `read_committed` reads the same as `read_uncommitted`.

The response is the largest and most frequent one of a broker: versions 12 to 17 are packed by hand
without copying the records, byte-identical to kio; kio writes the older versions.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from broker.authorization import OPEN, BrokerRights
from broker.limits import (
    DELAYED_FETCH_PARTITIONS_MIN,
    DELAYED_PARTITIONS_MAX,
    FETCH_ANSWER_BYTES_MAX,
    FETCH_WAIT_MS_MAX,
    REPLICA_FETCH_ANSWER_BYTES_MAX,
)
from broker.partition.follower import divergence
from broker.partition.partition import Partition, PartitionListener
from broker.replica_manager import ReplicaManager
from broker.replication.follower_fetch import REPLICA_STATE_FROM
from quorum.core.vocabulary import Offset, OffsetAndEpoch
from quorum.log_events import LogEvent
from quorum.ports import LogFailure
from quorum.protocol import codec
from quorum.protocol.errors import ErrorCode
from quorum.protocol.shape import Data
from quorum.records.varint import uvarint
from quorum.transport.inbound import InboundRequest
from quorum.transport.sweeper import Sweeper
from statemachine.security.rights import READ_TOPIC
from statemachine.vocabulary import NO_EPOCH

logger = logging.getLogger("broker")

CONSUMER: Final = -1
"""The replica id of a consumer."""

_NO_TOPIC: Final = UUID(int=0)


class PartitionAnswer(NamedTuple):
    """The response for one partition; an offset of -1 is unknown."""

    number: int
    error_code: int
    high_watermark: int
    log_start: int
    diverging: OffsetAndEpoch | None
    records: bytes


TopicAnswer: TypeAlias = tuple[str | UUID, Sequence[PartitionAnswer]]
"""A topic by name in version 12, by id from 13 on, and its partitions."""


class _Part:
    """One partition of a fetch."""

    __slots__ = ("asked", "code", "diverging", "last_epoch", "leader_epoch", "partition")

    def __init__(self, asked: Any, found: Partition | ErrorCode) -> None:
        self.asked = asked
        # Older versions have no epochs.
        self.leader_epoch: int = getattr(asked, "current_leader_epoch", NO_EPOCH)
        self.last_epoch: int = getattr(asked, "last_fetched_epoch", NO_EPOCH)
        self.partition: Partition | None = found if isinstance(found, Partition) else None
        self.code: int = ErrorCode.NONE if isinstance(found, Partition) else found
        self.diverging: OffsetAndEpoch | None = None


class DelayedFetch:
    """One Fetch request until its response."""

    def __init__(
        self,
        request: InboundRequest,
        message: Any,
        manager: ReplicaManager,
        rights: BrokerRights = OPEN,
    ) -> None:
        self.request = request
        self._message = message
        self._now_ms = manager.now_ms
        self._traffic = manager.traffic
        self._throttle = manager.throttles.leader
        self.deadline_ms = 0
        self.replica_id, self.replica_epoch = _replica(message, request.api_version)
        self.is_replica = self.replica_id != CONSUMER
        self.replica = (self.replica_id, request.connection_id) if self.is_replica else None
        """The follower and its connection."""
        by_id = request.api_version >= TOPIC_IDS_FROM
        may_read = _reader(request, manager, rights, is_replica=self.is_replica)
        self._topics: list[tuple[Any, list[_Part]]] = [
            (
                topic,
                [
                    _Part(
                        asked,
                        ErrorCode.TOPIC_AUTHORIZATION_FAILED
                        if not is_allowed
                        else manager.partition_by_id(topic.topic_id, asked.partition)
                        if by_id
                        else manager.partition(topic.topic, asked.partition),
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in message.topics
            for is_allowed in (may_read(topic.topic_id if by_id else topic.topic),)
        ]
        self._parts = [part for _, parts in self._topics for part in parts]
        self.partitions = tuple({part.partition: None for part in self._parts if part.partition})
        self.size = max(len(self._parts), DELAYED_FETCH_PARTITIONS_MIN)
        """What it counts as among the delayed fetches, repeated partitions included."""

    @property
    def network(self) -> str:
        """The address of the client that counts for limits per address."""
        return self.request.network

    @property
    def is_gone(self) -> bool:
        """Return whether the client has disconnected."""
        return self.request.is_gone

    def begin(self) -> None:
        """Check each partition and apply a follower's progress. Call it once."""
        for part in self._parts:
            if part.partition is None:
                continue
            if self.is_replica:
                self._begin_replica(part, part.partition)
            else:
                self._begin_consumer(part, part.partition)

    def _begin_replica(self, part: _Part, partition: Partition) -> None:
        result = partition.fetched_by(
            self.replica_id,
            broker_epoch=self.replica_epoch,
            current_leader_epoch=part.leader_epoch,
            offset=part.asked.fetch_offset,
            last_fetched_epoch=part.last_epoch,
        )
        if result is None:
            # Each Produce keeps its room until followers have fetched it: they must not wait for
            # that room themselves.
            self.request.serve_first()
        elif isinstance(result, ErrorCode):
            part.code = result
        else:
            part.diverging = result

    def _begin_consumer(self, part: _Part, partition: Partition) -> None:
        offset = part.asked.fetch_offset
        refusal = partition.fetch_refusal(part.leader_epoch)
        if refusal is not None:
            part.code = refusal
            return
        part.diverging = divergence(
            partition.history,
            partition.log_end,
            last_fetched_epoch=part.last_epoch,
            fetch_offset=offset,
        )
        is_within = partition.log.start <= offset <= partition.log_end
        if part.diverging is None and not is_within:
            part.code = ErrorCode.OFFSET_OUT_OF_RANGE

    def is_satisfied(self) -> bool:
        """Return whether an error occurred or enough bytes are available."""
        self._recheck_leaders()
        if any(part.code or part.diverging is not None for part in self._parts):
            return True
        waiting = [part for part in self._parts if self._limit(part) > part.asked.fetch_offset]
        if not waiting:
            return False
        if self._message.min_bytes <= 1:
            return True
        found = 0
        for part in waiting:
            found += len(self._read(part, self._message.min_bytes - found))
            if found >= self._message.min_bytes:
                return True
        return False

    def _recheck_leaders(self) -> None:
        """Check each partition's leadership again: it may have changed since the request."""
        for part in self._parts:
            if part.partition is not None and not part.code:
                refusal = part.partition.fetch_refusal(part.leader_epoch)
                if refusal is not None:
                    part.code = refusal

    def _limit(self, part: _Part) -> int:
        """The end offset for this reader; its own fetch offset if it must wait."""
        held: int = part.asked.fetch_offset
        if part.partition is None or part.code or part.diverging is not None:
            return held
        if not self.is_replica:
            return part.partition.high_watermark
        if self._is_throttled(part.partition) and self._throttle.wait_ms(self._now_ms()):
            return held
        return part.partition.log_end

    def _is_throttled(self, partition: Partition) -> bool:
        """Return whether the leader throttle limits this follower (KIP-73)."""
        if not self.is_replica or self._throttle.rate_bytes_per_s is None:
            return False
        if partition.key.number not in partition.settings.leader_throttled:
            return False
        leading = partition.leading
        return leading is not None and self.replica_id not in leading.assignment.isr

    def _read(self, part: _Part, max_bytes: int) -> bytes:
        start, limit = part.asked.fetch_offset, self._limit(part)
        if part.partition is None or limit <= start or max_bytes <= 0:
            return b""
        try:
            return part.partition.log.read(Offset(start), Offset(limit), max_bytes)
        except LogFailure as failure:
            logger.error("%s", failure, extra=LogEvent.PARTITION_FAILED.extra)
            part.code = ErrorCode.KAFKA_STORAGE_ERROR
            return b""

    def finish(self) -> None:
        """Respond with the records available now."""
        self._recheck_leaders()
        most = REPLICA_FETCH_ANSWER_BYTES_MAX if self.is_replica else FETCH_ANSWER_BYTES_MAX
        left = min(self._message.max_bytes, most)
        is_first = True
        records: dict[_Part, bytes] = {}
        for part in self._parts:
            most_bytes = min(left, part.asked.partition_max_bytes)
            is_throttled = part.partition is not None and self._is_throttled(part.partition)
            available_bytes = (
                self._throttle.available_bytes(self._now_ms()) if is_throttled else None
            )
            if available_bytes is not None:
                most_bytes = min(most_bytes, available_bytes)
            data = self._read(part, most_bytes)
            # A batch larger than the limit is returned only as the first one, or a reader would
            # never get past it (KIP-74).
            if data and (is_first or len(data) <= left):
                records[part] = data
                left -= len(data)
                is_first = False
                if is_throttled:
                    self._throttle.take(len(data), self._now_ms())
        self._count_sent(sum(map(len, records.values())))
        self._respond(ErrorCode.NONE, records)

    def _count_sent(self, size_bytes: int) -> None:
        if self.is_replica:
            self._traffic.replication_bytes_out += size_bytes
        else:
            self._traffic.bytes_out += size_bytes

    def fail(self, code: ErrorCode) -> None:
        """Respond with an error for the whole request."""
        self._topics = []
        self._respond(code, {})

    def _respond(self, code: ErrorCode, records: dict[_Part, bytes]) -> None:
        version = self.request.api_version
        by_id = version >= TOPIC_IDS_FROM
        topics = [
            (
                (topic.topic_id or _NO_TOPIC) if by_id else topic.topic,
                [_answer(part, records.get(part, b"")) for part in parts],
            )
            for topic, parts in self._topics
        ]
        is_read_committed = self._message.isolation_level != 0
        if version >= FLEXIBLE_FROM:
            body = write_answer(code, topics, is_read_committed=is_read_committed)
            self.request.respond(body)
            return
        aborted = () if is_read_committed else None
        responses = [
            {"topic": topic, "partitions": [_plain(answer, aborted) for answer in answers]}
            for topic, answers in topics
        ]
        self.request.respond(
            codec.response_body(
                self.request.api_key, version, error_code=code, session_id=0, responses=responses
            )
        )


def _reader(
    request: InboundRequest, manager: ReplicaManager, rights: BrokerRights, *, is_replica: bool
) -> Callable[[UUID | str | None], bool]:
    """Return whether the sender may read a topic, by id or name.

    A topic id that is not known names no topic to have rights on, and tells nothing.
    """
    if is_replica:
        may_act = rights.may_act(request)
        return lambda _: may_act
    access = rights.access(request)

    def may_read(topic: UUID | str | None) -> bool:
        if not isinstance(topic, str):
            found = None if topic is None else manager.image.topics.get(topic)
            if found is None:
                return True
            topic = found.name
        return access.may(READ_TOPIC, topic)

    return may_read


class FetchApi(PartitionListener):
    """The handler of Fetch, with the purgatory of those that wait; owned by the running loop.

    No fetch has a task or a timer. It is registered with each of its partitions and checked again
    when one of them changes or when its deadline passes. Several events in one turn of the loop
    cause one check.
    """

    def __init__(
        self, manager: ReplicaManager, sweeper: Sweeper, rights: BrokerRights = OPEN
    ) -> None:
        self._manager = manager
        self._rights = rights
        self._sweeper = sweeper
        self._loop = asyncio.get_running_loop()
        self._by_partition: dict[Partition, dict[DelayedFetch, None]] = {}
        self.delayed: dict[DelayedFetch, None] = {}
        """The delayed fetches, oldest first."""
        self._delayed_of_host: Counter[str] = Counter()
        """The sizes of the delayed fetches of each address, and of all."""
        self._delayed_size = 0
        self._replicas: dict[tuple[int, int], DelayedFetch] = {}
        """The delayed fetch of each follower on each connection."""
        self._changed: dict[DelayedFetch, None] = {}
        self._is_due = False

    def handle(self, request: InboundRequest, message: Any) -> None:
        """Answer at once, or delay the request until there is enough to return.

        The next fetch of a follower on the same connection completes the delayed one.
        """
        fetch = DelayedFetch(request, message, self._manager, self._rights)
        if fetch.replica is not None:
            previous = self._replicas.get(fetch.replica)
            if previous is not None:
                self._finish(previous)
        if getattr(message, "session_id", 0) != 0:
            fetch.fail(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return
        fetch.begin()
        wait_ms = round(message.max_wait.total_seconds() * 1_000)
        may_wait = wait_ms > 0 and fetch.partitions and not fetch.is_satisfied()
        if not (may_wait and self._has_room(fetch)):
            fetch.finish()
            return
        # A Produce that waits for followers must not keep their fetches from room.
        request.forget_body()
        self._count(fetch.network, fetch.size)
        fetch.deadline_ms = self._manager.now_ms() + min(wait_ms, FETCH_WAIT_MS_MAX)
        self.delayed[fetch] = None
        for partition in fetch.partitions:
            self._by_partition.setdefault(partition, {})[fetch] = None
        if fetch.replica is not None:
            self._replicas[fetch.replica] = fetch
        request.on_gone = partial(self._finish, fetch)
        self._sweeper.watch(self, fetch.deadline_ms)

    def _has_room(self, fetch: DelayedFetch) -> bool:
        """Return True if the fetch may wait."""
        of_host = self._delayed_of_host[fetch.network] + fetch.size
        return (
            of_host <= DELAYED_PARTITIONS_MAX // 2
            and self._delayed_size + fetch.size <= DELAYED_PARTITIONS_MAX
        )

    def _count(self, host: str, size: int) -> None:
        self._delayed_size += size
        self._delayed_of_host[host] += size
        if not self._delayed_of_host[host]:
            del self._delayed_of_host[host]

    def dismiss(self) -> None:
        """Complete all fetches: the broker stops."""
        for fetch in list(self.delayed):
            self._finish(fetch)

    def on_append(self, partition: Partition) -> None:
        self._changes(partition, lambda fetch: fetch.is_replica)

    def on_high_watermark(self, partition: Partition) -> None:
        self._changes(partition, lambda fetch: not fetch.is_replica)

    def on_role_change(self, partition: Partition) -> None:
        self._changes(partition, lambda _: True)

    def sweep(self, now_ms: int) -> int | None:
        """Complete the fetches that are due."""
        next_ms: int | None = None
        for fetch in list(self.delayed):
            if fetch.deadline_ms <= now_ms:
                self._finish(fetch)
            elif next_ms is None or fetch.deadline_ms < next_ms:
                next_ms = fetch.deadline_ms
        return next_ms

    def _changes(self, partition: Partition, concerns: Callable[[DelayedFetch], bool]) -> None:
        delayed = self._by_partition.get(partition)
        if not delayed:
            return
        for fetch in delayed:
            if concerns(fetch):
                self._changed[fetch] = None
        if self._changed and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._check)

    def _check(self) -> None:
        self._is_due = False
        changed, self._changed = self._changed, {}
        for fetch in changed:
            if fetch in self.delayed and fetch.is_satisfied():
                self._finish(fetch)

    def _finish(self, fetch: DelayedFetch) -> None:
        """Complete a delayed fetch, or drop it if the client has disconnected."""
        del self.delayed[fetch]
        fetch.request.on_gone = None
        if fetch.replica is not None:
            del self._replicas[fetch.replica]
        self._count(fetch.network, -fetch.size)
        for partition in fetch.partitions:
            delayed = self._by_partition[partition]
            del delayed[fetch]
            if not delayed:
                del self._by_partition[partition]
        if not fetch.is_gone:
            fetch.finish()


def _answer(part: _Part, records: bytes) -> PartitionAnswer:
    partition = part.partition
    if partition is None or part.code:
        return PartitionAnswer(part.asked.partition, part.code, -1, -1, None, b"")
    return PartitionAnswer(
        part.asked.partition,
        part.code,
        partition.high_watermark,
        partition.log.start,
        part.diverging,
        records,
    )


def _plain(answer: PartitionAnswer, aborted: tuple[()] | None) -> Mapping[str, Any]:
    return {
        "partition_index": answer.number,
        "error_code": answer.error_code,
        "high_watermark": answer.high_watermark,
        "last_stable_offset": answer.high_watermark,
        "log_start_offset": answer.log_start,
        "aborted_transactions": aborted,
        "preferred_read_replica": -1,
        "records": answer.records,
    }


def _replica(message: Any, version: int) -> tuple[int, int]:
    """The broker id and broker epoch of the follower; -1 if it names no epoch."""
    if version >= REPLICA_STATE_FROM:
        return message.replica_state.replica_id, message.replica_state.replica_epoch
    return message.replica_id, NO_EPOCH


FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13

_TOP: Final = Struct(">ihi")
_PARTITION: Final = Struct(">ihqqqBi")
_DIVERGING: Final = Struct(">BBBiqB")
_NO_TAGS: Final = b"\x00"
_NO_REPLICA: Final = -1
_EPOCH_AND_OFFSET_BYTES: Final = 13
_NULL: Final = 0
_EMPTY: Final = 1


def write_answer(
    error_code: int, topics: Sequence[TopicAnswer], *, is_read_committed: bool
) -> list[Data]:
    """Encode the response in parts. It names neither a session nor a node."""
    head = bytearray(_TOP.pack(0, error_code, 0))
    head += uvarint(len(topics) + 1)
    parts: list[Data] = []
    for topic, partitions in topics:
        head += _name(topic)
        head += uvarint(len(partitions) + 1)
        head = _write_partitions(partitions, head, parts, is_read_committed=is_read_committed)
        head += _NO_TAGS
    head += _NO_TAGS
    parts.append(bytes(head))
    return parts


def _name(topic: str | UUID) -> bytes:
    if isinstance(topic, UUID):
        return topic.bytes
    encoded = topic.encode()
    return uvarint(len(encoded) + 1) + encoded


def _write_partitions(
    partitions: Iterable[PartitionAnswer],
    head: bytearray,
    parts: list[Data],
    *,
    is_read_committed: bool,
) -> bytearray:
    """Encode partitions into `head`; records end it and become a part of their own."""
    # There are no transactions, so none were aborted (KIP-98).
    aborted = _EMPTY if is_read_committed else _NULL
    pack = _PARTITION.pack
    for number, error_code, high_watermark, log_start, diverging, records in partitions:
        head += pack(
            number, error_code, high_watermark, high_watermark, log_start, aborted, _NO_REPLICA
        )
        head += uvarint(len(records) + 1)
        if records:
            parts += (bytes(head), records)
            head = bytearray()
        if diverging is None:
            head += _NO_TAGS
        else:
            head += _DIVERGING.pack(
                1, 0, _EPOCH_AND_OFFSET_BYTES, diverging.epoch, diverging.offset, 0
            )
    return head

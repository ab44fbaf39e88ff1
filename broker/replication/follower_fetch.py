"""Follower fetches from one leader: what to request and when, and how to apply the response.

A fetch confirms what is written here and brings what follows. Received batches are checked and
appended unchanged; where the logs diverge, the local one is truncated. An error delays only its
own partition. A corrupt batch is refused and requested again. Pure: `ReplicaFetcher` sends and
writes in production, the simulation in virtual time.

From version 15 on a Fetch carries the broker epoch of the follower (KIP-903). The leader never
adds a follower without it to the ISR, so no older version is used.
"""

import logging
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from broker.limits import (
    REPLICA_BACKOFF_MS,
    REPLICA_BACKOFF_MS_MAX,
    REPLICA_FETCH_ANSWER_BYTES_MAX,
    REPLICA_FETCH_PARTITIONS_MAX,
    REPLICA_FETCH_WAIT_MS_MAX,
)
from broker.partition.partition import Partition, PartitionHost
from broker.replication.copy_reports import CopyReports
from broker.replication.replication_quota import TokenBucket
from quorum.core.raft_log import truncation_point
from quorum.core.vocabulary import Offset, OffsetAndEpoch
from quorum.log_events import LogEvent
from quorum.protocol.errors import ErrorCode, error_name
from quorum.records.batch import CorruptBatch, whole_bytes
from quorum.records.varint import uvarint
from statemachine.vocabulary import NO_EPOCH, BrokerId

logger = logging.getLogger("broker")

IN_FLIGHT_MAX: Final = 2
_UNTIL_EVENT: Final = None
_BUSY_MS: Final = 10
_UNREGISTERED_MS: Final = 20

_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that pass once both brokers know the metadata: retried without a warning."""


class FetchPosition(NamedTuple):
    """The position of a partition in a fetch."""

    offset: int
    last_epoch: int
    leader_epoch: int


def position_of(partition: Partition, leader: BrokerId) -> FetchPosition | None:
    """The next fetch position, or None while this partition is not to be fetched from `leader`."""
    following = partition.following
    if following is None or following.assignment.leader != leader or not partition.is_open:
        return None
    if partition.is_truncating or partition.written != partition.log_end:
        return None
    is_empty = partition.log_end == partition.log.start
    last_epoch = NO_EPOCH if is_empty else partition.history.last
    return FetchPosition(partition.log_end, last_epoch, following.assignment.leader_epoch)


class FetchPlan(NamedTuple):
    """The positions to fetch now, and the ms to wait for an event; None waits forever."""

    positions: dict[Partition, FetchPosition]
    wait_ms: int | None


class FetchedPartition(NamedTuple):
    """The leader's response for one partition."""

    error_code: int
    diverging: OffsetAndEpoch | None = None
    """The end of this epoch in the leader's log, if the logs diverge."""
    high_watermark: int = -1
    records: bytes = b""


class LeaderFetchState:
    """The partitions that one broker copies from one leader."""

    def __init__(
        self,
        leader: BrokerId,
        follower: PartitionHost,
        throttle: TokenBucket,
        reports: CopyReports | None = None,
    ) -> None:
        """`reports` counts the bytes of replicas that are not in sync."""
        self.leader = leader
        self._follower = follower
        self._throttle = throttle
        self._reports = reports
        self._partitions: dict[Partition, None] = {}
        self._failures: dict[Partition, int] = {}
        self._not_before_ms: dict[Partition, int] = {}
        self._connection_failures = 0
        self._has_new = False

    def add(self, partition: Partition) -> None:
        """Start copying a partition."""
        self._partitions[partition] = None
        self._clear_backoff(partition)
        self._has_new = True

    def remove(self, partition: Partition) -> None:
        """Stop copying a partition; responses in flight for it are ignored."""
        self._partitions.pop(partition, None)
        self._clear_backoff(partition)

    # --- requests -----------------------------------------------------------------------------

    def plan(self, under_way: int) -> FetchPlan:
        """Plan the next fetch while `under_way` fetches are in flight.

        A new partition does not wait for a fetch that the leader delays: a second fetch makes the
        leader answer the first one.
        """
        is_room = not under_way or (self._has_new and under_way < IN_FLIGHT_MAX)
        if not is_room:
            return FetchPlan({}, _UNTIL_EVENT)
        if self._follower.broker_epoch is None:
            # The leader identifies the incarnation by its broker epoch, and there is none yet.
            return FetchPlan({}, _UNREGISTERED_MS)
        now_ms = self._follower.now_ms()
        held_ms = self._throttle.wait_ms(now_ms)
        positions: dict[Partition, FetchPosition] = {}
        next_ms: int | None = None
        for partition in self._partitions:
            not_before_ms = self._not_before_ms.get(partition, now_ms)
            if not_before_ms > now_ms:
                next_ms = not_before_ms if next_ms is None else min(next_ms, not_before_ms)
            elif held_ms and self._is_throttled(partition):
                next_ms = now_ms + held_ms if next_ms is None else min(next_ms, now_ms + held_ms)
            elif len(positions) < REPLICA_FETCH_PARTITIONS_MAX:
                position = position_of(partition, self.leader)
                if position is not None:
                    positions[partition] = position
                elif next_ms is None or next_ms > now_ms + _BUSY_MS:
                    # It is being truncated, or its last bytes are being written.
                    next_ms = now_ms + _BUSY_MS
        return FetchPlan(positions, _UNTIL_EVENT if next_ms is None else next_ms - now_ms)

    def bytes_max(self, positions: Iterable[Partition], most: int) -> Mapping[Partition, int]:
        """The most bytes to request of each partition: of a throttled one no more than a burst.

        The leader sends a larger batch all the same: it never cuts one.
        """
        burst = self._throttle.burst_bytes
        if burst is None or burst >= most:
            return dict.fromkeys(positions, most)
        throttled = max(1, burst)
        return {each: throttled if self._is_throttled(each) else most for each in positions}

    def on_sent(self, positions: dict[Partition, FetchPosition]) -> None:
        """Note that these positions were requested."""
        self._has_new = False
        # Rotate: a response is filled in the order of the request.
        for partition in list(positions)[:1]:
            if partition in self._partitions:
                del self._partitions[partition]
                self._partitions[partition] = None

    # --- responses ----------------------------------------------------------------------------

    def on_response(self) -> None:
        """Note a response of the leader; `apply` handles its partitions."""
        self._connection_failures = 0

    def on_failure(self, positions: Iterable[Partition], problem: object) -> None:
        """Note a failed fetch: no response, or an error for the whole request."""
        if self._connection_failures == 0:
            logger.info(
                "Fetch from broker %d failed: %s",
                self.leader,
                problem,
                extra=LogEvent.FETCH_FAILED.extra,
            )
        self._connection_failures += 1
        until_ms = self._follower.now_ms() + _backoff_ms(self._connection_failures)
        for partition in positions:
            if partition in self._partitions:
                self._not_before_ms[partition] = until_ms

    def is_awaited(self, partition: Partition, position: FetchPosition) -> bool:
        """Return whether the response still matters.

        A position that has changed was answered before or belongs to another epoch.
        """
        return position_of(partition, self.leader) == position

    def apply(self, partition: Partition, response: FetchedPartition) -> int | None:
        """Apply the leader's response for one partition; return the offset to truncate at, if any.

        The caller truncates: `begin_truncation`, `truncate_log`, `truncated`.
        """
        if response.error_code != 0:
            say = logger.debug if response.error_code in _EXPECTED else logger.warning
            name = error_name(response.error_code)
            say("%s: fetch from broker %d failed: %s", partition, self.leader, name)
            self._back_off(partition)
            return None
        if response.diverging is not None:
            return self._truncation_offset(partition, response.diverging)
        if response.records:
            try:
                self._copy(partition, response.records)
            except CorruptBatch as corrupt:
                logger.error(
                    "%s: corrupt records from broker %d: %s",
                    partition,
                    self.leader,
                    corrupt,
                    extra=LogEvent.RECORDS_CORRUPT.extra,
                )
                self._back_off(partition)
                return None
        self._clear_backoff(partition)
        following = partition.following
        assert following is not None
        following.learn(response.high_watermark, partition.log_end)
        return None

    def _copy(self, partition: Partition, records: bytes) -> None:
        whole = whole_bytes(records)
        if not whole:
            raise CorruptBatch(0, "the batch is cut short")
        if self._is_throttled(partition):
            self._throttle.take(len(records), self._follower.now_ms())
        following, end = partition.following, partition.log_end
        partition.copy(records if whole == len(records) else memoryview(records)[:whole])
        reports, me = self._reports, self._follower.broker_id
        if reports is not None and following is not None and me not in following.assignment.isr:
            offsets = partition.log_end - end
            reports.count(partition.key, whole, offsets, self._follower.now_ms())

    def _truncation_offset(self, partition: Partition, diverging: OffsetAndEpoch) -> int:
        end = truncation_point(partition.history, Offset(partition.log_end), diverging)
        logger.info(
            "%s: diverges from leader %d, which ends epoch %d at %d: truncating to %d from %d",
            partition,
            self.leader,
            diverging.epoch,
            diverging.offset,
            end,
            partition.log_end,
            extra=LogEvent.LOG_DIVERGED.extra,
        )
        return end

    def _is_throttled(self, partition: Partition) -> bool:
        """Return whether the follower throttle limits this partition (KIP-73)."""
        if partition.key.number not in partition.settings.follower_throttled:
            return False
        following = partition.following
        return following is not None and not following.is_in_sync(self._follower.broker_id)

    def _back_off(self, partition: Partition) -> None:
        failures = self._failures.get(partition, 0) + 1
        self._failures[partition] = failures
        self._not_before_ms[partition] = self._follower.now_ms() + _backoff_ms(failures)

    def _clear_backoff(self, partition: Partition) -> None:
        self._failures.pop(partition, None)
        self._not_before_ms.pop(partition, None)


def _backoff_ms(failures: int) -> int:
    doubled_ms = REPLICA_BACKOFF_MS << min(failures - 1, 16)
    return min(doubled_ms, REPLICA_BACKOFF_MS_MAX)


REPLICA_STATE_FROM: Final = 15

_TOP: Final = Struct(">iiibii")
_LIMITS: Final = (REPLICA_FETCH_WAIT_MS_MAX, 1, REPLICA_FETCH_ANSWER_BYTES_MAX)
"""Max wait, min bytes and max bytes."""
_ALL_RECORDS: Final = 0
_NO_SESSION: Final = 0
_NO_SESSION_EPOCH: Final = -1
_PARTITION: Final = Struct(">iiqiqiB")
_END: Final = Struct(">BBBBBiqB")
_REPLICA_STATE_TAG: Final = 1
_REPLICA_STATE_BYTES: Final = 13
_NO_TAGS: Final = 0
_EMPTY: Final = 1
"""An empty array, or an empty string that may not be null."""


def fetch_request(
    version: int,
    replica: tuple[BrokerId, int],
    positions: Mapping[Partition, FetchPosition],
    bytes_max: Mapping[Partition, int],
) -> bytes:
    """Encode the fetch. Raises `ValueError` for a version without a broker epoch.

    Packed by hand because it is sent for every few records; byte-identical to kio.
    """
    if version < REPLICA_STATE_FROM:
        raise ValueError(
            f"Fetch v{version} carries no broker epoch, at least v{REPLICA_STATE_FROM} does"
        )
    by_topic: dict[UUID, list[bytes]] = {}
    for partition, position in positions.items():
        asked = _PARTITION.pack(
            partition.key.number,
            position.leader_epoch,
            position.offset,
            position.last_epoch,
            partition.log.start,
            bytes_max[partition],
            _NO_TAGS,
        )
        by_topic.setdefault(partition.key.topic_id, []).append(asked)
    body = bytearray(_TOP.pack(*_LIMITS, _ALL_RECORDS, _NO_SESSION, _NO_SESSION_EPOCH))
    body += uvarint(len(by_topic) + 1)
    for topic_id, partitions in by_topic.items():
        body += topic_id.bytes
        body += uvarint(len(partitions) + 1)
        body += b"".join(partitions)
        body.append(_NO_TAGS)
    body += _END.pack(_EMPTY, _EMPTY, 1, _REPLICA_STATE_TAG, _REPLICA_STATE_BYTES, *replica, 0)
    return bytes(body)

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
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from broker.limits import (
    REPLICA_BACKOFF_MS,
    REPLICA_BACKOFF_MS_MAX,
    REPLICA_FETCH_ANSWER_BYTES_MAX,
    REPLICA_FETCH_PARTITIONS_MAX,
    REPLICA_FETCH_WAIT_MS_MAX,
)
from broker.partition.follower import truncation_offset
from broker.partition.partition import Partition
from broker.replication.copy_reports import CopyReports
from broker.replication.replication_quota import TokenBucket
from quorum.protocol.varints import uvarint
from quorum.records.batch import CorruptBatch, whole_bytes
from statemachine.vocabulary import BrokerId

logger = logging.getLogger("broker.replication.replica_fetcher")

IN_FLIGHT_MAX: Final = 2
NO_EPOCH: Final = -1
_UNTIL_STIRRED: Final = None
_BUSY_MS: Final = 10
_UNREGISTERED_MS: Final = 20

_EXPECTED: Final = frozenset({3, 6, 74, 75, 77, 100, 103})
"""Errors that pass when the metadata reaches both brokers: worth a wait, not a warning."""


class FetchPosition(NamedTuple):
    """What a fetch asked of one partition."""

    offset: int
    last_epoch: int
    leader_epoch: int


def position_of(partition: Partition, leader: BrokerId) -> FetchPosition | None:
    """Where to go on, or None while this partition is not to be fetched from `leader`."""
    following = partition.following
    if following is None or following.leader != leader or not partition.is_open:
        return None
    if partition.is_truncating or partition.written != partition.log_end:
        return None
    is_empty = partition.log_end == partition.log.start
    last_epoch = NO_EPOCH if is_empty else partition.history.last
    return FetchPosition(partition.log_end, last_epoch, following.leader_epoch)


class FetchingBroker(Protocol):
    """The broker that copies."""

    broker_id: BrokerId

    @property
    def broker_epoch(self) -> int | None:
        """Of the registration in force; None before there is one."""
        ...

    def now_ms(self) -> int: ...


class FetchPlan(NamedTuple):
    """What to ask for now, if anything, and how long to wait for an event, ms; None: for ever."""

    positions: dict[Partition, FetchPosition]
    wait_ms: int | None


class FetchedPartition(NamedTuple):
    """What a leader answers for one partition."""

    error_code: int
    error_name: str = ""
    diverging_epoch: int = NO_EPOCH
    """Where the logs part: the leader ends this epoch at `end_offset`. -1: nowhere."""
    end_offset: int = -1
    high_watermark: int = -1
    records: bytes = b""


class AppendResult(NamedTuple):
    """What has become of it."""

    has_copied: bool = False
    """Whether something was appended, which is to be written."""
    cut_at: int | None = None
    """Where the log is to be cut: `begin_truncation`, `truncate_log`, `truncated`."""


class LeaderFetchState:
    """Everything that one broker copies from one other."""

    def __init__(
        self,
        leader: BrokerId,
        follower: FetchingBroker,
        throttle: TokenBucket,
        reports: CopyReports | None = None,
    ) -> None:
        """`reports` are told what comes for replicas that are not in sync."""
        self.leader = leader
        self._follower = follower
        self._throttle = throttle
        self._reports = reports
        self._partitions: dict[Partition, None] = {}
        self._failures: dict[Partition, int] = {}
        self._not_before_ms: dict[Partition, int] = {}
        self._connection_failures = 0
        self._has_new = False

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: Partition) -> None:
        """Copy this partition too, from now on."""
        self._partitions[partition] = None
        self._forgive(partition)
        self._has_new = True

    def remove(self, partition: Partition) -> None:
        """Copy it no more; what is under way for it is ignored when it comes."""
        self._partitions.pop(partition, None)
        self._forgive(partition)

    # --- what to ask for -------------------------------------------------------------------------

    def due(self, under_way: int) -> FetchPlan:
        """What to ask for while so many fetches are under way.

        A partition that is new does not wait for a fetch that the leader has parked: a second
        fetch makes the leader answer the first one.
        """
        is_room = not under_way or (self._has_new and under_way < IN_FLIGHT_MAX)
        if not is_room:
            return FetchPlan({}, _UNTIL_STIRRED)
        if self._follower.broker_epoch is None:
            # A leader takes a follower for what its broker epoch says, and this one has none yet.
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
                    # It is being cut, or its last bytes are being written.
                    next_ms = now_ms + _BUSY_MS
        return FetchPlan(positions, _UNTIL_STIRRED if next_ms is None else next_ms - now_ms)

    def asked(self, positions: dict[Partition, FetchPosition]) -> None:
        """This is being asked for."""
        self._has_new = False
        # The first in line gives way: an answer is filled in this order.
        for partition in list(positions)[:1]:
            if partition in self._partitions:
                del self._partitions[partition]
                self._partitions[partition] = None

    # --- what came of it -------------------------------------------------------------------------

    def answered(self) -> None:
        """The leader has answered; what it says of each partition is for `took`."""
        self._connection_failures = 0

    def failed(self, positions: Iterable[Partition], problem: object) -> None:
        """The leader has not answered, or refused the whole fetch."""
        if self._connection_failures == 0:
            logger.info("cannot fetch from broker %d: %s", self.leader, problem)
        self._connection_failures += 1
        until_ms = self._follower.now_ms() + _backoff_ms(self._connection_failures)
        for partition in positions:
            if partition in self._partitions:
                self._not_before_ms[partition] = until_ms

    def is_awaited(self, partition: Partition, position: FetchPosition) -> bool:
        """Whether an answer for that position still means something.

        A position that is no longer ours was answered before, or is of another epoch.
        """
        return position_of(partition, self.leader) == position

    def took(self, partition: Partition, given: FetchedPartition) -> AppendResult:
        """Take in what the leader gives for one partition."""
        if given.error_code != 0:
            say = logger.debug if given.error_code in _EXPECTED else logger.warning
            say("%s: broker %d answered %s", partition, self.leader, given.error_name)
            self._back_off(partition)
            return AppendResult()
        if given.diverging_epoch >= 0:
            return AppendResult(cut_at=self._cut(partition, given))
        if given.records:
            try:
                self._copy(partition, given.records)
            except CorruptBatch as corrupt:
                logger.error("%s: refused from broker %d: %s", partition, self.leader, corrupt)
                self._back_off(partition)
                return AppendResult()
        self._forgive(partition)
        following = partition.following
        assert following is not None
        following.learn(given.high_watermark, partition.log_end)
        return AppendResult(has_copied=bool(given.records))

    def _copy(self, partition: Partition, records: bytes) -> None:
        whole = whole_bytes(records)
        if not whole:
            raise CorruptBatch(0, "it is cut short")
        if self._is_throttled(partition):
            self._throttle.take(len(records), self._follower.now_ms())
        following, end = partition.following, partition.log_end
        partition.copy(records if whole == len(records) else memoryview(records)[:whole])
        reports, me = self._reports, self._follower.broker_id
        if reports is not None and following is not None and me not in following.assignment.isr:
            offsets = partition.log_end - end
            reports.took(partition.key, whole, offsets, self._follower.now_ms())

    def _cut(self, partition: Partition, given: FetchedPartition) -> int:
        epoch, end_offset = given.diverging_epoch, given.end_offset
        end = truncation_offset(partition.history, partition.log_end, epoch, end_offset)
        logger.info(
            "%s: parts from its leader %d, which ends epoch %d at %d; cutting at %d of %d",
            partition,
            self.leader,
            epoch,
            end_offset,
            end,
            partition.log_end,
        )
        return end

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether it is copied only as fast as the throttle allows (KIP-73)."""
        if partition.key.number not in partition.settings.follower_throttled:
            return False
        following = partition.following
        return following is not None and not following.is_in_sync(self._follower.broker_id)

    def _back_off(self, partition: Partition) -> None:
        failures = self._failures.get(partition, 0) + 1
        self._failures[partition] = failures
        self._not_before_ms[partition] = self._follower.now_ms() + _backoff_ms(failures)

    def _forgive(self, partition: Partition) -> None:
        self._failures.pop(partition, None)
        self._not_before_ms.pop(partition, None)


def _backoff_ms(failures: int) -> int:
    doubled_ms = REPLICA_BACKOFF_MS << min(failures - 1, 16)
    return min(doubled_ms, REPLICA_BACKOFF_MS_MAX)


REPLICA_STATE_FROM: Final = 15

_TOP: Final = Struct(">iiibii")
_LIMITS: Final = (REPLICA_FETCH_WAIT_MS_MAX, 1, REPLICA_FETCH_ANSWER_BYTES_MAX)
"""Wait at most this long for at least one byte, and bring at most so many."""
_ALL_RECORDS: Final = 0
_NO_SESSION: Final = 0
_NO_SESSION_EPOCH: Final = -1
_PARTITION: Final = Struct(">iiqiqiB")
_END: Final = Struct(">BBBBBiqB")
_REPLICA_STATE_TAG: Final = 1
_REPLICA_STATE_BYTES: Final = 13
_NO_TAGS: Final = 0
_EMPTY: Final = 1
"""No items, of an array or of a string that may not be null."""


def fetch_request(
    version: int,
    replica: tuple[BrokerId, int],
    positions: Mapping[Partition, FetchPosition],
    partition_bytes_max: int,
) -> bytes:
    """The body of the fetch. Raises `ValueError` for a version that carries no broker epoch.

    By hand, because it is sent for every few records; byte-identical to what kio writes.
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
            partition_bytes_max,
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

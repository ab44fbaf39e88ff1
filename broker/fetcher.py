"""Copying: one loop for each broker that leads something we follow, for all of those together.

A fetch says to the leader what is written here, and brings what follows. What it brings is checked
and appended as it came; where the logs part, ours is cut. An error of one partition keeps that
partition waiting, and no other. The bytes of the leader are trusted no more than those of a
client: a broken batch is refused and asked for again.
"""

import asyncio
import contextlib
import logging
from collections import deque
from typing import Any, Final

from broker.disk import Disk
from broker.fetch_request import Position, fetch_request, position_of
from broker.hosting import PartitionKey
from broker.limits import (
    REPLICA_BACKOFF_MS,
    REPLICA_BACKOFF_MS_MAX,
    REPLICA_FETCH_PARTITIONS_MAX,
    REPLICA_FETCH_TIMEOUT_MS,
)
from broker.manager import Manager
from broker.partition import Partition
from broker.replica import cut_for
from quorum.records.batch import CorruptBatch, whole_bytes
from quorum.transport.channel import Channel
from quorum.transport.outcomes import Outcome, Reply
from quorum.wire.apis import ApiKey
from quorum.wire.faults import Malformed
from statemachine.vocabulary import BrokerId

logger = logging.getLogger("broker.fetcher")

_IN_FLIGHT_MAX: Final = 2
_NO_EPOCH: Final = -1
_UNTIL_STIRRED: Final = None
_BUSY_MS: Final = 10
_UNREGISTERED_MS: Final = 20

_EXPECTED: Final = frozenset({3, 6, 74, 75, 77, 100, 103})
"""Errors that pass when the metadata reaches both brokers: worth a wait, not a warning."""


class _Asked:
    """A fetch under way."""

    __slots__ = ("outcome", "positions")

    def __init__(self, positions: dict[Partition, Position]) -> None:
        self.positions = positions
        self.outcome: Outcome | None = None


class LeaderFetcher:
    """Everything that is copied from one broker."""

    def __init__(
        self,
        leader: BrokerId,
        channel: Channel,
        manager: Manager,
        disk: Disk,
        *,
        partition_bytes_max: int,
    ) -> None:
        self._leader = leader
        self._channel = channel
        self._manager = manager
        self._disk = disk
        self._throttle = manager.throttles.follower
        self._partition_bytes_max = partition_bytes_max
        self._partitions: dict[Partition, None] = {}
        self._failures: dict[Partition, int] = {}
        self._not_before_ms: dict[Partition, int] = {}
        self._connection_failures = 0
        self._pending: deque[_Asked] = deque()
        self._stirred = asyncio.Event()
        self._has_new = False

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: Partition) -> None:
        """Copy this partition too, from now on."""
        self._partitions[partition] = None
        self._forgive(partition)
        self._has_new = True
        self._stirred.set()

    def remove(self, partition: Partition) -> None:
        """Copy it no more; what is under way for it is ignored when it comes."""
        self._partitions.pop(partition, None)
        self._forgive(partition)

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            while self._pending and self._pending[0].outcome is not None:
                await self._handle(self._pending.popleft())
            # Cleared after the outcomes were looked at and before anything is asked: what comes in
            # the same turn of the loop as the end of the wait is found by the next round.
            self._stirred.clear()
            wait_ms = self._ask_if_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1_000):
                    await self._stirred.wait()

    def _ask_if_due(self) -> int | None:
        """Send a fetch if there is something to ask; returns how long to wait for an event, ms.

        A partition that is new does not wait for a fetch that the leader has parked: a second
        fetch makes the leader answer the first one.
        """
        is_room = not self._pending or (self._has_new and len(self._pending) < _IN_FLIGHT_MAX)
        if not is_room:
            return _UNTIL_STIRRED
        if self._manager.broker_epoch is None:
            # A leader takes a follower for what its broker epoch says, and this one has none yet.
            return _UNREGISTERED_MS
        now_ms = self._manager.now_ms()
        held_ms = self._throttle.wait_ms(now_ms)
        positions: dict[Partition, Position] = {}
        next_ms: int | None = None
        for partition in self._partitions:
            not_before_ms = self._not_before_ms.get(partition, now_ms)
            if not_before_ms > now_ms:
                next_ms = not_before_ms if next_ms is None else min(next_ms, not_before_ms)
            elif held_ms and self._is_throttled(partition):
                next_ms = now_ms + held_ms if next_ms is None else min(next_ms, now_ms + held_ms)
            elif len(positions) < REPLICA_FETCH_PARTITIONS_MAX:
                position = position_of(partition, self._leader)
                if position is not None:
                    positions[partition] = position
                elif next_ms is None or next_ms > now_ms + _BUSY_MS:
                    # It is being cut, or its last bytes are being written.
                    next_ms = now_ms + _BUSY_MS
        if positions:
            self._has_new = False
            self._send(positions)
        return _UNTIL_STIRRED if next_ms is None else next_ms - now_ms

    def _send(self, positions: dict[Partition, Position]) -> None:
        asked = _Asked(positions)
        self._pending.append(asked)

        def done(outcome: Outcome) -> None:
            asked.outcome = outcome
            self._stirred.set()

        self._channel.request(
            ApiKey.FETCH,
            lambda version: self._request(version, positions),
            done,
            timeout_ms=REPLICA_FETCH_TIMEOUT_MS,
        )
        # The first in line gives way: an answer is filled in this order.
        for partition in list(positions)[:1]:
            if partition in self._partitions:
                del self._partitions[partition]
                self._partitions[partition] = None

    def _request(self, version: int, positions: dict[Partition, Position]) -> bytes:
        epoch = self._manager.broker_epoch
        return fetch_request(
            version,
            (self._manager.broker_id, _NO_EPOCH if epoch is None else epoch),
            positions,
            self._partition_bytes_max,
        )

    async def _handle(self, asked: _Asked) -> None:
        outcome = asked.outcome
        assert outcome is not None
        problem: object = outcome
        if isinstance(outcome, Reply):
            try:
                answer = outcome.decode()
            except Malformed as malformed:
                problem = malformed
            else:
                problem = answer.error_code.name if answer.error_code != 0 else None
        if problem is not None:
            self._connection_failed(asked, problem)
            return
        self._connection_failures = 0
        await self._take(asked, answer)

    async def _take(self, asked: _Asked, answer: Any) -> None:
        """Take in what came for each partition."""
        copied = False
        for topic in answer.responses:
            for each in topic.partitions:
                key = PartitionKey(topic.topic_id, each.partition_index)
                partition = self._manager.partitions.get(key)
                position = None if partition is None else asked.positions.get(partition)
                if partition is None or position is None:
                    continue
                # A position that is no longer ours was answered before, or is of another epoch.
                if position_of(partition, self._leader) == position:
                    copied |= await self._take_one(partition, each)
        if copied:
            # What the next fetch says is here must be written.
            await self._disk.written()

    async def _take_one(self, partition: Partition, answer: Any) -> bool:
        """Returns whether something was appended."""
        if answer.error_code != 0:
            self._failed(partition, answer.error_code)
            return False
        diverging = answer.diverging_epoch
        if diverging.epoch >= 0:
            await self._cut(partition, diverging.epoch, diverging.end_offset)
            return False
        records = answer.records or b""
        if records:
            try:
                whole = whole_bytes(records)
                if not whole:
                    raise CorruptBatch(0, "it is cut short")
                if self._is_throttled(partition):
                    self._throttle.take(len(records), self._manager.now_ms())
                partition.copy(records if whole == len(records) else memoryview(records)[:whole])
            except CorruptBatch as corrupt:
                logger.error("%s: refused from broker %d: %s", partition, self._leader, corrupt)
                self._back_off(partition)
                return False
        self._forgive(partition)
        following = partition.following
        assert following is not None
        following.learn(answer.high_watermark, partition.log_end)
        return bool(records)

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether it is copied only as fast as the throttle allows (KIP-73)."""
        if partition.key.number not in partition.settings.follower_throttled:
            return False
        following = partition.following
        return following is not None and not following.is_in_sync(self._manager.broker_id)

    async def _cut(self, partition: Partition, epoch: int, end_offset: int) -> None:
        end = cut_for(partition.history, partition.log_end, epoch, end_offset)
        logger.info(
            "%s: parts from its leader %d, which ends epoch %d at %d; cutting at %d of %d",
            partition,
            self._leader,
            epoch,
            end_offset,
            end,
            partition.log_end,
        )
        partition.begin_truncation()
        await self._disk.call(partition.truncate_log, end)
        partition.truncated()

    def _failed(self, partition: Partition, error: Any) -> None:
        say = logger.debug if error.value in _EXPECTED else logger.warning
        say("%s: broker %d answered %s", partition, self._leader, error.name)
        self._back_off(partition)

    def _connection_failed(self, asked: _Asked, problem: object) -> None:
        if self._connection_failures == 0:
            logger.info("cannot fetch from broker %d: %s", self._leader, problem)
        self._connection_failures += 1
        until_ms = self._manager.now_ms() + _backoff_ms(self._connection_failures)
        for partition in asked.positions:
            if partition in self._partitions:
                self._not_before_ms[partition] = until_ms

    def _back_off(self, partition: Partition) -> None:
        failures = self._failures.get(partition, 0) + 1
        self._failures[partition] = failures
        self._not_before_ms[partition] = self._manager.now_ms() + _backoff_ms(failures)

    def _forgive(self, partition: Partition) -> None:
        self._failures.pop(partition, None)
        self._not_before_ms.pop(partition, None)


def _backoff_ms(failures: int) -> int:
    doubled_ms = REPLICA_BACKOFF_MS << min(failures - 1, 16)
    return min(doubled_ms, REPLICA_BACKOFF_MS_MAX)

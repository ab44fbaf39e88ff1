"""Replica fetchers: one loop for each leader, covering all partitions followed from it.

`LeaderFetchState` decides what to request and what a response means; a fetcher sends, waits and
writes. The manager keeps each partition with the fetcher of its current leader.
"""

import asyncio
import contextlib
import random
from collections import deque
from typing import Any

from broker.limits import REPLICA_FETCH_TIMEOUT_MS
from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition, PartitionListener
from broker.replica_manager import ReplicaManager
from broker.replication.follower_fetch import (
    FetchedPartition,
    FetchPosition,
    LeaderFetchState,
    fetch_request,
)
from broker.storage.disk_thread import DiskThread
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.transport.channel import Channel
from quorum.transport.outcomes import Outcome, Reply
from quorum.transport.peers import Lane, Peers
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.sweeper import Sweeper
from statemachine.topics.metadata_responses import endpoint_of
from statemachine.vocabulary import NO_EPOCH, NO_LEADER, BrokerId


class ReplicaFetcher:
    """The fetch loop for one leader."""

    def __init__(
        self,
        leader: BrokerId,
        channel: Channel,
        manager: ReplicaManager,
        disk: DiskThread,
        *,
        partition_bytes_max: int,
    ) -> None:
        self._channel = channel
        self._manager = manager
        self._disk = disk
        self._state = LeaderFetchState(leader, manager, manager.throttles.follower, manager.copies)
        self._partition_bytes_max = partition_bytes_max
        self._under_way = 0
        """Fetches whose outcome has not been handled."""
        self._outcomes: deque[tuple[dict[Partition, FetchPosition], Outcome]] = deque()
        self._wake_up = asyncio.Event()

    def add(self, partition: Partition) -> None:
        """Start copying a partition."""
        self._state.add(partition)
        self._wake_up.set()

    def remove(self, partition: Partition) -> None:
        """Stop copying a partition; responses in flight for it are ignored."""
        self._state.remove(partition)

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            while self._outcomes:
                await self._handle(*self._outcomes.popleft())
                self._under_way -= 1
            # Cleared after the outcomes were handled and before the next request is sent: an event
            # in the same turn as the end of the wait is found by the next round.
            self._wake_up.clear()
            due = self._state.plan(self._under_way)
            if due.positions:
                self._send(due.positions)
            wait_ms = due.wait_ms
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1_000):
                    await self._wake_up.wait()

    def _send(self, positions: dict[Partition, FetchPosition]) -> None:
        self._under_way += 1

        def done(outcome: Outcome) -> None:
            self._outcomes.append((positions, outcome))
            self._wake_up.set()

        self._channel.request(
            ApiKey.FETCH,
            lambda version: self._request(version, positions),
            done,
            timeout_ms=REPLICA_FETCH_TIMEOUT_MS,
        )
        self._state.on_sent(positions)

    def _request(self, version: int, positions: dict[Partition, FetchPosition]) -> bytes:
        epoch = self._manager.broker_epoch
        return fetch_request(
            version,
            (self._manager.broker_id, NO_EPOCH if epoch is None else epoch),
            positions,
            self._state.bytes_max(positions, self._partition_bytes_max),
        )

    async def _handle(self, positions: dict[Partition, FetchPosition], outcome: Outcome) -> None:
        problem: object = outcome
        if isinstance(outcome, Reply):
            try:
                answer = outcome.decode()
                problem = answer.error_code.name if answer.error_code != 0 else None
            except Malformed as malformed:
                problem = malformed
        if problem is not None:
            self._state.on_failure(positions, problem)
            return
        self._state.on_response()
        await self._apply(positions, answer)

    async def _apply(self, positions: dict[Partition, FetchPosition], answer: Any) -> None:
        """Apply the response to each partition."""
        for topic in answer.responses:
            for each in topic.partitions:
                key = PartitionKey(topic.topic_id, each.partition_index)
                partition = self._manager.partitions.get(key)
                position = None if partition is None else positions.get(partition)
                if partition is None or position is None:
                    continue
                if not self._state.is_awaited(partition, position):
                    continue
                self._manager.traffic.replication_bytes_in += len(each.records or b"")
                cut_at = self._state.apply(partition, _response_of(each))
                if cut_at is not None:
                    partition.begin_truncation()
                    await self._disk.call(partition.truncate_log, cut_at)
                    partition.truncated()
        # The next fetch confirms only written records.
        await self._disk.written()


def _response_of(answer: Any) -> FetchedPartition:
    epoch, end = answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset
    return FetchedPartition(
        answer.error_code.value,
        None if epoch < 0 else OffsetAndEpoch(Epoch(epoch), Offset(end)),
        answer.high_watermark,
        answer.records or b"",
    )


class ReplicaFetcherManager(PartitionListener):
    """A `PartitionListener` that keeps each partition with the fetcher of its leader."""

    def __init__(
        self,
        manager: ReplicaManager,
        disk: DiskThread,
        group: asyncio.TaskGroup,
        *,
        client_id: str,
        sweeper: Sweeper,
        rng: random.Random,
        partition_bytes_max: int,
        listener: str,
        security: ClientSecurity = PLAIN_CLIENT,
    ) -> None:
        """`listener` is the name of the listener that brokers use among themselves."""
        self._manager = manager
        self._disk = disk
        self._group = group
        self._listener = listener
        self._peers = Peers(self, client_id=client_id, sweeper=sweeper, rng=rng, security=security)
        self._partition_bytes_max = partition_bytes_max
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self._leader_of: dict[Partition, BrokerId] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def on_role_change(self, partition: Partition) -> None:
        """Move it to the fetcher of its current leader."""
        before = self._leader_of.pop(partition, None)
        if before is not None:
            self._fetchers[before].remove(partition)
        following = partition.following
        if following is None or not partition.is_open:
            return
        leader = following.assignment.leader
        if leader == NO_LEADER:
            return
        if self._manager.partitions.get(partition.key) is not partition:
            return  # It is being opened, and will be announced when it is.
        self._leader_of[partition] = leader
        self._fetcher(leader).add(partition)

    async def close(self) -> None:
        """Stop all fetchers and close their connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._peers.close()

    def _fetcher(self, leader: BrokerId) -> ReplicaFetcher:
        known = self._fetchers.get(leader)
        if known is not None:
            return known
        fetcher = self._fetchers[leader] = ReplicaFetcher(
            leader,
            self._peers.channel(ReplicaId(leader), Lane.FETCH),
            self._manager,
            self._disk,
            partition_bytes_max=self._partition_bytes_max,
        )
        self._tasks.append(self._group.create_task(fetcher.run(), name=f"fetcher-{leader}"))
        return fetcher

    def address_of(self, replica: ReplicaId) -> tuple[str, int] | None:
        """Return the address of a broker as it is registered; None while it is not."""
        broker = self._manager.image.brokers.get(replica)
        endpoint = None if broker is None else endpoint_of(broker, self._listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

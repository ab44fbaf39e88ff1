"""From whom each partition is copied: one `LeaderFetcher` for each broker that leads some.

It copies nothing itself; it only keeps each partition with the fetcher of its leader.
"""

import asyncio
import random

from broker.disk import Disk
from broker.fetcher import LeaderFetcher
from broker.manager import Manager
from broker.partition import Partition
from quorum.transport.channel import Channel
from quorum.transport.sweeper import Sweeper
from statemachine.vocabulary import BrokerId


class Fetchers:
    """A `Watcher` that lets each partition be copied from its leader, and from nobody else."""

    def __init__(
        self,
        manager: Manager,
        disk: Disk,
        group: asyncio.TaskGroup,
        *,
        client_id: str,
        sweeper: Sweeper,
        rng: random.Random,
        partition_bytes_max: int,
    ) -> None:
        self._manager = manager
        self._disk = disk
        self._group = group
        self._client_id = client_id
        self._sweeper = sweeper
        self._rng = rng
        self._partition_bytes_max = partition_bytes_max
        self._fetchers: dict[BrokerId, LeaderFetcher] = {}
        self._channels: dict[BrokerId, Channel] = {}
        self._leader_of: dict[Partition, BrokerId] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def grew(self, partition: Partition) -> None:
        """Nothing to do with copying."""

    def committed(self, partition: Partition) -> None:
        """Nothing to do with copying."""

    def moved(self, partition: Partition) -> None:
        """Copy it from whoever leads it now."""
        before = self._leader_of.pop(partition, None)
        if before is not None:
            self._fetchers[before].remove(partition)
        following = partition.following
        if following is None or following.leader < 0 or not partition.is_open:
            return
        if self._manager.partitions.get(partition.key) is not partition:
            return  # It is being opened, and will be announced when it is.
        self._leader_of[partition] = following.leader
        self._fetcher(following.leader).add(partition)

    async def close(self) -> None:
        """Copy nothing any more, and close every connection."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for channel in self._channels.values():
            await channel.close()

    def _fetcher(self, leader: BrokerId) -> LeaderFetcher:
        known = self._fetchers.get(leader)
        if known is not None:
            return known
        channel = self._channels[leader] = Channel(
            lambda: self._address_of(leader),
            client_id=self._client_id,
            sweeper=self._sweeper,
            rng=self._rng,
        )
        fetcher = self._fetchers[leader] = LeaderFetcher(
            leader,
            channel,
            self._manager,
            self._disk,
            partition_bytes_max=self._partition_bytes_max,
        )
        self._tasks.append(self._group.create_task(fetcher.run(), name=f"fetcher-{leader}"))
        return fetcher

    def _address_of(self, leader: BrokerId) -> tuple[str, int] | None:
        broker = self._manager.image.brokers.get(leader)
        if broker is None or not broker.endpoints:
            return None
        return broker.endpoints[0].host, broker.endpoints[0].port

"""Clients that create topics one after the other, and note when each was acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise

from admin.client.admin_client import AdminClient
from admin.tools.local_cluster import LocalCluster


def now() -> float:
    """Seconds of the loop's clock."""
    return asyncio.get_running_loop().time()


async def at_once(_begun: float) -> None:
    """Begin the next one at once."""


@dataclass
class Load:
    """Topics that were acknowledged, and when."""

    topics: list[str] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    """The seconds that each of them took."""
    more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def write(
        self, cluster: LocalCluster, writer: int, pace: Callable[[float], Awaitable[None]] = at_once
    ) -> None:
        """Create topics until it is cancelled; through every change of the leader.

        `pace` is awaited after each one, with the moment at which it began.
        """
        async with AdminClient(cluster.controllers, is_controller=True) as client:
            count = 0
            while True:
                name = f"of-{writer}-{count}"
                begun = now()
                await client.create_topic(name, assignments={0: [101]})
                count += 1
                self.topics.append(name)
                self.moments.append(now())
                self.latencies.append(self.moments[-1] - begun)
                async with self.more:
                    self.more.notify_all()
                await pace(begun)

    async def acknowledge(self, count: int) -> None:
        """Return once so many more writes are acknowledged."""
        enough = len(self.topics) + count
        async with self.more:
            await self.more.wait_for(lambda: len(self.topics) >= enough)

    def pause_ms(self, since: float, until: float) -> float:
        """The longest time without an acknowledgement that overlaps these moments."""
        gaps = [
            (after - before) * 1_000
            for before, after in pairwise(self.moments)
            if after >= since and before <= until
        ]
        return max(gaps, default=0.0)

"""A cache of partition leaders, refreshed when one turns out to be wrong."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

from admin.client import cluster
from admin.client.asking import Asker
from admin.faults import AdminError
from quorum.transport.address import Address

RETRIABLE: Final = frozenset({3, 5, 6, 7, 9, 13, 19, 20, 56, 74, 75, 76, 78, 100, 103})
"""Errors of a partition that pass: unknown yet, no leader yet, moved, too few in sync, fenced."""

PAUSE_MS: Final = 20
PAUSE_MS_MAX: Final = 500


class UnknownTopic(AdminError):
    """The topic does not exist, or has no such partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One look at a topic. `leaders` has every partition; None while it has no leader."""

    version: int
    topic_id: UUID | None
    leaders: Mapping[int, Address | None]

    def leader(self, topic: str, partition: int) -> Address | None:
        """The address of the leader, or None; raises `UnknownTopic` for an unknown partition."""
        if partition not in self.leaders:
            raise UnknownTopic(
                f"topic {topic} has partitions 0 to {len(self.leaders) - 1}, and not {partition}"
            )
        return self.leaders[partition]


class Patience:
    """Longer and longer pauses between attempts, until nothing has succeeded for too long."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self.renew()

    def renew(self) -> None:
        """Begin the time anew: an attempt has succeeded."""
        self._deadline = asyncio.get_running_loop().time() + self._timeout_ms / 1_000
        self._pause_ms = PAUSE_MS

    async def pause(self) -> bool:
        """Pause and return True, or return False if the time is up."""
        if asyncio.get_running_loop().time() >= self._deadline:
            return False
        await asyncio.sleep(self._pause_ms / 1_000)
        self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)
        return True


class Routes:
    """The routes of any number of topics. Several askers share one look."""

    def __init__(self, bootstrap: Sequence[Address], client_id: str, *, timeout_ms: int) -> None:
        self._asker = Asker(bootstrap, client_id)
        self._timeout_ms = timeout_ms
        self._routes: dict[str, Route] = {}
        self._lock = asyncio.Lock()

    async def find(self, topic: str) -> Route:
        """The route as known, or as first asked for; raises `AdminError`."""
        return self._routes.get(topic) or await self.look_again(topic, seen=None)

    async def look_again(self, topic: str, *, seen: Route | None) -> Route:
        """A route newer than `seen`, which led nowhere; raises `AdminError`."""
        async with self._lock:
            known = self._routes.get(topic)
            if known is not None and known is not seen:
                return known
            route = await self._ask(topic, 0 if known is None else known.version + 1)
            self._routes[topic] = route
            return route

    async def close(self) -> None:
        """Close the connections."""
        await self._asker.close()

    async def _ask(self, topic: str, version: int) -> Route:
        answer = await self._asker.ask(cluster.metadata([topic]), within_ms=self._timeout_ms)
        brokers = {each.id: each.address for each in cluster.read_brokers(answer.value)}
        found = cluster.read_topics(answer.value).get(topic)
        if found is None:
            raise UnknownTopic(f"there is no topic {topic}")
        return Route(
            version=version,
            topic_id=found.topic_id,
            leaders=MappingProxyType(
                {each.partition: brokers.get(each.leader) for each in found.partitions}
            ),
        )

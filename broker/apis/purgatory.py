"""Fetches that wait for records, without a task or a timer for any of them.

A fetch is registered with each of its partitions and checked again when one of them changes or when
its deadline passes. Several events in one turn of the loop cause one check.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from broker.limits import PARKED_FETCHES_MAX
from broker.partition.partition import Partition
from quorum.transport.sweeper import Sweeper


class DelayedFetch(Protocol):
    """A fetch that waits for records."""

    deadline_ms: int
    is_replica: bool
    partitions: tuple[Partition, ...]

    @property
    def is_gone(self) -> bool:
        """Return whether the client has disconnected."""
        ...

    def is_satisfied(self) -> bool:
        """Return whether there is enough to return, or an error."""
        ...

    def finish(self) -> None:
        """Respond with the records available now."""
        ...


class FetchPurgatory:
    """The delayed fetches of a broker; a `PartitionListener`, owned by the running loop."""

    def __init__(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper
        self._loop = asyncio.get_running_loop()
        self._by_partition: dict[Partition, dict[DelayedFetch, None]] = {}
        self._parked: dict[DelayedFetch, None] = {}
        self._replicas: dict[object, DelayedFetch] = {}
        self._stirred: dict[DelayedFetch, None] = {}
        self._is_due = False

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def waiting(self) -> tuple[DelayedFetch, ...]:
        """The delayed fetches, oldest first."""
        return tuple(self._parked)

    def park(self, fetch: DelayedFetch, replica: object | None) -> None:
        """Delay `fetch` until it is satisfied or due.

        `replica` names the follower and its connection: the follower's next fetch there completes
        this one at once.
        """
        if len(self._parked) >= PARKED_FETCHES_MAX:
            fetch.finish()
            return
        self._parked[fetch] = None
        for partition in fetch.partitions:
            self._by_partition.setdefault(partition, {})[fetch] = None
        if replica is not None:
            self._replicas[replica] = fetch
        self._sweeper.watch(self, fetch.deadline_ms)

    def release(self, replica: object) -> None:
        """Complete the follower's previous fetch: it has sent another one."""
        fetch = self._replicas.pop(replica, None)
        if fetch is not None and fetch in self._parked:
            self._finish(fetch)

    def dismiss(self) -> None:
        """Complete all fetches: the broker stops."""
        for fetch in list(self._parked):
            self._finish(fetch)

    # What the partitions say.

    def grew(self, partition: Partition) -> None:
        self._stir(partition, lambda fetch: fetch.is_replica)

    def committed(self, partition: Partition) -> None:
        self._stir(partition, lambda fetch: not fetch.is_replica)

    def moved(self, partition: Partition) -> None:
        self._stir(partition, lambda _: True)

    def sweep(self, now_ms: int) -> int | None:
        """Complete the fetches that are due, and drop those of disconnected clients."""
        next_ms: int | None = None
        for fetch in list(self._parked):
            if fetch.is_gone or fetch.deadline_ms <= now_ms:
                self._finish(fetch)
            elif next_ms is None or fetch.deadline_ms < next_ms:
                next_ms = fetch.deadline_ms
        return next_ms

    # Inside.

    def _stir(self, partition: Partition, concerns: Callable[[DelayedFetch], bool]) -> None:
        parked = self._by_partition.get(partition)
        if not parked:
            return
        for fetch in parked:
            if concerns(fetch):
                self._stirred[fetch] = None
        if self._stirred and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_due = False
        stirred, self._stirred = self._stirred, {}
        for fetch in stirred:
            if fetch in self._parked and fetch.is_satisfied():
                self._finish(fetch)

    def _finish(self, fetch: DelayedFetch) -> None:
        del self._parked[fetch]
        for partition in fetch.partitions:
            parked = self._by_partition[partition]
            del parked[fetch]
            if not parked:
                del self._by_partition[partition]
        if not fetch.is_gone:
            fetch.finish()

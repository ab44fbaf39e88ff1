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
        self._delayed: dict[DelayedFetch, None] = {}
        self._replicas: dict[object, DelayedFetch] = {}
        self._changed: dict[DelayedFetch, None] = {}
        self._is_due = False

    def __len__(self) -> int:
        return len(self._delayed)

    @property
    def waiting(self) -> tuple[DelayedFetch, ...]:
        """The delayed fetches, oldest first."""
        return tuple(self._delayed)

    def delay(self, fetch: DelayedFetch, replica: object | None) -> None:
        """Delay `fetch` until it is satisfied or due.

        `replica` names the follower and its connection: the follower's next fetch there completes
        this one at once.
        """
        if len(self._delayed) >= PARKED_FETCHES_MAX:
            fetch.finish()
            return
        self._delayed[fetch] = None
        for partition in fetch.partitions:
            self._by_partition.setdefault(partition, {})[fetch] = None
        if replica is not None:
            self._replicas[replica] = fetch
        self._sweeper.watch(self, fetch.deadline_ms)

    def complete_previous(self, replica: object) -> None:
        """Complete the follower's previous fetch: it has sent another one."""
        fetch = self._replicas.pop(replica, None)
        if fetch is not None and fetch in self._delayed:
            self._finish(fetch)

    def dismiss(self) -> None:
        """Complete all fetches: the broker stops."""
        for fetch in list(self._delayed):
            self._finish(fetch)

    # What the partitions say.

    def on_append(self, partition: Partition) -> None:
        self._changes(partition, lambda fetch: fetch.is_replica)

    def on_high_watermark(self, partition: Partition) -> None:
        self._changes(partition, lambda fetch: not fetch.is_replica)

    def on_role_change(self, partition: Partition) -> None:
        self._changes(partition, lambda _: True)

    def sweep(self, now_ms: int) -> int | None:
        """Complete the fetches that are due, and drop those of disconnected clients."""
        next_ms: int | None = None
        for fetch in list(self._delayed):
            if fetch.is_gone or fetch.deadline_ms <= now_ms:
                self._finish(fetch)
            elif next_ms is None or fetch.deadline_ms < next_ms:
                next_ms = fetch.deadline_ms
        return next_ms

    # Inside.

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
            if fetch in self._delayed and fetch.is_satisfied():
                self._finish(fetch)

    def _finish(self, fetch: DelayedFetch) -> None:
        del self._delayed[fetch]
        for partition in fetch.partitions:
            delayed = self._by_partition[partition]
            del delayed[fetch]
            if not delayed:
                del self._by_partition[partition]
        if not fetch.is_gone:
            fetch.finish()

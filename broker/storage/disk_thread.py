"""The one thread that waits for the disk of the partitions, and the writes that it makes in groups.

What is appended is visible to followers at once and written here: one job takes everything that
was appended to any partition since the one before. Partition data is written, and not synced,
before it is acknowledged, as Kafka does: that a majority of machines loses power at once is what
the promise does not cover, the other replicas are what it rests on. It is synced when a segment
is full and when the broker stops in good order. (The metadata log is another matter, and not
written here: `quorum.driver`.)

Jobs run one after the other, in the order in which they were asked for. A disk that fails ends
the broker: what it has kept, nobody knows.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from quorum.ports import Log, LogFailure

T = TypeVar("T")


class Writable(Protocol):
    """Something with a log that has grown."""

    @property
    def log(self) -> Log: ...

    @property
    def is_open(self) -> bool:
        """Whether its log may still be written to."""
        ...

    def wrote(self, end: int) -> None:
        """Everything below `end` is written."""
        ...


class DiskThread:
    """Belongs to the running loop; `close` ends the thread when all jobs are done."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")
        self._loop = asyncio.get_running_loop()
        self._grown: dict[Writable, None] = {}
        self._is_writing = False
        self._is_due = False
        self._waiting: list[asyncio.Future[None]] = []
        self.failure: asyncio.Future[None] = self._loop.create_future()
        """Raises the first error of the disk; never has a result."""

    def write_soon(self, grown: Writable) -> None:
        """Write what was appended, together with whatever else is appended in this turn."""
        self._grown[grown] = None
        if not self._is_writing and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._write)

    async def call(self, job: Callable[..., T], *arguments: Any) -> T:
        """Run `job` in the thread, after all that was asked for before; raises what it raises."""
        return await self._loop.run_in_executor(self._thread, job, *arguments)

    async def written(self) -> None:
        """Return when everything appended in this turn of the loop, and before, is written."""
        if not self._grown and not self._is_writing:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def close(self) -> None:
        """End the thread; jobs that were asked for are still done."""
        self._thread.shutdown(wait=True)
        if not self.failure.done():
            self.failure.cancel()
        elif not self.failure.cancelled():
            # Whoever ends the broker has seen it; here it only must not count as unnoticed.
            self.failure.exception()

    def _write(self) -> None:
        self._is_due = False
        grown, self._grown = [each for each in self._grown if each.is_open], {}
        waiting, self._waiting = self._waiting, []
        if self.failure.done():
            return
        self._is_writing = True
        job = self._loop.run_in_executor(self._thread, _commit, [each.log for each in grown])
        job.add_done_callback(lambda done: self._written(grown, waiting, done))

    def _written(
        self,
        grown: Sequence[Writable],
        waiting: Sequence[asyncio.Future[None]],
        done: asyncio.Future[list[int] | LogFailure],
    ) -> None:
        self._is_writing = False
        ends = done.result()
        if isinstance(ends, LogFailure):
            if not self.failure.done():
                self.failure.set_exception(ends)
            return
        for each, end in zip(grown, ends, strict=True):
            if each.is_open:
                each.wrote(end)
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        if (self._grown or self._waiting) and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._write)


def _commit(logs: Sequence[Log]) -> list[int] | LogFailure:
    """Write each log; in the thread."""
    try:
        return [log.commit(sync=False).offset for log in logs]
    except LogFailure as failure:
        return failure

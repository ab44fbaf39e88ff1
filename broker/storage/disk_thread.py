"""The disk thread of a broker: group writes of partition logs, and other disk jobs in order.

Followers see an appended batch at once; one job then writes everything appended to any partition
since the previous job. As in Kafka, partition data is written but not synced before it is
acknowledged: the promise rests on the other replicas and does not cover a power loss of a majority
at once. Logs are synced when a segment is full and on a clean shutdown. (The metadata log is synced
always, by `quorum.driver`.)

Jobs run one after the other in the order of the calls. A disk error ends the broker, because the
state of the disk is then unknown.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from quorum.ports import Log

T = TypeVar("T")


class Writable(Protocol):
    """A partition with records to write."""

    @property
    def log(self) -> Log: ...

    @property
    def is_open(self) -> bool:
        """Return whether its log may still be written to."""
        ...

    def wrote(self, end: int) -> None:
        """Note that everything below `end` is written."""
        ...


class DiskThread:
    """One thread for disk work, used by the running loop; `close` finishes all jobs."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")
        self._loop = asyncio.get_running_loop()
        self._grown: dict[Writable, None] = {}
        self._has_grown = asyncio.Event()
        self._is_writing = False
        self._waiting: list[asyncio.Future[None]] = []

    async def run(self) -> None:
        """Write what `write_soon` names, one group after the other; raises `LogFailure`."""
        while await self._has_grown.wait():
            self._has_grown.clear()
            self._is_writing = True
            grown, self._grown = [each for each in self._grown if each.is_open], {}
            waiting, self._waiting = self._waiting, []
            ends = await self.call(_commit, [each.log for each in grown])
            self._is_writing = False
            for each, end in zip(grown, ends, strict=True):
                if each.is_open:
                    each.wrote(end)
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)
            # The next group has everything of this turn of the loop.
            await asyncio.sleep(0)

    def write_soon(self, grown: Writable) -> None:
        """Write the appended records, grouped with all others of this turn of the loop."""
        self._grown[grown] = None
        self._has_grown.set()

    async def call(self, job: Callable[..., T], *arguments: Any) -> T:
        """Run `job` in the thread, after all earlier jobs; raises its error."""
        return await self._loop.run_in_executor(self._thread, job, *arguments)

    async def written(self) -> None:
        """Wait until everything appended so far is written."""
        if not self._grown and not self._is_writing:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        self._has_grown.set()
        await waiter

    def close(self) -> None:
        """Finish all jobs and end the thread."""
        self._thread.shutdown(wait=True)


def _commit(logs: Sequence[Log]) -> list[int]:
    """Write each log; runs in the thread."""
    return [log.commit(sync=False).offset for log in logs]

"""The one thread that writes: the event loop never waits for a disk.

It performs, one after the other and in order, what it is asked to. Commits are grouped: while one
is in flight at most one more of the same log is queued, and every request that comes meanwhile is
part of that one. Nothing here knows what is written.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import ParamSpec, TypeAlias, TypeVar

from quorum.core.vocabulary import LogEnd
from quorum.ports import Log, LogFailure

P = ParamSpec("P")
T = TypeVar("T")

Done: TypeAlias = Callable[[LogEnd], None]


class DiskThread:
    """What it promises stands in `quorum.ports.Disk`; the loop's thread owns it.

    That thread alone calls its methods and gets its reports. What fails is handed to `on_failure`,
    in the loop; but a `call` that fails raises where it is awaited. After the first `LogFailure`
    the disk cannot be trusted any more: further calls are refused with `LogFailure`, nothing is
    performed or reported, and `on_failure` is not called again. The owner ends the process.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._loop = loop
        self._on_failure = on_failure
        # An executor would make a future for each commit, which costs more than the hand-over.
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._serve, name="disk", daemon=True)
        self._lock = Lock()
        self._queued: dict[Log, list[Done]] = {}
        self._failure: BaseException | None = None
        self._handed_over = False
        self._thread.start()

    def request_commit(self, log: Log, done: Done) -> None:
        """Commit what `log` holds by now, and then call `done`, in the loop, with its end.

        Requests that share a commit share its report: a callable asked for twice is called once.
        """
        with self._lock:
            waiting = self._queued.get(log)
            if waiting is None:
                self._queued[log] = [done]
            elif done not in waiting:
                waiting.append(done)
        if waiting is None:
            self._work.put(partial(self._commit, log))

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `work` in the thread, after all that was asked for before; then call `done`, in the
        loop, with what it returned. What it raises goes to `on_failure`."""
        self._work.put(partial(self._perform, work, done))

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function in the thread, after all that was asked for before.

        What it raises is raised here; if the waiting was given up, `on_failure` gets it.
        """
        assert self._thread.is_alive(), "called after `close`"
        future: Future[T] = Future()
        self._work.put(partial(self._run, future, partial(function, *args, **kwargs)))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._watch)
            raise

    async def drain(self) -> None:
        """Return once all that was asked for before is done, and has been reported."""
        await self.call(_nothing)

    def close(self) -> None:
        """Finish what is queued and end the thread; blocks meanwhile. `drain` first."""
        self._work.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _commit(self, log: Log) -> None:
        # Requests from here on need another commit: this one may already have taken its batches.
        with self._lock:
            waiting = self._queued.pop(log)
        if self._failure is not None:
            return
        try:
            end = self._remembering_failure(log.commit)
        except Exception as failure:  # noqa: BLE001 - it is not swallowed but handed over
            self._hand_over(failure)
        else:
            self._loop.call_soon_threadsafe(_report, waiting, end)

    def _perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        try:
            result = self._remembering_failure(work)
        except Exception as failure:  # noqa: BLE001 - it is not swallowed but handed over
            self._hand_over(failure)
        else:
            self._loop.call_soon_threadsafe(done, result)

    def _run(self, future: Future[T], work: Callable[[], T]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = self._remembering_failure(work)
        except Exception as failure:  # noqa: BLE001 - it is raised where the call is awaited
            future.set_exception(failure)
        else:
            future.set_result(result)

    def _remembering_failure(self, work: Callable[[], T]) -> T:
        if self._failure is not None:
            raise LogFailure(f"nothing is written after: {self._failure}") from self._failure
        # Remembered before the next piece of work begins, which a callback could not promise.
        try:
            return work()
        except LogFailure as failure:
            self._failure = failure
            raise

    def _watch(self, future: Future[T]) -> None:
        """Hand the failure of a call that nobody awaits to the owner."""
        failure = None if future.cancelled() else future.exception()
        if failure is not None:
            self._hand_over(failure)

    def _hand_over(self, failure: BaseException) -> None:
        """Tell the owner of the first failure; called in whichever thread finds it."""
        with self._lock:
            is_first, self._handed_over = not self._handed_over, True
        if is_first:
            self._loop.call_soon_threadsafe(self._on_failure, failure)


def _report(waiting: list[Done], end: LogEnd) -> None:
    for done in waiting:
        done(end)


def _nothing() -> None:
    """What `drain` waits for."""

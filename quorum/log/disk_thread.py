"""The disk thread: performs blocking work in order, so that the event loop never waits for a disk.

Commits are grouped: while one is under way at most one more is queued, and every request that comes
meanwhile joins that one. If the disk is quick (`DiskLatency`) and the thread idle, the loop makes
small commits itself, after sending the pending messages. On a full disk, work is repeated until
there is room.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from time import perf_counter
from typing import Final, TypeAlias, TypeVar

from quorum.core.vocabulary import Offset, OffsetAndEpoch
from quorum.histogram import DISK_SECONDS, NativeHistogram
from quorum.log.filesystem import is_full
from quorum.log_events import LogEvent
from quorum.ports import DiskFull, Log, LogFailure

T = TypeVar("T")

Done: TypeAlias = Callable[[OffsetAndEpoch], None]

_Commit: TypeAlias = tuple[Log, Done]
"""A log to commit, and the callback for its end."""

logger = logging.getLogger("quorum")

RETRY_SECONDS: Final = 0.5
"""The pause between two attempts to write to a full disk."""

_TRIES_PER_COMPLAINT: Final = 120

QUICK_SECONDS: Final = 0.000_5
"""The loop makes commits whose mean latency is below this, in wall-clock time: on an overloaded
machine the thread makes them, which gets its own share of the processor."""

COUNTED_SECONDS_MAX: Final = 4 * QUICK_SECONDS
"""The limit for one sample: a single slow commit, on a busy machine, does not make the disk slow;
two within a few commits do."""

FEW_RECORDS: Final = 8
"""The thread makes larger commits, unless the loop has nothing to send first: with so many records
at a time more are coming, which the loop processes while the disk works."""

FIRST_TRY_AFTER: Final = 2
"""Commits by the thread before the first one is tried in the loop."""

TRY_AFTER: Final = 16

TRY_AFTER_MAX: Final = 1_024
"""Commits by the thread before the loop tries one again; doubles while the disk is slow."""

_SHARE_OF_LAST: Final = 1 / 8


class DiskLatency:
    """The mean latency of commits in the loop; an untried disk counts as slow."""

    __slots__ = ("_is_quick", "_mean_seconds", "_try_after", "_until_try")

    def __init__(self) -> None:
        self._is_quick = False
        self._mean_seconds = 0.0
        self._try_after = TRY_AFTER // 2
        self._until_try = FIRST_TRY_AFTER

    def may_wait(self) -> bool:
        """Return True to make the next commit in the loop; `took` then reports its duration."""
        if self._is_quick:
            return True
        self._until_try -= 1
        return self._until_try <= 0

    def took(self, seconds: float) -> None:
        """Note the duration of a commit in the loop."""
        if self._is_quick:
            counted = min(seconds, COUNTED_SECONDS_MAX)
            self._mean_seconds += (counted - self._mean_seconds) * _SHARE_OF_LAST
        else:
            self._mean_seconds = seconds
        was_quick, self._is_quick = self._is_quick, self._mean_seconds < QUICK_SECONDS
        if was_quick or self._is_quick:
            self._try_after = TRY_AFTER
        else:
            self._try_after = min(2 * self._try_after, TRY_AFTER_MAX)
        self._until_try = self._try_after


class DiskThread:
    """A `quorum.ports.Disk` with its own thread.

    Only the loop's thread calls the methods and gets the reports. The first error goes to
    `on_failure`. After a `LogFailure` the disk cannot be trusted: no work is performed or reported,
    `drain` raises it, and the owner ends the process. `on_room` gets False when the disk is full,
    and True when it has space again. With a `pace`, the loop makes the commits of a quick disk.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_failure: Callable[[BaseException], None],
        on_room: Callable[[bool], None] | None = None,
        retry_seconds: float = RETRY_SECONDS,
        pace: DiskLatency | None = None,
    ) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self._on_room = on_room
        self._retry_seconds = retry_seconds
        self._closing = Event()
        self._room = True
        """False while the disk is full; written by the thread, read by the loop."""
        self._drains: set[asyncio.Future[None]] = set()
        self._failure: LogFailure | None = None
        self._has_failed = False
        # An executor would make a future for each commit, which costs more than the hand-over.
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._worker = Thread(target=self._serve, name="disk", daemon=True)
        self._queued: set[_Commit] = set()
        """The commits that the thread has not begun; it removes one before it begins."""
        self._pace = pace
        self.commits = NativeHistogram(DISK_SECONDS)
        """The times of the commits, written and synced; the thread and the loop take turns."""
        self._here: list[_Commit] = []
        """The commits that the loop makes soon."""
        self._ends: dict[Log, Offset] = {}
        """The end of each log at its last commit request."""
        # Only one thread increments each of the two.
        self._asked = 0
        self._ended = 0
        self._worker.start()

    def request_commit(self, log: Log, done: Done, *, at_once: bool = False) -> None:
        """Commit the present content of `log`, then call `done`, in the loop, with its end.

        Equal requests share a commit and its report until it begins. With `at_once` a quick disk
        commits, and calls `done`, before this returns.
        """
        commit = (log, done)
        if commit in self._here:
            return
        if self._pace is None or not self._may_commit_here(log, self._pace, at_once=at_once):
            self._queue_commit(commit)
            return
        self._here.append(commit)
        if at_once:
            self._commit_here(commit, self._pace)
        else:
            # The messages to other replicas leave first, so that they write at the same time.
            self._loop.call_soon(self._commit_here, commit, self._pace)

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `work` in the thread, after all earlier work; then call `done`, in the loop, with its
        result. An exception goes to `on_failure`."""
        self._put(partial(self._perform, work, done))

    async def drain(self) -> None:
        """Return once all earlier work is done and reported, or the disk is full. Raises
        `LogFailure` after one."""
        assert self._worker.is_alive(), "drained after `close`"
        if not self._room:
            return
        drained = self._loop.create_future()
        self._drains.add(drained)
        self._put(partial(self._loop.call_soon_threadsafe, _resolve, drained))
        try:
            await drained
        finally:
            self._drains.discard(drained)
        self._refuse_after_failure()

    def close(self) -> None:
        """Finish the queued work, unless the disk is full, and end the thread; blocks meanwhile.
        `drain` first."""
        self._hand_on()
        self._closing.set()
        self._work.put(None)
        self._worker.join()

    def _put(self, work: Callable[[], object]) -> None:
        self._hand_on()
        self._asked += 1
        self._work.put(work)

    def _hand_on(self) -> None:
        """Move the commits that the loop has not made yet to the thread: they come first."""
        here, self._here = self._here, []
        for commit in here:
            self._queue_commit(commit)

    def _queue_commit(self, commit: _Commit) -> None:
        if commit not in self._queued:
            self._queued.add(commit)
            self._put(partial(self._commit, commit))

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            # The loop has its report by now, before those of later work.
            self._ended += 1

    def _may_commit_here(self, log: Log, pace: DiskLatency, *, at_once: bool) -> bool:
        end = log.end.offset
        count = end - self._ends.get(log, end)
        self._ends[log] = end
        is_idle = self._asked == self._ended
        return is_idle and (at_once or count <= FEW_RECORDS) and pace.may_wait()

    def _commit_here(self, commit: _Commit, pace: DiskLatency) -> None:
        if commit not in self._here or self._failure is not None:
            return
        self._here.remove(commit)
        log, done = commit
        begun = perf_counter()
        try:
            end = self._remembering_failure(log.commit)
        except DiskFull:
            self._queue_commit(commit)
        except Exception as failure:  # noqa: BLE001 - it is not swallowed but handed over
            self._hand_over(failure)
        else:
            seconds = perf_counter() - begun
            pace.took(seconds)
            self.commits.observe(seconds)
            done(end)

    def _commit(self, commit: _Commit) -> None:
        # Requests from here on need another commit: this one may already have taken its batches.
        self._queued.remove(commit)
        log, done = commit
        self._perform(partial(self._timed, log.commit), done)

    def _timed(self, commit: Callable[[], T]) -> T:
        begun = perf_counter()
        result = commit()
        self.commits.observe(perf_counter() - begun)
        return result

    def _perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Perform `work`, repeatedly until there is room or the thread ends."""
        tries = 0
        while True:
            try:
                result = self._remembering_failure(work)
                break
            except Exception as failure:  # noqa: BLE001 - it is not swallowed but handed over
                is_full_disk = isinstance(failure, OSError) and is_full(failure)
                if not (is_full_disk or isinstance(failure, DiskFull)):
                    self._hand_over(failure)
                    return
                if tries % _TRIES_PER_COMPLAINT == 0:
                    logger.warning(
                        "%s. Retrying until there is room", failure, extra=LogEvent.DISK_FULL.extra
                    )
                tries += 1
                self._tell_room(False)
                if self._closing.wait(self._retry_seconds):
                    return
        if tries:
            logger.info(
                "The disk has space again; nothing was lost", extra=LogEvent.DISK_HAS_ROOM.extra
            )
            self._tell_room(True)
        self._loop.call_soon_threadsafe(done, result)

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise LogFailure(f"no writes after a failure: {self._failure}") from self._failure

    def _remembering_failure(self, work: Callable[[], T]) -> T:
        self._refuse_after_failure()
        # Stored before the next piece of work begins; a callback in the loop may come later.
        try:
            return work()
        except DiskFull:
            raise
        except LogFailure as failure:
            self._failure = failure
            raise

    def _tell_room(self, room: bool) -> None:
        if room != self._room:
            self._room = room
            self._loop.call_soon_threadsafe(self._hear_of_room, room)

    def _hear_of_room(self, room: bool) -> None:
        if not room:
            for each in self._drains:
                _resolve(each)
        if self._on_room is not None:
            self._on_room(room)

    def _hand_over(self, failure: Exception) -> None:
        """Tell the owner, in the loop, if it is the first failure."""
        self._loop.call_soon_threadsafe(self._hear_of_failure, failure)

    def _hear_of_failure(self, failure: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._on_failure(failure)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

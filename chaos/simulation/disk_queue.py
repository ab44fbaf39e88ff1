"""The disk as a replica asks it (`quorum.ports.Disk`): one piece after the other, and in its time.

A piece is done in one moment, some milliseconds after it was begun, and reported some later still:
a process may end before, between and after. Nothing of this waits.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from chaos.invariants.queue_bounds import check_disk_queue
from chaos.simulation.environment import Environment
from chaos.simulation.machine import Machine
from quorum.core.vocabulary import OffsetAndEpoch, ReplicaId
from quorum.log.errors import StorageError
from quorum.ports import DiskFull, Log, LogFailure
from quorum.replica import Replica

T = TypeVar("T")

FULL_RETRY_MS: Final = 500
"""Between two tries to write what there was no room for."""


class _Piece(NamedTuple):
    """One operation; its result reports the completion. For a commit, `log` is what it commits."""

    run: Callable[[], Callable[[], None]]
    log: Log | None = None


class Owner(Protocol):
    """The process whose disk it is."""

    is_leaving: bool
    replica: Replica

    @property
    def log(self) -> Log:
        """The log of its replica."""
        ...

    @property
    def id(self) -> ReplicaId:
        """The id of its replica."""
        ...

    @property
    def machine(self) -> Machine:
        """The machine that it runs on."""
        ...

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """Run this inside the process after a delay, if it still lives."""
        ...


class DiskQueue:
    """The queue of disk operations of one process."""

    def __init__(self, process: Owner, world: Environment) -> None:
        self._process = process
        self._world = world
        self._waiting: deque[_Piece] = deque()
        self._busy = False
        self._failed = False
        self._room = True
        self._reported_ms = 0

    @property
    def is_idle(self) -> bool:
        """True if no operation is under way; reports may be."""
        return not self._busy and not self._waiting

    def request_commit(
        self, log: Log, done: Callable[[OffsetAndEpoch], None], *, at_once: bool = False
    ) -> None:
        """See the port. A commit that has not begun takes along what was appended since; none is
        quick enough to be made at once."""
        begun = int(self._busy)
        if any(piece.log is log for piece in list(self._waiting)[begun:]):
            return

        def run() -> Callable[[], None]:
            end = log.commit()
            return lambda: done(end)

        self._put(_Piece(run, log))

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """See the port."""
        log = self._process.log

        def run() -> Callable[[], None]:
            end_before = log.end.offset
            result = work()
            if log.end.offset < end_before:
                self._world.note("a log is truncated")
                self._world.tell(self._process.id, f"has truncated to {log.end.offset}")
            return lambda: done(result)

        self._put(_Piece(run))

    def _put(self, piece: _Piece) -> None:
        self._waiting.append(piece)
        check_disk_queue(self._process, len(self._waiting))
        if not self._busy:
            self._begin()

    def _begin(self) -> None:
        if self._waiting and not self._failed:
            self._busy = True
            self._process.later(self._world.writing_ms(self._process.machine), self._do)

    def _do(self) -> None:
        process = self._process
        try:
            report = self._waiting[0].run()
        except DiskFull:
            self._tell_room(False)
            process.later(FULL_RETRY_MS, self._do)
            return
        except (LogFailure, StorageError) as failure:
            self._failed = True
            if process.is_leaving:
                raise  # Its replica takes no more turns in which it could end because of this.
            process.replica.fail(failure)
            return
        self._tell_room(True)
        self._waiting.popleft()
        self._busy = False
        self._world.has_written(process.id)
        self._report(report)
        self._begin()

    def _report(self, report: Callable[[], None]) -> None:
        """Report late, but in order."""
        now_ms = self._world.timeline.now_ms
        self._reported_ms = max(self._reported_ms, now_ms + self._world.reporting_ms())
        self._process.later(self._reported_ms - now_ms, report)

    def _tell_room(self, exists: bool) -> None:
        if exists != self._room:
            self._room = exists
            self._world.note("a disk has no room" if not exists else "a disk has room again")
            self._report(lambda: self._process.replica.room(exists))

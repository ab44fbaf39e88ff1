"""Committed records, one after the other, into a state machine that knows nothing of a log.

The state machine of an embedder sees what is committed and nothing else: no offset can be taken
back, and the leader applies when the others do. Whoever proposed a record is told what applying it
gave.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from quorum.committed import Committed, stride
from quorum.core.vocabulary import Epoch, Offset
from quorum.ports import StateSnapshot

APPLIED_AT_ONCE: Final = 1_000
"""Records that are applied before anyone else has a turn."""

START: Final = Offset(0)


class Machine(Protocol):
    """What an embedder writes: a value that the committed records, and they alone, make.

    Called in the event loop, one call at a time. `apply` must be deterministic (no clock, no
    chance, no order of a set): every replica calls it with the same records in the same order.
    What it raises ends the replica, for the others will come to the same record.
    """

    def apply(self, record: bytes) -> Any:
        """Take in the next committed record; what this returns, its proposer gets."""
        ...

    def snapshot(self) -> Iterator[Sequence[bytes]]:
        """Records from which `load_snapshot` makes the state as it is now, in small groups.

        The first group is taken at once, the others one by one between other work; what is applied
        meanwhile must not show in them.
        """
        ...

    def load_snapshot(self, records: Iterable[bytes]) -> None:
        """Replace the whole state by what these records say; raises `ValueError` if it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record that was proposed here and is not committed yet."""

    offset: Offset
    size_bytes: int
    result: "asyncio.Future[Any]"


class Applying:
    """A `ports.StateMachine` that applies what is committed, on the leader as everywhere else."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._log: Committed | None = None
        self._waiting: deque[Waiting] = deque()
        self.waiting_bytes = 0
        """Bytes of the records that were proposed here and are not committed yet."""
        self.applied = START
        """Everything below has been applied."""
        self._target = START
        self.epoch: Epoch | None = None
        """The epoch that this replica leads and may propose in; None while it does not."""

    def read_from(self, log: Committed) -> None:
        """Where committed records are read; once, before anything is committed."""
        self._log = log

    @property
    def waiting(self) -> int:
        """How many records were proposed here and are not committed yet."""
        return len(self._waiting)

    def wait_for(self, offset: Offset, size_bytes: int) -> "asyncio.Future[Any]":
        """What applying the record at `offset` will give; it was proposed after all others."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(offset, size_bytes, result))
        self.waiting_bytes += size_bytes
        return result

    def close(self) -> None:
        """Nothing is proposed here any more; what waits may be committed yet, or never."""
        self.epoch = None
        lost, self._waiting = self._waiting, deque()
        self.waiting_bytes = 0
        for each in lost:
            if not each.result.done():
                each.result.set_exception(LeadLost())

    # What the quorum says (ports.StateMachine).

    def snapshot(self) -> StateSnapshot | None:
        # What is still being applied may have come to the middle of a batch.
        if self.is_behind or self.applied == START:
            return None
        groups = iter(self._machine.snapshot())
        # At once: the body of a generator would not begin before it is asked, when more is applied.
        first = next(groups, ())
        close = groups.close if isinstance(groups, Generator) else _nothing
        return StateSnapshot(self.applied, itertools.chain([first], groups), close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        self._machine.load_snapshot(records)
        self.applied, self._target = end, max(self._target, end)

    def on_commit(self, high_watermark: Offset) -> None:
        was_behind, self._target = self.is_behind, high_watermark
        if self.is_behind and not was_behind:
            self.catch_up()

    @property
    def is_behind(self) -> bool:
        return self.applied < self._target

    def catch_up(self) -> None:
        assert self._log is not None, "read_from comes first"
        for run in stride(self._log, self.applied, records_max=APPLIED_AT_ONCE):
            for offset, value in enumerate(run.values, run.offset):
                self._apply(offset, value)
                self.applied = Offset(offset + 1)
            self.applied = Offset(run.end)

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        assert start == self.applied
        self.epoch = epoch

    def on_control(self, end: Offset) -> None:
        pass  # Applied like all others, when it is committed.

    def on_stop_leading(self, epoch: Epoch) -> None:
        self.close()

    def on_truncate(self, end: Offset) -> None:
        assert end >= self.applied, "what is applied is committed, and that is never cut"

    def _apply(self, offset: int, record: bytes) -> None:
        result = self._machine.apply(record)
        if self._waiting and self._waiting[0].offset == offset:
            done = self._waiting.popleft()
            self.waiting_bytes -= done.size_bytes
            # Whoever proposed it may have stopped waiting.
            if not done.result.done():
                done.result.set_result(result)


class LeadLost(Exception):
    """The lead was lost while a record waited for its commit."""


def _nothing() -> None:
    """What has to be done about the end of groups that are no generator's."""

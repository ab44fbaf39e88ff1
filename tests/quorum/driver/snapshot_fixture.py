"""One replica with a manual disk and clock, for tests of the time of snapshots."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from quorum.core.events import Event
from quorum.core.limits import Timeouts
from quorum.core.node import QuorumNode
from quorum.core.raft_log import RaftLog
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import VoterSet, VoterSetHistory
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.ports import Log, StateSnapshot
from quorum.snapshotting import SLICE_PAUSE_MS, SnapshotLimits, Snapshots
from tests.contracts.batches import run
from tests.support.memory_storage import MemoryLog, known_cluster

T = TypeVar("T")
LIMITS = SnapshotLimits(bytes_between=500, interval_ms=0, retention_bytes=1 << 30)
ONE_EPOCH = (1,) * 20


class Bench:
    """One owner of snapshots: a log of 20 committed records, a disk and a clock by hand."""

    def __init__(
        self,
        folder: Path,
        limits: SnapshotLimits = LIMITS,
        *,
        epochs: Sequence[int] = ONE_EPOCH,
        assignments: VoterSetHistory | None = None,
        log: Log | None = None,
    ) -> None:
        """`epochs` are those of the 20 records, which `log` is to hold instead of memory."""
        self.now_ms = 0
        self.end: int | None = 10
        self.log: Log = MemoryLog() if log is None else log
        for batch in run(0, *epochs):
            self.log.append(batch)
        self.log.commit()
        self.disk: list[Callable[[], None]] = []
        self.put: list[Event] = []
        self.given_up = 0
        self.loaded: list[tuple[OffsetAndEpoch, list[bytes]]] = []
        self.store = FileSnapshotStore(folder)
        node = QuorumNode(
            ReplicaKey(ReplicaId(1)),
            VoterSet.of(1),
            election=ElectionState(Epoch(epochs[-1])),
            log=RaftLog(
                self.log.start, self.log.end.offset, self.log.epochs, assignments=assignments
            ),
            timeouts=Timeouts(),
            rng=random.Random(1),
            now_ms=0,
        )
        node._state.high_watermark = Offset(20)
        self.snapshots = Snapshots(
            self.store,
            node=node,
            log=self.log,
            disk=self,
            state_machine=self,  # type: ignore[arg-type]
            clock=lambda: self.now_ms,
            wall_clock=lambda: self.now_ms,
            put=self.put.append,
            wake=lambda: None,
            cluster=known_cluster(),
            limits=limits,
        )

    def snapshot(self) -> StateSnapshot | None:
        def close() -> None:
            self.given_up += 1

        if self.end is None:
            return None
        groups: Iterator[Sequence[bytes]] = iter([[b"a", b"b"], [], [b"c"]])
        return StateSnapshot(Offset(self.end), groups, close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        self.loaded.append((OffsetAndEpoch(epoch, end), list(records)))

    def request_commit(self, log: Log, done: object, *, at_once: bool = False) -> None:
        raise AssertionError("nothing was appended")

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        self.disk.append(partial(_report, work, done))

    def turns(self, count: int, *, appended: int = 0) -> int | None:
        """Take so many turns with a pause between them; return the time of the next one."""
        due_ms = None
        self.snapshots.bytes_since += appended
        for _ in range(count):
            due_ms = self.snapshots.turn()
            self.now_ms += SLICE_PAUSE_MS
        return due_ms

    def work(self) -> None:
        while self.disk:
            self.disk.pop(0)()

    def take(self, end: int) -> None:
        """Let one be taken that ends there."""
        self.end = end
        self.turns(10, appended=1_000)
        self.work()


def _report(work: Callable[[], T], done: Callable[[T], None]) -> None:
    done(work())


def id_(offset: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Epoch(1), Offset(offset))

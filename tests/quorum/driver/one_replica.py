"""One replica and its surroundings, owned by the test: it takes turns on request."""

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from quorum.core.events import Asker
from quorum.core.limits import Timeouts
from quorum.core.messages import Request, Response
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
from quorum.core.voter_set import VoterSet
from quorum.ports import Done, Log, StateSnapshot
from quorum.replica import Replica
from quorum.snapshotting import SnapshotLimits
from tests.support.memory_storage import (
    MemoryElectionStore,
    MemoryLog,
    known_cluster,
    no_snapshots,
)

ELECTION_MS = 1_000

T = TypeVar("T")


class Disk:
    """`quorum.ports.Disk` with the patience of a test: `work` does the next piece."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.is_quick = False

    def request_commit(
        self, log: Log, done: Callable[[OffsetAndEpoch], None], *, at_once: bool = False
    ) -> None:
        if at_once and self.is_quick:
            done(log.commit())
        else:
            self.perform(log.commit, done)

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        self.waiting.append(partial(_report, work, done))

    def work(self) -> None:
        self.waiting.pop(0)()


def _report(work: Callable[[], T], done: Callable[[T], None]) -> None:
    done(work())


class World:
    """Everything around one replica of three (or of one): it writes down what it is told."""

    def __init__(self, *voters: int, election: ElectionState | None = None) -> None:
        self.log = MemoryLog()
        self.elections = MemoryElectionStore()
        self.disk = Disk()
        self.sent: list[tuple[ReplicaId, Request, Done]] = []
        self.answered: list[tuple[Asker, Response]] = []
        self.told: list[str] = []
        self.strides_behind = 0
        self.now_ms = 0
        self.woken = 0
        node = QuorumNode(
            ReplicaKey(ReplicaId(1)),
            VoterSet.of(*voters),
            election=election or ElectionState(),
            log=RaftLog(self.log.start, self.log.end.offset, self.log.epochs),
            timeouts=Timeouts(election_timeout_ms=ELECTION_MS),
            rng=random.Random(1),
            now_ms=0,
        )
        self.replica = Replica(
            node,
            log=self.log,
            elections=self.elections,
            disk=self.disk,
            rpc=self,
            state_machine=self,
            clock=lambda: self.now_ms,
            wall_clock=lambda: self.now_ms,
            wake=self.wake,
            cluster=known_cluster(),
            store=no_snapshots(),
            snapshot_limits=SnapshotLimits(interval_ms=0),
        )

    def wake(self) -> None:
        self.woken += 1

    def settle(self) -> None:
        """Let everyone do what there is to do, the disk included."""
        self.replica.turn()
        while self.disk.waiting or self.replica.has_work:
            if self.disk.waiting:
                self.disk.work()
            self.replica.turn()

    def send(self, to: ReplicaId, request: Request, done: Done) -> None:
        self.sent.append((to, request, done))

    def answer(self, asker: Asker, response: Response, records: bytes) -> None:
        self.answered.append((asker, response))

    def close(self) -> None:
        raise AssertionError("who made the network closes it")

    def snapshot(self) -> StateSnapshot | None:
        return None

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        raise AssertionError("the log begins at 0")

    def on_commit(self, high_watermark: Offset) -> None:
        self.told.append(f"commit {high_watermark}")

    @property
    def is_behind(self) -> bool:
        return self.strides_behind > 0

    def catch_up(self) -> None:
        assert self.is_behind
        self.strides_behind -= 1
        self.told.append(f"{self.strides_behind} strides behind")

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        self.told.append(f"lead {epoch} from {start}")

    def on_control(self, end: Offset) -> None:
        raise AssertionError("these voters do not change")

    def on_stop_leading(self, epoch: Epoch) -> None:
        self.told.append(f"stop leading {epoch}")

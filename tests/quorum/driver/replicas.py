"""Three replicas in one event loop: core, driver and disk threads are the real ones.

Logs and election stores are those in memory, behind gates: a closed gate is a disk that takes its
time, a broken one a disk that fails. Time-outs are so long that none runs out by itself, however
slow the machine is: a test lets the clock of one replica jump. Replica 1 begins with such a jump,
and so it is the first to lead.
"""

import asyncio
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Final

from quorum.core.events import Asker
from quorum.core.limits import Timeouts
from quorum.core.messages import FetchRequest, VoteRequest
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
from quorum.driver import Quorum
from quorum.log.disk_thread import DiskThread
from quorum.ports import LogFailure, StateSnapshot
from quorum.records.decode import decode
from quorum.replica import Replica as QuorumReplica
from quorum.snapshotting import SnapshotLimits
from tests.quorum.driver.in_memory_rpc import Wires
from tests.support.bell import PATIENCE_SECONDS, Bell
from tests.support.memory_storage import (
    MemoryElectionStore,
    MemoryLog,
    known_cluster,
    no_snapshots,
)

PATIENT: Final = Timeouts(
    election_timeout_ms=10_000,
    election_backoff_ms_max=40,
    fetch_timeout_ms=10_000,
    request_timeout_ms=10_000,
    retry_backoff_ms=2,
    retry_backoff_ms_max=20,
    fetch_wait_ms=30,
)
HASTY: Final = replace(PATIENT, election_timeout_ms=60, fetch_timeout_ms=120)
"""For a test in which time-outs do run out. Who leads then is anyone's guess."""

VOTERS: Final = (1, 2, 3)
NOBODY: Final = Asker(-1)
"""An asker who does not wait for the answer."""

NUDGE: Final = FetchRequest(
    replica=ReplicaKey(ReplicaId(99)),
    epoch=Epoch(0),
    log_end=OffsetAndEpoch(Epoch(0), Offset(0)),
    max_wait_ms=0,
    max_bytes=1,
)
"""A question that changes nothing: nobody leads epoch 0."""

WALL_MS: Final = 1_795_236_537_164


def vote(candidate: int, epoch: int) -> VoteRequest:
    """A candidate whose log nobody can fault asks for a vote."""
    return VoteRequest(
        epoch=Epoch(epoch),
        candidate=ReplicaKey(ReplicaId(candidate)),
        log_end=OffsetAndEpoch(Epoch(epoch), Offset(1_000)),
    )


class Gate:
    """Lets the disk thread pass, keeps it waiting, or fails it; the test's loop has the handle."""

    def __init__(self, bell: Bell) -> None:
        self.bell = bell
        self._changed = threading.Condition()
        self._is_open = True
        self._lets_one = False
        self._is_broken = False
        self.is_waiting = False
        """True if the disk thread waits at the closed gate."""
        self.passed = 0

    def close(self) -> None:
        self._is_open = False

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify()

    def open_once(self) -> None:
        """Let through who waits, and stay closed for the next."""
        assert self.is_waiting
        with self._changed:
            self._lets_one = True
            self._changed.notify()

    def break_down(self) -> None:
        """Let every commit fail from now on, waiting ones included."""
        self._is_broken = True
        self.open()

    def repair(self) -> None:
        self._is_broken = False

    def pass_through(self) -> None:
        """Called by the disk thread before it keeps anything."""
        with self._changed:
            self.is_waiting = not self._is_open
            self.bell.ring_from_afar()
            assert self._changed.wait_for(lambda: self._is_open or self._lets_one, PATIENCE_SECONDS)
            self.is_waiting = self._lets_one = False
            if self._is_broken:
                raise LogFailure("no space left")
            self.passed += 1
        self.bell.ring_from_afar()


class GatedLog(MemoryLog):
    """A log whose commits pass a gate."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate
        self.durable = Offset(0)
        self.truncations: list[Offset] = []

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        self.gate.pass_through()
        end = super().commit(sync=sync)
        self.durable = end.offset
        self.gate.bell.ring_from_afar()
        return end

    def truncate_to(self, end: Offset) -> None:
        super().truncate_to(end)
        self.truncations.append(end)
        self.gate.bell.ring_from_afar()

    def values(self) -> list[bytes]:
        """The values of the data records, oldest first."""
        records = decode(self.read(self.start, self.end.offset, 1 << 30))
        return [each.value or b"" for each in records if not each.control]


class GatedElections(MemoryElectionStore):
    """An election store whose writes pass a gate."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def write(self, election: ElectionState) -> None:
        self.gate.pass_through()
        super().write(election)


class Diary:
    """A state machine that writes down what it is told."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self.told: list[str] = []
        self.high_watermark = Offset(0)
        self.leads: Epoch | None = None
        self.when_committed: Callable[[], None] = lambda: None

    def snapshot(self) -> StateSnapshot | None:
        return None

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        raise AssertionError("these replicas begin with an empty log")

    def on_commit(self, high_watermark: Offset) -> None:
        assert high_watermark > self.high_watermark
        self.high_watermark = high_watermark
        self._note(f"commit {high_watermark}")
        self.when_committed()

    @property
    def is_behind(self) -> bool:
        return False

    def catch_up(self) -> None:
        raise AssertionError("it is never behind")

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        self.leads = epoch
        self._note(f"lead epoch {epoch} from {start}")

    def on_control(self, end: Offset) -> None:
        self._note(f"control records up to {end}")

    def on_stop_leading(self, epoch: Epoch) -> None:
        self.leads = None
        self._note(f"stop leading epoch {epoch}")

    def _note(self, what: str) -> None:
        self.told.append(what)
        self._bell.ring()


class Replica:
    """One replica with its disk; it can crash, be restarted, and be stopped."""

    def __init__(self, me: int, wires: Wires, timeouts: Timeouts) -> None:
        self.me = ReplicaId(me)
        self.wires = wires
        self.timeouts = timeouts
        self.log_gate, self.election_gate = Gate(wires.bell), Gate(wires.bell)
        self.log = GatedLog(self.log_gate)
        self.elections = GatedElections(self.election_gate)
        self._skipped_ms = 0
        self._nudging: asyncio.TimerHandle | None = None
        self.start()

    def start(self, *, stands: bool = False) -> None:
        """Begin, or begin again, with what the disk holds; with `stands`, as a candidate."""
        loop = asyncio.get_running_loop()
        self.diary = Diary(self.wires.bell)
        # A disk outlives a crash by a moment; its failure is not that of the next quorum.
        failing: list[QuorumReplica] = []
        self.disk = DiskThread(loop, on_failure=lambda failure: failing[0].fail(failure))
        rpc = self.wires.rpc_of(self.me)
        node = QuorumNode(
            ReplicaKey(self.me),
            VoterSet.of(*VOTERS),
            election=self.elections.read(),
            log=RaftLog(self.log.start, self.log.end.offset, self.log.epochs),
            timeouts=self.timeouts,
            rng=random.Random(self.me),
            now_ms=self._now_ms(),
        )
        replica = QuorumReplica(
            node,
            log=self.log,
            elections=self.elections,
            disk=self.disk,
            rpc=rpc,
            state_machine=self.diary,
            clock=self._now_ms,
            wall_clock=lambda: WALL_MS + self._now_ms(),
            wake=lambda: self.quorum.wake(),
            cluster=known_cluster(),
            store=no_snapshots(),
            snapshot_limits=SnapshotLimits(interval_ms=0),
        )
        self.quorum = Quorum(
            replica,
            disk=self.disk,
            rpc=rpc,
            clock=self._now_ms,
            wall_clock=lambda: WALL_MS + self._now_ms(),
        )
        failing.append(replica)
        self.wires.join(self.me, self.quorum)
        self.running = loop.create_task(self.quorum.run())
        self.running.add_done_callback(lambda _: self.wires.bell.ring())
        if stands:
            self.skip(2 * self.timeouts.election_timeout_ms)

    @property
    def node(self) -> QuorumNode:
        return self.quorum.node

    @property
    def leads(self) -> bool:
        """True if it may propose."""
        return self.diary.leads is not None

    def skip(self, ms: int) -> None:
        """Let its clock jump. From then on it is woken now and then, by a question that changes
        nothing: timers that were set before the jump go by the time before.
        """
        self._skipped_ms += ms
        self._nudge()

    def _nudge(self) -> None:
        if self._nudging is not None:
            self._nudging.cancel()
        self.quorum.replica.asked(NOBODY, NUDGE)
        self._nudging = asyncio.get_running_loop().call_later(0.005, self._nudge)

    def committed(self) -> list[bytes]:
        """The values of the records that it knows to be committed."""
        records = decode(self.quorum.replica.read_committed(Offset(0), 1 << 30))
        return [each.value or b"" for each in records if not each.control]

    async def crash(self) -> None:
        """Lose power: what the disk did not keep is gone."""
        self.log_gate.break_down()
        self.election_gate.break_down()
        self.running.cancel()
        await asyncio.wait({self.running})
        self.disk.close()
        self.log.crash()
        self.log_gate.repair()
        self.election_gate.repair()

    async def close(self) -> None:
        """End it, however; raises what ended it before, unless a test has taken that already."""
        self.log_gate.open()
        self.election_gate.open()
        if self._nudging is not None:
            self._nudging.cancel()
        self.running.cancel()
        await asyncio.wait({self.running})
        self.disk.close()

    def _now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1_000) + self._skipped_ms


class Trio:
    """Replicas 1, 2 and 3; leaving the context ends them, and fails if one had failed unnoticed."""

    def __init__(self, timeouts: Timeouts = PATIENT, *, stands: bool = True) -> None:
        """With `stands`, replica 1 is a candidate from the first moment on."""
        self._timeouts = timeouts
        self._stands = stands
        self.expects_failure = False

    async def __aenter__(self) -> "Trio":
        self.bell = Bell()
        self.wires = Wires(self.bell)
        self._replicas = {me: Replica(me, self.wires, self._timeouts) for me in VOTERS}
        if self._stands:
            self[1].skip(2 * self._timeouts.election_timeout_ms)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failed = self._failures()
        for replica in self.all:
            await replica.close()
        if failed and error is None and not self.expects_failure:
            raise failed[0]

    def __getitem__(self, me: int) -> Replica:
        return self._replicas[me]

    @property
    def all(self) -> list[Replica]:
        return list(self._replicas.values())

    async def until(self, holds: Callable[[], object]) -> None:
        """Return as soon as `holds()`; raises what a replica failed with meanwhile."""
        failed: list[BaseException] = []

        def look() -> object:
            failed[:] = [] if self.expects_failure else self._failures()
            return failed or holds()

        await self.bell.until(look)
        if failed:
            raise failed[0]

    async def leader(self) -> Replica:
        """The replica that may propose, as soon as there is one."""
        await self.until(lambda: any(each.leads for each in self.all))
        return next(each for each in self.all if each.leads)

    async def commit(self, leader: Replica, *values: bytes) -> Offset:
        """Propose, and return the end of it once the leader knows that it is committed."""
        end = Offset(leader.quorum.replica.propose(values) + len(values))
        await self.until(lambda: leader.diary.high_watermark >= end)
        return end

    async def everywhere(self, end: Offset) -> None:
        """Return once every replica has everything below `end`, and knows that it is committed."""
        await self.until(
            lambda: all(
                each.diary.high_watermark >= end and each.log.durable >= end for each in self.all
            )
        )

    async def dealt_with(self, replica: Replica) -> None:
        """Return once the replica has dealt with everything that was sent to it before."""
        await self.wires.ask(replica.me, vote(candidate=replica.me, epoch=0))

    def _failures(self) -> list[BaseException]:
        ended = [each.running for each in self.all if each.running.done()]
        errors = [task.exception() for task in ended if not task.cancelled()]
        return [error for error in errors if error is not None]

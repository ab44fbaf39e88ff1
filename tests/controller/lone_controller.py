"""A controller on a quorum of one without waits: the test owns time, turns and disk."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from controller.event_queue import Later
from controller.ports import Unavailable
from controller.quorum_controller import QuorumController
from quorum.core.events import Asker
from quorum.core.limits import Timeouts
from quorum.core.messages import Request, Response
from quorum.core.node import QuorumNode
from quorum.core.raft_log import RaftLog
from quorum.core.vocabulary import ElectionState, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import VoterSet
from quorum.ports import Done, Log
from quorum.replica import Replica
from quorum.snapshotting import SnapshotLimits
from statemachine import commands
from statemachine.features.features import RANGES
from statemachine.limits import METADATA_VERSION_MAX
from tests.support.memory_storage import (
    MemoryElectionStore,
    MemoryLog,
    known_cluster,
    no_snapshots,
)

SESSION_TIMEOUT_MS: Final = 9_000

T = TypeVar("T")


class Disk:
    """`quorum.ports.Disk`: a piece of work is done when the test lets it be."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def request_commit(
        self, log: Log, done: Callable[[OffsetAndEpoch], None], *, at_once: bool = False
    ) -> None:
        self.perform(log.commit, done)

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        self.waiting.append(partial(_report, work, done))


def _report(work: Callable[[], T], done: Callable[[T], None]) -> None:
    done(work())


class NoNetwork:
    """`quorum.ports.Rpc` of a replica that has nobody to talk to."""

    def send(self, to: ReplicaId, request: Request, done: Done) -> None:
        raise AssertionError("there is nobody else")

    def answer(self, asker: Asker, response: Response, records: bytes) -> None:
        raise AssertionError("nobody has asked")

    def close(self) -> None:
        raise AssertionError("there was nothing to open")


class Lone:
    """The controller, its replica and its disk; active from the beginning."""

    def __init__(self, later: Later | None = None) -> None:
        self.now_ms = 0
        self.disk = Disk()
        log = MemoryLog()
        self.controller = self._new_controller(later)
        node = QuorumNode(
            ReplicaKey(ReplicaId(1)),
            VoterSet.of(1),
            election=ElectionState(),
            log=RaftLog(log.start, log.end.offset, log.epochs),
            timeouts=Timeouts(),
            rng=random.Random(1),
            now_ms=0,
        )
        self.replica = Replica(
            node,
            log=log,
            elections=MemoryElectionStore(),
            disk=self.disk,
            rpc=NoNetwork(),
            state_machine=self.controller,
            clock=self._clock,
            wall_clock=self._clock,
            wake=lambda: None,
            cluster=known_cluster(),
            store=no_snapshots(),
            snapshot_limits=SnapshotLimits(interval_ms=0),
        )
        self.controller.attach(self.replica)
        assert self.replica.deadline_ms is not None
        self.now_ms = self.replica.deadline_ms
        self.settle()

    def _clock(self) -> int:
        return self.now_ms

    def _new_controller(self, later: Later | None) -> QuorumController:
        return QuorumController(
            clock=self._clock,
            wall_clock=self._clock,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            metadata_version=METADATA_VERSION_MAX,
            later=later,
            registration=commands.RegisterController(
                controller_id=1, incarnation_id=UUID(int=1), endpoints=(), features=RANGES
            ),
        )

    def standby(self, later: Later | None = None) -> QuorumController:
        """Another controller on the same log, which is not active and hears what a test tells."""
        controller = self._new_controller(later)
        controller.attach(self.replica)
        return controller

    def settle(self) -> None:
        """Let everyone do what there is to do, the disk included."""
        self.replica.turn()
        while self.disk.waiting or self.replica.has_work:
            if self.disk.waiting:
                self.disk.waiting.pop(0)()
            self.replica.turn()

    def ask(self, command: commands.Command) -> list[commands.Answer | Unavailable]:
        """Submit it; the list has the answer as soon as there is one."""
        answers: list[commands.Answer | Unavailable] = []
        self.controller.submit(command, answers.append)
        return answers

    def look(self, read: Callable[[Any], Any]) -> list[Any]:
        """Query the image; the list has what was found as soon as it may be told."""
        found: list[Any] = []
        self.controller.query(read, found.append)
        return found

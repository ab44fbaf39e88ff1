"""Everything of a simulated cluster that outlives its processes.

It adds to the environment of a quorum the calls of brokers and clients, the histories of the
checkers, and `DelayedIsrRequests`: a broker that is about to join an ISR is killed, and the request
is delayed until it may be registered as another incarnation (KIP-903).
"""

import random
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final

from broker.alter_partition_manager import Batch
from chaos.cluster.invariants.history import ClusterHistory
from chaos.cluster.invariants.partition_data import PartitionFolders, PartitionRecords
from chaos.cluster.invariants.record_parser import ParsedRecord
from chaos.cluster.profile import ClusterProfile
from chaos.cluster.rpc import Rpc, Server
from chaos.linearizability.client_history import ClientHistory
from chaos.simulation.environment import Environment
from chaos.simulation.machine import EPOCH_WALL_MS
from quorum.core.vocabulary import ReplicaId

ONE_IN: Final = 2
LATER_MS_MAX: Final = 2_000
"""The longest delay of a request after the session of the killed broker has expired, in ms."""


class ClusterEnvironment(Environment):
    """The environment of one run of a cluster."""

    def __init__(self, profile: ClusterProfile) -> None:
        self.settings = profile.settings
        self.history = ClusterHistory()
        super().__init__(profile)
        self.history.on_facts.append(self._tell_facts)
        self.history.keys.latest_ms = self._latest_ms
        self.brokers = [each for each in self.everyone if each not in self.voters]
        self.previous_epochs: dict[ReplicaId, int] = {}
        """The broker epoch of each broker that was stopped cleanly, until its next start."""
        self.last_marks: dict[ReplicaId, int] = {}
        """The broker epoch of the last clean stop of each broker."""
        self.old_marks: dict[ReplicaId, int] = {}
        """The epoch that the mark on an older copy of a broker's disk names at its next start."""
        self.rpc = Rpc(self, self.server_at)
        self.folders = PartitionFolders(self, self.history)
        self.history.model.on_step_cancelled = self.folders.step_cancelled
        self.records = PartitionRecords(self, self.history)
        self.history.on_facts.append(self.records.changed)
        self.client_history = ClientHistory()
        self.delayed_isr_requests = DelayedIsrRequests(self, self._stream("late proposals"))
        self.moves: list[int] = []
        """The ids of moves that clients have received."""
        self.holds_still = False
        """True while clients pause."""

    @abstractmethod
    def server_at(self, replica: ReplicaId) -> Server | None:
        """The process that runs there now, or None."""

    def _latest_ms(self) -> int:
        """The latest time of day that any machine has shown, advanced to now."""
        ahead_ms = max(machine.wall_offsets_ms[1] for machine in self.machines.values())
        return EPOCH_WALL_MS + self.timeline.now_ms + ahead_ms

    def _tell_facts(self, facts: Sequence[ParsedRecord]) -> None:
        for each in facts:
            if each.type not in ("", "NoOp"):
                self.tell("the log", each)

    def _history(self) -> ClusterHistory:
        return self.history


class DelayedIsrRequests:
    """The delayed requests for a larger ISR of one run."""

    def __init__(self, world: "ClusterEnvironment", rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def held_ms(self, batch: Batch) -> int:
        """The delay of a request with these proposals, in ms."""
        world, settings = self._world, self._world.settings
        joining = [
            member
            for partition, proposal in batch.items()
            if partition.leading is not None
            for member in proposal.isr
            if member not in partition.leading.assignment.isr
        ]
        # The product promises nothing if a second broker dies before a loss is known.
        may = settings.has_delayed_isr_requests and world.disturbed and not world.holds_still
        may = may and bool(joining)
        if not may or self._rng.randrange(ONE_IN):
            return 0
        world.note("a broker dies before it joins the ISR, and the request is late")
        # Not within the turn of the leader.
        world.timeline.after(0, partial(self._end, ReplicaId(joining[0])))
        return settings.session_timeout_ms + self._rng.randrange(LATER_MS_MAX)

    def _end(self, victim: ReplicaId) -> None:
        self._world.kill(victim)
        self._world.boot_soon(victim)

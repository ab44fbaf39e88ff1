"""Everything of a simulated quorum that outlives its processes.

Virtual time, the trace, the network, the machines and the checkers. A process lives in an
environment; `chaos.simulation.world` starts and ends processes in it. Everything random comes from
a stream of its own, so that one fault less does not change the draws of all the others.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from chaos.invariants.cross_node import CrossNodeInvariants, VoterChangeInvariant
from chaos.invariants.durable_state import DurableState
from chaos.invariants.history import History
from chaos.invariants.quorum import QuorumInvariants
from chaos.network.gossip import AddressDirectory
from chaos.network.virtual_network import Network
from chaos.simulation.machine import EPOCH_WALL_MS, FOLDER, LOG, Machine
from chaos.simulation.own_machine import OwnClient, OwnMachineHistory
from chaos.simulation.profile import CALM, Fault, Profile, Rates
from chaos.simulation.runtime import Timeline, Trace, below
from quorum.core.vocabulary import ReplicaId
from quorum.persistent_state import QuorumConfig

CLUSTER_ID: Final = "AAAAAAAAQACAAAAAAAAAAQ"
KRAFT_VERSION: Final = 1
SLOW_WRITING_MS: Final = 1_500
LATENESS_MS_MAX: Final = 30_000


class Environment(ABC):
    """The environment of one run. `disturbed`: the profile's fault rates apply."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.timeline = Timeline()
        self.trace = Trace()
        voters = [ReplicaId(each) for each in range(1, profile.voters + 1)]
        observers = [ReplicaId(100 + each) for each in range(profile.observers)]
        self.voters, self.everyone = voters, [*voters, *observers]
        self.invariants = QuorumInvariants(voters, self._history())
        fetch_timeout_ms = profile.timeouts.fetch_timeout_ms
        self.cross_node = CrossNodeInvariants(self.invariants, profile.timeouts, self.note)
        self.voter_changes = VoterChangeInvariant(self.invariants.voter_sets, fetch_timeout_ms)
        self.network = Network(self.timeline, self._stream("network"), self.note)
        self.directory = AddressDirectory(self.everyone, self.network, self._stream("town"))
        self.machines = {each: self._machine(each) for each in self.everyone}
        self.rates: Rates = CALM
        self.on_told: Callable[[ReplicaId], None] = lambda _: None
        """Called when a replica has learned of a higher high watermark."""
        own, stream = profile.machine, self._stream("own machine")
        self.own_client = None if own is None else OwnClient(own, stream)
        """The clients of a user's state machine, if one is run."""
        self._rng = self._stream("world")

    @property
    def disturbed(self) -> bool:
        """True while the profile's fault rates apply."""
        return self.rates is not CALM

    def disturb(self, rates: Rates) -> None:
        """Apply these fault rates from now on; `CALM` ends all of them."""
        self.rates = self.network.rates = rates

    @abstractmethod
    def kill(self, replica: ReplicaId) -> object:
        """End a process."""

    @abstractmethod
    def boot_soon(self, replica: ReplicaId) -> None:
        """Start a process anew before long."""

    @abstractmethod
    def has_died(self, replica: ReplicaId, in_turn: bool) -> None:
        """A process ended by itself, at a moment chosen by the nemesis."""

    @abstractmethod
    def has_failed(self, replica: ReplicaId) -> None:
        """A process ended because of its disk."""

    @abstractmethod
    def has_written(self, replica: ReplicaId) -> None:
        """A process has finished a disk operation: more may be durable."""

    def note(self, what: str) -> None:
        """Count an event."""
        self.trace.counts[what] += 1

    def tell(self, who: object, what: object) -> None:
        """Add an event to the trace."""
        self.trace.add(self.timeline.now_ms, who, what)

    # --- how long things take ----------------------------------------------------------------

    def writing_ms(self, machine: Machine) -> int:
        """The duration of the next disk operation."""
        writing_ms = below(self._rng, self.rates.flush_ms_max + 1)
        if self.timeline.now_ms < machine.slow_until_ms:
            self.note("a disk is slow")
            writing_ms += SLOW_WRITING_MS
        return writing_ms

    def reporting_ms(self) -> int:
        """The delay of its completion report."""
        return self._drawn(self.rates.report_ms_max)

    def gathering_ms(self) -> int:
        """The time that a replica that was woken waits for more input."""
        return self._drawn(self.rates.turn_ms_max)

    def lateness_ms(self) -> int:
        """The lateness of the next timer."""
        if not self.rates.late_timers or self._rng.random() >= self.rates.late_timers:
            return 0
        self.note("a timer is late")
        return self._rng.randrange(LATENESS_MS_MAX)

    def _drawn(self, ms_max: int) -> int:
        return below(self._rng, ms_max + 1) if ms_max else 0

    def wall_ms(self, machine: Machine) -> int:
        """The time of day by a machine's clock."""
        return EPOCH_WALL_MS + self.timeline.now_ms + machine.wall_offset_ms

    # --- the parts ----------------------------------------------------------------------------

    def _stream(self, name: str) -> random.Random:
        return random.Random(f"{self.profile.seed}/{name}")

    def _history(self) -> History:
        own = self.profile.machine
        return History() if own is None else OwnMachineHistory(own)

    def _machine(self, replica: ReplicaId) -> Machine:
        profile, address_of = self.profile, self.directory.address_of
        is_late = profile.is_late and replica == self.everyone[-1]
        founders = [replica] if is_late else self.voters
        config = QuorumConfig(
            node_id=replica,
            cluster_id=CLUSTER_ID if profile.names_cluster else None,
            folder=FOLDER,
            voters={each: None if profile.asks_around else address_of(each) for each in founders},
            advertised=address_of(replica),
            bootstrap=profile.bootstrap,
            timeouts=profile.timeouts,
            bounds=profile.bounds,
            segment_bytes=profile.segment_bytes,
            kraft_version=KRAFT_VERSION,
            snapshots=profile.snapshots,
        )
        durable = DurableState(LOG, self.invariants.history)
        is_old = Fault.UPGRADE in profile.faults
        return Machine(config, self._stream(f"machine {replica}"), durable, is_old=is_old)

    def move(self, replica: ReplicaId) -> None:
        """Give a replica another address for its next start; its configuration advertises it."""
        self.directory.move(replica)
        machine = self.machines[replica]
        machine.config = replace(machine.config, advertised=self.directory.address_of(replica))

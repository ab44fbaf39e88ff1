"""Data loss of one broker: unsynced writes, or the whole disk.

`DataLosses` strikes one broker while the other in-sync replicas have everything and nothing in
flight could make it the only one; the product promises that nothing acknowledged is lost then.
`SuddenLosses` strikes at any moment: with eligible leader replicas (KIP-966) and min ISR 2 nothing
acknowledged depends on one broker. Two exceptions: no other process ends until the cluster is whole
again, and a broker that is the only known holder of a partition is spared.
"""

import random
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from chaos.cluster.broker.process import BrokerProcess
from chaos.cluster.invariants.model import NOBODY, Part
from chaos.cluster.profile import KEPT
from chaos.cluster.world import ClusterWorld
from chaos.nemesis.nemesis import Nemesis
from chaos.nemesis.operator import Operator
from chaos.network.virtual_network import STRAGGLING_MS_MAX
from chaos.simulation.profile import BETWEEN_TWO, NEEDS, Fault, Profile, Strike
from quorum.core.vocabulary import ReplicaId

STILL_MS_MAX: Final = 25_000
"""The longest wait for a quiet moment; in some runs it does not come."""
BACK_MS_MAX: Final = 25_000
"""The longest wait for the struck broker to register again."""


class Run(Protocol):
    """The run that is struck."""

    @property
    def cluster(self) -> ClusterWorld:
        """Its world."""
        ...

    @property
    def operator(self) -> Operator:
        """Its operator."""
        ...

    @property
    def profile(self) -> Profile:
        """The profile that was drawn from its seed."""
        ...

    @property
    def is_quiet(self) -> bool:
        """True if no client waits for an answer."""
        ...

    def pass_ms(self, ms: int) -> None:
        """Let time pass."""
        ...

    def reach(self, is_reached: Callable[[], bool], failure: str) -> None:
        """Let time pass until the condition holds; else the run has failed."""
        ...


class DataLosses:
    """Data losses at quiet moments; `strike` takes some virtual time."""

    def __init__(self, simulation: Run, rng: random.Random) -> None:
        self._simulation = simulation
        self._world = simulation.cluster
        self._rng = rng
        self._marks = random.Random(f"{simulation.profile.seed}/marks")

    def strike(self) -> None:
        """Wait for a quiet moment, strike, and wait until the loss is known."""
        world = self._world
        world.make_whole()
        world.holds_still = True
        self._simulation.pass_ms(STRAGGLING_MS_MAX)
        if self._waits(self._is_still, STILL_MS_MAX):
            victims = [each for each in world.brokers if self._can_do_without(each, self._kept())]
            if victims:
                is_known = self._lose(self._rng.choice(victims))
                self._waits(is_known, BACK_MS_MAX)
            else:
                world.note("nobody can be done without")
        else:
            world.note("no moment for a loss")
        world.holds_still = False

    def _lose(self, victim: ReplicaId) -> Callable[[], bool]:
        """Let a broker lose data; return a test for whether the loss is known."""
        world = self._world
        # Spare the disk of a broker that has the only replica of a partition.
        may_lose_all = self._can_do_without(victim, world.history.model.parts.values())
        epoch = world.history.model.brokers[int(victim)].epoch
        world.records.loses(int(victim))
        loses_all = may_lose_all and self._rng.randrange(3) > 0
        if not (loses_all and self._simulation.operator.lose_disk(victim)):
            self._put_mark_back(victim)
            world.lose_what_is_not_synced(victim)
            world.note("a broker loses its unsynced data")
        else:
            world.folders.loses(victim)
            world.note("a broker loses its disk")

        def is_known() -> bool:
            broker = world.history.model.brokers.get(int(victim))
            return broker is None or broker.epoch != epoch

        return is_known

    def _put_mark_back(self, victim: ReplicaId) -> None:
        """In every other case the lost data include that the mark of its last clean stop was
        removed, as on an older copy of its disk (KIP-966)."""
        mark = self._world.last_marks.get(victim)
        if mark is not None and self._marks.randrange(2):
            self._world.old_marks[victim] = mark
            self._world.note("a broker names an older clean stop")

    def _waits(self, is_reached: Callable[[], bool], ms_max: int) -> bool:
        timeline = self._world.timeline
        return timeline.run_until(is_reached, deadline_ms=timeline.now_ms + ms_max)

    def _kept(self) -> list[Part]:
        model = self._world.history.model
        return [part for (topic, _), part in model.parts.items() if model.topics[topic] == KEPT]

    def _is_still(self) -> bool:
        """True if no client waits, no partition with records moves, and all replicas are in
        sync."""
        if not self._simulation.is_quiet or not all(map(self._world.is_known, self._world.brokers)):
            return False
        return all(
            part.leader != NOBODY and not part.moves and set(part.isr) == set(part.replicas)
            for part in self._kept()
        )

    def _can_do_without(self, victim: ReplicaId, parts: Iterable[Part]) -> bool:
        """True if each of these partitions on the victim has another in-sync replica."""
        return all(
            int(victim) not in part.replicas or self._holders(part) - {int(victim)}
            for part in parts
        )

    def _holders(self, part: Part) -> set[int]:
        """The brokers that have every acknowledged record, by the committed metadata."""
        return {*part.isr}


ENDING_NOBODY: Final = (
    Fault.SPLIT,
    Fault.ISOLATE,
    Fault.DEAF,
    Fault.MUTE,
    Fault.RING,
    Fault.CLOG,
    Fault.RESET,
    Fault.MISLEAD,
    Fault.OUST,
    Fault.HEAL,
    Fault.PAUSE,
    Fault.SLOW_DISK,
    Fault.TRANSFER,
    Fault.CLOCK_JUMP,
)
STRIKES_MAX: Final = 8
SUDDEN_MS_MAX: Final = 6_000
"""The time for faults before and after the loss."""


class SuddenLosses(DataLosses):
    """Data losses at any moment; `strike` takes some virtual time."""

    def __init__(self, simulation: Run, rng: random.Random) -> None:
        super().__init__(simulation, rng)
        voters = len(self._world.voters)
        self._kinds = [
            each
            for each in ENDING_NOBODY
            if voters >= NEEDS.get(each, 2 if each in BETWEEN_TWO else 1)
        ]

    def strike(self) -> None:
        """Heal the cluster, inject faults and one loss, and wait until it is whole again."""
        world, simulation, rng = self._world, self._simulation, self._rng
        self._recovers()
        world.disturb(simulation.profile.rates)
        Nemesis(world, simulation.operator).begin(tuple(self._strikes()))
        world.timeline.after(rng.randrange(SUDDEN_MS_MAX), self._lose_suddenly)
        simulation.pass_ms(SUDDEN_MS_MAX)
        self._recovers()

    def _recovers(self) -> None:
        self._world.make_whole()
        self._simulation.reach(self._is_whole, "after a loss, not all replicas are in sync again")

    def _strikes(self) -> list[Strike]:
        rng, everyone = self._rng, len(self._world.everyone)
        return [
            Strike(
                rng.randrange(SUDDEN_MS_MAX),
                rng.choice(self._kinds),
                rng.randrange(everyone),
                rng.randrange(1_000),
            )
            for _ in range(rng.randrange(1, STRIKES_MAX + 1))
        ]

    def _lose_suddenly(self) -> None:
        brokers = self._world.brokers
        victims = [each for each in brokers if self._can_do_without(each, self._kept())]
        if victims and all(map(self._is_itself, brokers)):
            self._lose(self._rng.choice(victims))
            self._world.note("a broker loses data amid other faults")
        else:
            self._world.note("nobody can be done without")

    def _is_whole(self) -> bool:
        """True if all brokers are registered and all replicas of the kept topic are in sync."""
        return all(map(self._world.is_known, self._world.brokers)) and all(
            set(part.isr) == set(part.replicas) for part in self._kept()
        )

    def _is_itself(self, replica: ReplicaId) -> bool:
        """True if the running process is the registered incarnation, fenced or not."""
        broker = self._world.history.model.brokers.get(int(replica))
        process = self._world.process_of(replica)
        return (
            broker is not None
            and isinstance(process, BrokerProcess)
            and broker.epoch == process.broker_epoch
        )

    def _holders(self, part: Part) -> set[int]:
        return {*part.isr, *part.elr}

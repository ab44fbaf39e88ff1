"""A broker loses what it has written, or its whole disk, in the middle of everything else.

With eligible leader replicas (KIP-966) and min ISR 2 nothing acknowledged depends on one broker: at
no moment, whoever is in sync then, wherever its partition is on its way to, and whatever becomes of
links, clocks and leads until the loss is known. So it may strike at any moment, but for two: others
end no process until all is whole again, as who starts anew uncleanly is not believed either; and
nobody is struck whom the metadata already has for the only one.
"""

import random
from typing import TYPE_CHECKING, Final

from chaos.cluster.broker import BrokerProcess
from chaos.cluster.losses import Losses
from chaos.cluster.parts import Part
from chaos.faults import BETWEEN_TWO, NEEDS, Fault, Strike
from chaos.nemesis import Nemesis
from quorum.core.vocabulary import ReplicaId

if TYPE_CHECKING:
    from chaos.cluster.simulation import ClusterSimulation

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
"""In which the others strike, and the loss does."""


class SuddenLosses(Losses):
    """Of one run; `strike` takes some virtual time."""

    def __init__(self, simulation: "ClusterSimulation", rng: random.Random) -> None:
        super().__init__(simulation, rng)
        voters = len(self._world.voters)
        self._kinds = [
            each
            for each in ENDING_NOBODY
            if voters >= NEEDS.get(each, 2 if each in BETWEEN_TWO else 1)
        ]

    def strike(self) -> None:
        """Let everybody be well, then much go wrong at once; and see that all is whole again."""
        world, simulation, rng = self._world, self._simulation, self._rng
        self._recovers()
        world.disturb(simulation.profile.rates)
        Nemesis(world, simulation.operator).begin(tuple(self._strikes()))
        world.timeline.after(rng.randrange(SUDDEN_MS_MAX), self._lose_suddenly)
        simulation.pass_ms(SUDDEN_MS_MAX)
        self._recovers()

    def _recovers(self) -> None:
        self._world.make_whole()
        self._simulation.reach(self._is_whole, "not all in sync are so again after a loss")

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
            self._world.note("a broker loses something in the middle of everything else")
        else:
            self._world.note("nobody can be done without")

    def _is_whole(self) -> bool:
        """Whether everybody is known, and all replicas of what is kept are in sync."""
        return all(map(self._world.is_known, self._world.brokers)) and all(
            set(part.isr) == set(part.replicas) for part in self._kept()
        )

    def _is_itself(self, replica: ReplicaId) -> bool:
        """Whether the process that runs there is the one that is registered, fenced or not."""
        broker = self._world.history.model.brokers.get(int(replica))
        process = self._world.process_of(replica)
        return (
            broker is not None
            and isinstance(process, BrokerProcess)
            and broker.epoch == process.broker_epoch
        )

    def _holders(self, part: Part) -> set[int]:
        return {*part.isr, *part.elr}

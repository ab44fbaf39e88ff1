"""What brokers have written of partitions and not synced is lost, or the whole disk is.

The product promises that nothing acknowledged is lost as long as not all that are in sync lose it
at once. So it strikes one broker in a moment in which others have everything, and nothing is on its
way that could make it the only one; until it is known to be another incarnation. Producers go on.
"""

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from chaos.cluster.clients import KEPT
from chaos.cluster.parts import NOBODY, Part
from chaos.network import STRAGGLING_MS_MAX
from quorum.core.vocabulary import ReplicaId

if TYPE_CHECKING:
    from chaos.cluster.simulation import ClusterSimulation

STILL_MS_MAX: Final = 25_000
"""How long it is waited for the moment; in some runs it does not come."""
BACK_MS_MAX: Final = 25_000
"""And for the one who was struck to be registered anew."""


class Losses:
    """Of one run; `strike` takes some virtual time."""

    def __init__(self, simulation: "ClusterSimulation", rng: random.Random) -> None:
        self._simulation = simulation
        self._world = simulation.cluster
        self._rng = rng

    def strike(self) -> None:
        """Wait for the moment, strike, and wait until that is known."""
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
        """Let it lose something; returns what tells whether that is known."""
        world = self._world
        # Who had the only replica of anything waits for its disk to come back.
        may_lose_all = self._can_do_without(victim, world.history.model.parts.values())
        epoch = world.history.model.brokers[int(victim)].epoch
        world.records.loses(int(victim))
        loses_all = may_lose_all and self._rng.randrange(3) > 0
        if not (loses_all and self._simulation.operator.lose_disk(victim)):
            world.lose_what_is_not_synced(victim)
            world.note("a broker loses what it has not synced")
        else:
            world.data.loses(victim)
            world.note("a broker loses its disk")

        def is_known() -> bool:
            broker = world.history.model.brokers.get(int(victim))
            return broker is None or broker.epoch != epoch

        return is_known

    def _waits(self, is_reached: Callable[[], bool], ms_max: int) -> bool:
        timeline = self._world.timeline
        return timeline.run_until(is_reached, deadline_ms=timeline.now_ms + ms_max)

    def _kept(self) -> list[Part]:
        model = self._world.history.model
        return [part for (topic, _), part in model.parts.items() if model.topics[topic] == KEPT]

    def _is_still(self) -> bool:
        """Whether nobody waits for an answer, no partition with records moves, and all is well."""
        if not self._simulation.is_quiet or not all(map(self._world.is_known, self._world.brokers)):
            return False
        return all(
            part.leader != NOBODY and not part.moves and set(part.isr) == set(part.replicas)
            for part in self._kept()
        )

    def _can_do_without(self, victim: ReplicaId, parts: Iterable[Part]) -> bool:
        """Whether others are in sync with whatever of this it has."""
        return all(
            int(victim) not in part.replicas or self._holders(part) - {int(victim)}
            for part in parts
        )

    def _holders(self, part: Part) -> set[int]:
        """Who has all that was acknowledged, as far as is committed."""
        return {*part.isr}

"""Requests for a larger ISR that arrive when who is to join is another incarnation (KIP-903).

Who is about to join dies when it is asked for, and the request is held back until its session is
over and it may be registered anew: what the leader says of it was true of a process that is gone.
"""

import random
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.alter_partition_manager import Batch
from quorum.core.vocabulary import ReplicaId

if TYPE_CHECKING:
    from chaos.cluster.world import ClusterWorld

ONE_IN: Final = 2
LATER_MS_MAX: Final = 2_000
"""After the session of who has died is over, at most."""


class LateProposals:
    """Of one run."""

    def __init__(self, world: "ClusterWorld", rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def held_ms(self, batch: Batch) -> int:
        """How long to hold back what proposes this; 0 is not at all."""
        world, settings = self._world, self._world.settings
        joining = [
            member
            for partition, proposal in batch.values()
            if partition.leading is not None
            for member in proposal.isr
            if member not in partition.leading.isr
        ]
        # Nothing is promised where another one ends uncleanly while a loss is not known yet.
        may = settings.has_late_proposals and world.disturbed and not world.holds_still
        may = may and bool(joining)
        if not may or self._rng.randrange(ONE_IN):
            return 0
        world.note("who is to join the ISR dies, and the request is late")
        # Not within a turn of who asks.
        world.timeline.after(0, partial(self._end, ReplicaId(joining[0])))
        return settings.session_timeout_ms + self._rng.randrange(LATER_MS_MAX)

    def _end(self, victim: ReplicaId) -> None:
        self._world.kill(victim)
        self._world.boot_soon(victim)

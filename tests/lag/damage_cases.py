"""Random combinations of damage to the logs of random quorums, by number, and what is left sound.

A number replays its combination: which nodes' logs were copied, what was done to each, and the
*sound logs*, which are the same copies without damage. A copy that was cut off ends where it was
cut, since a log that is shorter is no damaged log; and where the end of the log is lost in every
copy, the sound logs end before.
"""

import random
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from tests.lag.damage import DamagedCopies, damage_at_random
from tests.lag.random_quorum import RandomQuorum
from tests.lag.small_quorum import Copy, Made
from tests.lag.twins import slow_damaged
from tests.lag.twins.slow_damaged import DamagedQuorum

SEEDS: Final = (1, 17, 31, 40, 41)
"""Of the quorums."""
SEGMENTS: Final = (2, 4, 8)


@lru_cache(maxsize=len(SEEDS))
def quorum_of(seed: int) -> RandomQuorum:
    """A quorum, made once."""
    return RandomQuorum(seed)


@dataclass(frozen=True)
class DamageCase:
    """One combination, and its files."""

    number: int
    seed: int
    damaged: DamagedCopies

    @cached_property
    def quorum(self) -> DamagedQuorum:
        """The twins' account of what is left."""
        reached = [self.damaged.reached(name) for name in self.damaged.files]
        best = max(reached, key=lambda own: (own[-1].epoch, own[-1].end) if own else (0, 0))
        left, damaged = slow_damaged.replicas(self.damaged), slow_damaged.unread(self.damaged)
        return DamagedQuorum(left, end=best[-1].end, unread=damaged)

    @property
    def left(self) -> int:
        """The end of what is known of the quorum's log."""
        holes = self.quorum.holes.holes
        return holes[-1].first if holes and holes[-1].after_ms is None else self.quorum.end

    def sound(self) -> list[Copy]:
        """The copies without damage."""
        found = []
        for name, copy in self.damaged.copies.items():
            reached = self.damaged.reached(name) or self.damaged.indexed(name)
            own: list[Made] = [each for each in reached if each.end <= self.left]
            if own and (self.damaged.intact(name) or self.damaged.indexed(name)):
                found.append(Copy(name, own, [own], copy.is_timed, copy.meta))
        return found

    @property
    def is_whole(self) -> bool:
        """True if no record is lost."""
        return not self.quorum.holes.holes


def damage_case(number: int, root: Path) -> DamageCase:
    """The combination with this number, below `root`."""
    rng = random.Random(number)
    seed = rng.choice(SEEDS)
    names = rng.sample(range(1, 10), rng.choice((3, 3, 4, 5)))
    copies = quorum_of(seed).copies(sorted(names))
    for copy in copies:
        copy.divide(rng, len(copy.batches) // rng.choice(SEGMENTS) + 1)
    damaged = DamagedCopies.of(copies, root)
    log = max(copies, key=lambda copy: copy.last).batches
    damage_at_random(rng, damaged, log)
    damaged.apply()
    return DamageCase(number, seed, damaged)

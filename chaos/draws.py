"""Numbers drawn at random, one by one, by the million: what `Random.randrange` draws, and quickly.

The draws are those of `randrange`, from the same bits, without what it looks at each time before.
"""

import random


def below(rng: random.Random, stop: int) -> int:
    """One of 0 to `stop` - 1, each as likely as any other; what `rng.randrange(stop)` draws."""
    assert stop > 0
    bits = stop.bit_length()
    drawn = rng.getrandbits(bits)
    while drawn >= stop:
        drawn = rng.getrandbits(bits)
    return drawn


class CoarseRandom(random.Random):
    """The randomness of one node; made coarse, nodes often draw the same time."""

    coarse = False

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Like that of any other, but of some wide ranges only the ends when coarse."""
        if stop is not None:
            return super().randrange(start, stop, step)
        drawn = below(self, start)
        return drawn - drawn % max(1, start // 2) if self.coarse else drawn

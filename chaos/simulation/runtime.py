"""Virtual time, seeded randomness and the event trace of a run.

Two runs of one seed are equal because nothing else is a source of time or chance.
"""

import random
from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Final, TypeAlias

from chaos.violation import Violation

EVENTS_AT_ONCE_MAX: Final = 5_000
"""Events of one millisecond. More of them are nodes that keep each other busy for ever."""

Happening: TypeAlias = Callable[[], None]


class Timeline:
    """A queue of events in virtual time; events of one moment run in the order of their
    scheduling."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._heap: list[tuple[int, int, Happening]] = []
        self._put = 0
        self._at_once = 0
        """The number of events in this millisecond."""

    def after(self, delay_ms: int, happen: Happening) -> None:
        """Run this once after a delay; at 0 it runs after everything that is due now."""
        assert delay_ms >= 0
        self._put += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._put, happen))

    def run_until(self, is_over: Callable[[], bool], *, deadline_ms: int) -> bool:
        """Run events in order; False if the deadline came before it was over."""
        heap = self._heap
        while not is_over():
            at_ms, _, happen = heap[0]
            if at_ms != self.now_ms:
                if at_ms > deadline_ms:
                    self.now_ms = deadline_ms
                    return False
                self.now_ms, self._at_once = at_ms, 0
            heappop(heap)
            self._at_once += 1
            if self._at_once > EVENTS_AT_ONCE_MAX:
                raise Violation("liveness", "the nodes keep each other busy without end")
            happen()
        return True


EVENTS_KEPT: Final = 200
HASHED_AT_ONCE: Final = 1_000


class Trace:
    """The events of a run; the text of an event is made only if it is read."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """The number of events of each kind."""
        self.roles: Counter[type] = Counter()
        """The number of turns of nodes in each role."""
        self.added = 0
        """The number of all events."""
        self._last: deque[tuple[int, object, object]] = deque(maxlen=EVENTS_KEPT)
        self._hash = blake2b(digest_size=16)
        self._untold: list[str] = []
        """What is still to go into the hash: of much at once, that costs less."""

    def add(self, now_ms: int, who: object, what: object, *facts: int) -> None:
        """Add an event of immutable things; `facts` stand for them in the hash."""
        self.added += 1
        self._last.append((now_ms, who, what))
        self._untold.append(f"{now_ms} {facts or (str(who), str(what))}")
        if len(self._untold) == HASHED_AT_ONCE:
            self._hash_untold()

    def _hash_untold(self) -> None:
        self._hash.update("".join(self._untold).encode())
        self._untold.clear()

    @property
    def trace_hash(self) -> str:
        """A hash that is equal for two runs with the same events at the same times."""
        self._hash_untold()
        return self._hash.hexdigest()

    def last_events(self) -> str:
        """The last events, one a line."""
        return "\n".join(f"{now_ms:>8} {who}: {what}" for now_ms, who, what in self._last)


def below(rng: random.Random, stop: int) -> int:
    """A uniform number from 0 to `stop` - 1: the same draw as `rng.randrange(stop)`, but faster."""
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
        """Draw like any other generator, but only the ends of wide ranges when coarse."""
        if stop is not None:
            return super().randrange(start, stop, step)
        drawn = below(self, start)
        return drawn - drawn % max(1, start // 2) if self.coarse else drawn

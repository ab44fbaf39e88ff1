"""What happened in a run: its last events for a reader, and a hash of all of them for a replay."""

from collections import Counter, deque
from hashlib import blake2b
from typing import Final

EVENTS_KEPT: Final = 200
HASHED_AT_ONCE: Final = 1_000


class Story:
    """Told by the world as it goes; the text of an event is made only if somebody reads it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How often each kind of thing has happened."""
        self._last: deque[tuple[int, object, object]] = deque(maxlen=EVENTS_KEPT)
        self._hash = blake2b(digest_size=16)
        self._untold: list[str] = []
        """What is still to go into the hash: of much at once, that costs less."""

    def tell(self, now_ms: int, who: object, what: object, *facts: int) -> None:
        """Add an event, of things that do not change; `facts` stand for them in the hash."""
        self._last.append((now_ms, who, what))
        self._untold.append(f"{now_ms} {facts or (str(who), str(what))}")
        if len(self._untold) == HASHED_AT_ONCE:
            self._hash_untold()

    def _hash_untold(self) -> None:
        self._hash.update("".join(self._untold).encode())
        self._untold.clear()

    @property
    def trace_hash(self) -> str:
        """Equal for two runs in which the same things happened at the same times."""
        self._hash_untold()
        return self._hash.hexdigest()

    def last_events(self) -> str:
        """The last events, one a line."""
        return "\n".join(f"{now_ms:>8} {who}: {what}" for now_ms, who, what in self._last)

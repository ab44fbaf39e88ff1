"""When the answers of the active controller may leave. It decides nothing.

An answer leaves when everything it rests on is committed: its own records, and for an answer
without records all that the image held when it was given. It never leaves before.

What is read must not be stale: another controller may be the active one, and this one not know it.
So a query waits, unless a stale answer will do, until the quorum has proved that this node still
leads (`quorum.core.read_index`); a command that changes nothing tells what it read, and waits as
well where the asker needs that to be true now. What brokers ask all the time does not: they ask
again.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from controller.ports import UNPROVED, RaftClient, Unavailable
from quorum.core.effects import ReadRefusal
from quorum.core.vocabulary import Offset
from quorum.metadata_loader import MetadataLoader
from statemachine.image.image import Image

WAITING_ANSWERS_MAX: Final = 100_000

_Waiting: TypeAlias = tuple[Offset, Any, Callable[[Any], None]]
"""Up to where it must be committed, what is then answered, and to whom."""


class DeferredEventQueue:
    """The answers that wait until what they rest on is committed, in the order of their offsets."""

    def __init__(self, replaying: MetadataLoader[Image]) -> None:
        """They rest on the image of `replaying`, and leave when that much of it is committed."""
        self._replaying = replaying
        self._waiting: deque[_Waiting] = deque()

    @property
    def are_full(self) -> bool:
        """Whether there is no room for another one."""
        return len(self._waiting) >= WAITING_ANSWERS_MAX

    def settle(self, answer: Any, done: Callable[[Any], None]) -> None:
        """Let the answer leave when everything that the image holds now is committed."""
        image_end = self._replaying.image.end_offset
        if image_end <= self._replaying.end:
            done(answer)
        else:
            self._waiting.append((Offset(image_end), answer, done))

    def prove(self, answer: Any, done: Callable[[Any], None], quorum: RaftClient) -> None:
        """As `settle`, but first let the quorum prove that this node leads."""
        read_end = self._replaying.image.end_offset

        def proved(outcome: Offset | ReadRefusal) -> None:
            if isinstance(outcome, ReadRefusal):
                done(UNPROVED[outcome])
            elif read_end <= self._replaying.end:
                done(answer)
            else:
                self.settle(answer, done)

        quorum.read_index(proved)

    def leave(self) -> None:
        """More is committed: let those go that rest on nothing else."""
        while self._waiting and self._waiting[0][0] <= self._replaying.end:
            _, answer, done = self._waiting.popleft()
            done(answer)

    def lose(self) -> None:
        """The lead is lost, and with it what is not committed: whether it was done is unknown."""
        lost, self._waiting = self._waiting, deque()
        for _, _, done in lost:
            done(Unavailable.LEAD_LOST)

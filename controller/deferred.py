"""Deferred answers of the active controller: each waits for the commit of its records.

An answer depends on its own records or, without records, on everything in the image at that time.

A linearizable query also waits until the quorum has proved that this node still leads
(`quorum.core.read_index`), and so does a command without records if its client needs that. Requests
of brokers do not: brokers repeat them.
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
"""The offset that must be committed, the answer, and its callback."""


class DeferredEventQueue:
    """The waiting answers, in order of the offsets that they wait for."""

    def __init__(self, loader: MetadataLoader[Image]) -> None:
        """`loader` has the image and its committed end."""
        self._loader = loader
        self._waiting: deque[_Waiting] = deque()

    @property
    def is_full(self) -> bool:
        """True if the queue takes no further answer."""
        return len(self._waiting) >= WAITING_ANSWERS_MAX

    def settle(self, answer: Any, done: Callable[[Any], None]) -> None:
        """Give the answer once everything in the present image is committed."""
        image_end = self._loader.image.end_offset
        if image_end <= self._loader.end:
            done(answer)
        else:
            self._waiting.append((Offset(image_end), answer, done))

    def prove(self, answer: Any, done: Callable[[Any], None], quorum: RaftClient) -> None:
        """Give the answer once the quorum has proved that this node leads, and it is committed."""
        read_end = self._loader.image.end_offset

        def proved(outcome: Offset | ReadRefusal) -> None:
            if isinstance(outcome, ReadRefusal):
                done(UNPROVED[outcome])
            elif read_end <= self._loader.end:
                done(answer)
            else:
                self.settle(answer, done)

        quorum.read_index(proved)

    def leave(self) -> None:
        """Give the answers that are committed now."""
        while self._waiting and self._waiting[0][0] <= self._loader.end:
            _, answer, done = self._waiting.popleft()
            done(answer)

    def lose(self) -> None:
        """Fail every waiting answer: the lead is lost, and the outcome unknown."""
        lost, self._waiting = self._waiting, deque()
        for _, _, done in lost:
            done(Unavailable.LEAD_LOST)

"""Queries of the image of a controller: when they read, and when they are answered.

A query waits while the image lags behind its log. A long one reads in slices and still sees one
state: on the active controller between decisions, on any other one between strides of replay. It
is answered once what it saw is committed and, unless it may be stale, once the lead is proved.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from controller.deferred import DeferredEventQueue
from controller.event_queue import SLICE_US, WAITING_PIECES_MAX, ControllerEventQueue
from controller.ports import RaftClient, Unavailable
from controller.record_appender import RecordAppender
from quorum.metadata_loader import MetadataLoader
from statemachine.image.image import Image
from statemachine.slices import Slices

T = TypeVar("T")
ReadCallback = Callable[[T | Unavailable], None]
"""Called with the result, or the reason why there is none."""

BEHIND_TURNS_MAX: Final = 100
"""Turns that a long query waits at most for the image to catch up: some hundred milliseconds of
replay, about as long as the query itself. So queries and replay do not starve each other."""


class ReadQueue:
    """Queries of one image."""

    def __init__(
        self,
        image: Image,
        *,
        replaying: MetadataLoader[Image],
        answers: DeferredEventQueue,
        appending: RecordAppender,
        slicing: ControllerEventQueue,
    ) -> None:
        """`replaying` changes the image while this node is not the active controller."""
        self.is_reading = False
        """True during a long query: the image must not change."""
        self._image = image
        self._replaying = replaying
        self._answers = answers
        self._appending = appending
        self._slicing = slicing
        self._waiting: deque[tuple[Callable[[], None], Callable[[Unavailable], None]]] = deque()

    def look(
        self, read: Callable[[Image], T], done: ReadCallback[T], quorum: RaftClient | None
    ) -> None:
        """Read now or once the image is complete; a stale query has no `quorum`."""
        if self._answers.are_full:
            done(Unavailable.OVERLOADED)
        elif not self._appending.is_halfway:
            self._tell(read(self._image), done, quorum)
        elif len(self._waiting) >= WAITING_PIECES_MAX:
            done(Unavailable.OVERLOADED)
        else:
            self._waiting.append((partial(self.look, read, done, quorum), done))

    def look_long(
        self,
        reading: Callable[[Image], Slices[T]],
        done: ReadCallback[T],
        quorum: RaftClient | None,
    ) -> None:
        """Read in slices, after everything that was asked for before."""
        if self._answers.are_full or self._slicing.is_full:
            done(Unavailable.OVERLOADED)
        else:
            work = self._read_long(reading, done, quorum)
            self._slicing.add(work, partial(done, Unavailable.NOT_ACTIVE))

    def _read_long(
        self,
        reading: Callable[[Image], Slices[T]],
        done: ReadCallback[T],
        quorum: RaftClient | None,
    ) -> Slices[None]:
        for _ in range(BEHIND_TURNS_MAX):
            if not self._replaying.is_behind:
                break
            yield SLICE_US
        self.is_reading = True
        try:
            found = yield from reading(self._image)
        finally:
            self.is_reading = False
        self._tell(found, done, quorum)

    def go_on(self) -> Slices[None]:
        """Run the queries that waited until the image was complete."""
        while self._waiting:
            look, _ = self._waiting.popleft()
            look()
            # It may have taken its time.
            yield SLICE_US

    def lose(self) -> None:
        """Refuse the waiting queries: this node is not the active controller any more."""
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(Unavailable.NOT_ACTIVE)

    def _tell(self, found: T, done: ReadCallback[T], quorum: RaftClient | None) -> None:
        def tell(outcome: T | Unavailable) -> None:
            done(Unavailable.NOT_ACTIVE if outcome is Unavailable.LEAD_LOST else outcome)

        if quorum is None:
            self._answers.settle(found, tell)
        else:
            self._answers.prove(found, tell, quorum)

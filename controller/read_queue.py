"""Who looks at the image of a controller, when, and when what was seen may be told.

A look at an image that lags behind its log waits until it does no more. What takes long to read is
read in slices, and at one moment as well: on the active controller between decisions, on any other
one between the strides in which it takes in what is committed. What was seen is told when it is
committed and, unless a stale look will do, when it is proved that this node leads.
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
"""Called with what was seen, or why nothing is told."""

BEHIND_TURNS_MAX: Final = 100
"""Turns that a long look lets pass before it begins, while the image is behind what is committed:
time for some hundred milliseconds of replay, about what a long look itself takes at most. So those
who look all the time do not keep the image from following, nor it them from an answer."""


class ReadQueue:
    """Looks at one image."""

    def __init__(
        self,
        image: Image,
        *,
        replaying: MetadataLoader[Image],
        answers: DeferredEventQueue,
        appending: RecordAppender,
        slicing: ControllerEventQueue,
    ) -> None:
        """`replaying` is what changes the image while this node is not the active controller."""
        self.is_reading = False
        """Whether a long look is under way: the image must not change before it has ended."""
        self._image = image
        self._replaying = replaying
        self._answers = answers
        self._appending = appending
        self._slicing = slicing
        self._waiting: deque[tuple[Callable[[], None], Callable[[Unavailable], None]]] = deque()

    def look(
        self, read: Callable[[Image], T], done: ReadCallback[T], quorum: RaftClient | None
    ) -> None:
        """Read now, or when the image is whole; without a `quorum` to prove it a stale look."""
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
        """As `look`, in slices, after what was asked for before."""
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
        """The image is whole again: whoever has waited for that looks."""
        while self._waiting:
            look, _ = self._waiting.popleft()
            look()
            # It may have taken its time.
            yield SLICE_US

    def lose(self) -> None:
        """This node is not the active controller any more: those who wait may ask another."""
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

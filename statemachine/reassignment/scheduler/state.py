"""The state that the reassignment scheduler keeps between decisions, outside the image.

The active controller owns one `Scheduler` and passes it to each decision. A new controller begins
with an empty one: its content follows from the image.
"""

from pyroaring import BitMap

from statemachine.image.delta import SchedulerDelta
from statemachine.image.image import Image
from statemachine.reassignment.scheduler.queue import ReassignmentQueue, keys_in_order, refresh
from statemachine.slices import Slices


class Scheduler:
    """The queue of waiting partitions and the backlog, of one image."""

    __slots__ = ("_backlog", "_delta", "_queue")

    def __init__(self, image: Image | None = None) -> None:
        """Follow the changes of `image`; without an image it serves a single decision."""
        self._queue: ReassignmentQueue | None = None
        self._backlog: BitMap | None = None
        self._delta = SchedulerDelta()
        if image is not None:
            image.index.delta = self._delta

    @property
    def has_queue(self) -> bool:
        """True while a queue is kept: partitions have waited, and moves may be paused."""
        return self._queue is not None and not self._delta.is_lost

    @property
    def backlog(self) -> BitMap | None:
        """The keys that the scan has not reached yet; None before it begins."""
        if self._delta.is_lost or self._delta.has_eligibility:
            return None
        return self._backlog

    def begin_backlog(self, keys: BitMap) -> BitMap:
        """Begin a scan of the partitions with these keys."""
        self._renew()
        self._delta.has_eligibility = False
        self._backlog = keys
        return keys

    def drop_queue(self) -> None:
        """Drop the queue, because nothing is being reassigned."""
        self._queue = None
        self._delta.clear(is_kept=False)

    def queue_of(self, image: Image) -> Slices[ReassignmentQueue]:
        """Return the queue, up to date with the image."""
        self._renew()
        if self._queue is None:
            keys = yield from keys_in_order(image)
            self._queue = ReassignmentQueue(keys)
        else:
            self._queue.mark_by(self._delta)
        self._delta.clear(is_kept=True)
        yield from refresh(self._queue, image)
        return self._queue

    def _renew(self) -> None:
        if self._delta.is_lost:
            self._queue = self._backlog = None
            self._delta.is_lost = False

"""The cost for a controller of fencing a broker with thousands of partitions.

The benchmark does the work of one controller (decide, write, replay) in this process, in the same
slices as the product, without quorum and disk. The step `fence` of `bench.partitions` measures the
same with both, in a cluster that has no other partitions.
"""

from collections.abc import Callable
from time import process_time
from typing import NamedTuple

from bench.faults import RunFailed
from controller.event_queue import ControllerEventQueue
from controller.record_appender import REPLAYED_US, batching
from statemachine.commands import FenceBrokers
from statemachine.decide import deciding
from statemachine.image.image import Image
from statemachine.replay import replay
from statemachine.slices import Slices
from statemachine.vocabulary import NO_LEADER, BrokerId


class Fenced(NamedTuple):
    """The processor time of each part."""

    seconds: float
    stop_ms: float
    """The longest slice."""
    held: int
    """The number of partitions that had a replica on the broker."""
    led: int
    """The number of those that it led."""


class _Turns:
    """A queue of callbacks, and the time that each took."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []
        self.seconds: list[float] = []

    def take(self) -> None:
        """Run the callbacks in order until the queue is empty."""
        while self._due:
            call = self._due.pop()
            self.timed(call)

    def later(self, call: Callable[[], None]) -> None:
        """Add a callback to the queue."""
        self._due.append(call)

    def timed(self, call: Callable[[], None]) -> None:
        """Call it now and record its time."""
        begun = process_time()
        call()
        self.seconds.append(process_time() - begun)


def fence(image: Image, broker_id: BrokerId) -> Fenced:
    """Fence the broker; raises `RunFailed` unless all its partitions have a new leader."""
    index = image.index
    held, led = index.count(index.replicas_of, broker_id), index.count(index.leader_of, broker_id)
    image.begin_undo_log(image.end_offset)
    turns = _Turns()
    slicing = ControllerEventQueue(turns.later)
    turns.timed(lambda: slicing.add(_fencing(image, broker_id), _never_lost))
    turns.take()
    image.committed(image.end_offset)
    image.end_undo_log()
    left = index.count(index.leader_of, broker_id) + index.count(index.leader_of, NO_LEADER)
    if left:
        raise RunFailed(f"{left} partitions have no leader after broker {broker_id} was fenced")
    return Fenced(sum(turns.seconds), max(turns.seconds) * 1e3, held, led)


def _fencing(image: Image, broker_id: BrokerId) -> Slices[None]:
    decision = yield from deciding(image, FenceBrokers(broker_ids=(broker_id,)))
    batches = yield from batching(decision.records, image.level)
    assert batches is not None, "it fits into one decision"
    for batch in batches:
        for record in batch.records:
            replay(image, record, image.end_offset)
            yield REPLAYED_US


def _never_lost() -> None:
    raise AssertionError("no other broker can become leader")

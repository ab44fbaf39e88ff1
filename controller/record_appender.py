"""The records of a decision on their way into the log and the image of the active controller.

Batch after batch is proposed, and replayed in slices: what is more than one is a transaction, so
that, when the lead is lost in between, nothing of it counts. Until the last one is replayed nothing
may be decided on the image, nobody may look at it, and what the quorum says of later offsets waits.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controller.decision_batches import Batch
from controller.deferred import Answers
from controller.metadata_loader import Replaying
from controller.quorum_port import Proposing
from quorum.core.vocabulary import Offset
from quorum.ports import Clock
from statemachine.bulk import replay_isrs, replay_values
from statemachine.isr_changes import IsrChanges
from statemachine.partition import Partition as PartitionValue
from statemachine.records import Partition, RemoveTopic
from statemachine.replay import replay_decided
from statemachine.slices import Slices

REPLAYED_US: Final = 6
"""To replay one record of a decision."""
REMOVED_US: Final = 500
"""To replay one that removes a topic, with a thousand partitions."""
_REFUSED_US: Final = 1_000_000
"""More than any slice: nothing can be done before others have had their turn."""
_AT_ONCE: Final = 16
"""Records that are replayed before anybody is asked whether to go on."""
TOGETHER_US: Final = 2
"""To replay one of many new partitions."""
ISR_REPLAYED_US: Final = 2
"""To replay one of many ISRs."""
_TOGETHER: Final = 128
"""The same of new partitions."""


class Appending:
    """What the active controller appends, and what it has been told of it."""

    def __init__(self, replaying: Replaying, answers: Answers, clock: Clock) -> None:
        self._replaying = replaying
        self._answers = answers
        self._clock = clock
        self.last_ms = 0
        """When something was appended last."""
        self._start: Offset | None = None
        self._high_watermark = Offset(0)
        self._end = Offset(0)

    @property
    def is_halfway(self) -> bool:
        """Whether the image lacks something that is in the log."""
        return self._start is not None

    def append(
        self,
        quorum: Proposing,
        batches: list[Batch],
        decided: Mapping[int, PartitionValue] = MappingProxyType({}),
    ) -> Slices[None]:
        """Propose these batches, which the quorum accepts, and replay what they say.

        They go one by one, and none is left: to let all of them go together would take long.
        `decided` is what they make of partitions.
        """
        image = self._replaying.image
        self.last_ms = self._clock()
        batches.reverse()
        while batches:
            batch = batches.pop()
            while not quorum.accepts(len(batch.values)):
                # The lead is being handed over, or the disk is full: it is lost, or goes on.
                yield _REFUSED_US
            self._take_end()
            base = quorum.propose(batch.values)
            assert base == image.end_offset, f"{base}, not {image.end_offset}"
            self._start = base if self._start is None else self._start
            if isinstance(batch.records, IsrChanges):
                yield from self._replay_isrs(batch.records, base)
            elif len(batch.values) >= _TOGETHER and _says_partitions(batch):
                yield from self._replay_together(batch, base)
            else:
                yield from self._replay(batch, base, decided)
        self._take_end()
        self._start = None
        if self._high_watermark > self._replaying.end:
            self.committed(self._high_watermark)

    def append_at_once(
        self, quorum: Proposing, batch: Batch, decided: Mapping[int, PartitionValue]
    ) -> None:
        """As `append`, of a few records while nothing else is halfway."""
        assert not self.is_halfway
        self.last_ms = self._clock()
        image = self._replaying.image
        base = quorum.propose(batch.values)
        assert base == image.end_offset, f"{base}, not {image.end_offset}"
        replay_decided(image, batch.records, base, decided)

    def _replay(
        self, batch: Batch, offset: int, decided: Mapping[int, PartitionValue]
    ) -> Slices[None]:
        for at in range(0, len(batch.records), _AT_ONCE):
            some = batch.records[at : at + _AT_ONCE]
            replay_decided(self._replaying.image, some, offset + at, decided)
            removed = sum([isinstance(record, RemoveTopic) for record in some])
            yield REPLAYED_US * len(some) + REMOVED_US * removed

    def _replay_together(self, batch: Batch, offset: int) -> Slices[None]:
        """As others replay it: new partitions are made together in a third of the time."""
        for at in range(0, len(batch.values), _TOGETHER):
            some = batch.values[at : at + _TOGETHER]
            replay_values(self._replaying.image, some, offset + at)
            yield TOGETHER_US * len(some)

    def _replay_isrs(self, changes: IsrChanges, offset: int) -> Slices[None]:
        for some in changes.topics:
            replay_isrs(self._replaying.image, some, offset)
            offset += len(some.numbers)
            yield ISR_REPLAYED_US * len(some.numbers)

    def _take_end(self) -> None:
        """All that was proposed is replayed: take note of what has been put behind it."""
        if self._end:
            self._replaying.image.advance(self._end)
            self._end = Offset(0)

    def committed(self, high_watermark: Offset) -> None:
        """Everything below is committed; of what is halfway the image is told later."""
        self._high_watermark = high_watermark
        told = high_watermark if self._start is None else min(self._start, high_watermark)
        self._replaying.image.committed(told)
        self._replaying.took(told)
        self._answers.leave()

    def advanced(self, end: Offset) -> None:
        """The log goes on to `end` with records that mean nothing to the image."""
        if self.is_halfway:
            self._end = end
        else:
            self._replaying.image.advance(end)

    def lose(self) -> None:
        """The lead is lost: undo what is not committed, and leave what is to whoever reads it."""
        image = self._replaying.image
        image.rewind(self._replaying.end)
        image.stop_journal()
        if self.is_halfway:
            self._replaying.raise_to(self._high_watermark)
        self._start, self._end = None, Offset(0)


def _says_partitions(batch: Batch) -> bool:
    """Whether most of it does; a transaction has other records at its ends."""
    return isinstance(batch.records[len(batch.records) // 2], Partition)

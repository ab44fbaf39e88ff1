"""The disk of a replica in memory: its contents, and the part that survives a power loss.

It never helps a node: only `complete_flush` makes records durable, and `lose_power` drops the rest.
"""

from dataclasses import dataclass
from uuid import UUID

from quorum.core.messages import Batch
from quorum.core.raft_log import RaftLog
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    Snapshot,
)
from quorum.core.voter_set import VoterAssignment, VoterSetHistory


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch with its records; each record is a word that is unique in the whole test."""

    outline: Batch
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    epoch: Epoch
    word: str

    def __str__(self) -> str:
        return f"{self.word}@{self.epoch}"


class Disk:
    """One replica's election file, log and snapshots.

    The records keep their places in the list when the log is cut at its start: what stands there
    is what the snapshot holds, which nobody can read record by record any more.
    """

    def __init__(self, directory_id: UUID = NO_DIRECTORY) -> None:
        self.directory_id = directory_id
        self.election = ElectionState()
        self.batches: list[StoredBatch] = []
        self.records: list[Record] = []
        self.durable = 0
        self.start = Offset(0)
        self.snapshots: tuple[Snapshot, ...] = ()
        self._flushing: int | None = None

    def __str__(self) -> str:
        """Snapshots, then the records in order, with a bar behind the last durable one."""
        words = [str(record) for record in self.records]
        words.insert(self.durable, "|")
        return " ".join([*(f"[{each}]" for each in self.snapshots), *words[self.start :]])

    @property
    def end(self) -> OffsetAndEpoch:
        return self.end_at(len(self.records))

    def end_at(self, offset: int) -> OffsetAndEpoch:
        """The end of the log if it were cut at `offset`."""
        epoch = self.records[offset - 1].epoch if offset else Epoch(0)
        return OffsetAndEpoch(epoch, Offset(offset))

    def recovered(self) -> RaftLog:
        """The state of the log for a node that starts on this disk."""
        assert self.durable == len(self.records)
        outlines = [each.outline for each in self.batches if each.outline.base >= self.start]
        starts = {each.epoch: each.base for each in reversed(outlines)}
        assigned = [(each.end, each.assignment) for each in outlines if each.assignment]
        return RaftLog(
            self.start,
            self.end.offset,
            sorted(starts.items()),
            epoch_before=self.end_at(self.start).epoch if self.start else None,
            assignments=VoterSetHistory(assigned, base=self.voters_at(self.start)),
            snapshots=self.snapshots,
        )

    def voters_at(self, end: int) -> VoterAssignment | None:
        """The voters by the log below `end`."""
        outlines = [each.outline for each in self.batches if each.outline.end <= end]
        return next((each.assignment for each in reversed(outlines) if each.assignment), None)

    def install(self, snapshot: Snapshot, batches: tuple[StoredBatch, ...]) -> None:
        """Hold nothing but this snapshot, which was made of these batches."""
        self.batches, self.records, self._flushing = [], [], None
        for each in batches:
            self.append(each)
        assert self.end == snapshot.id
        self.durable, self.start, self.snapshots = snapshot.end, snapshot.end, (snapshot,)

    def append(self, batch: StoredBatch) -> None:
        outline = batch.outline
        assert outline.base == len(self.records)
        assert outline.end - outline.base == len(batch.words)
        self.batches.append(batch)
        self.records += [Record(outline.epoch, word) for word in batch.words]

    def read(self, start: int, end: int, batches_max: int) -> tuple[StoredBatch, ...]:
        """Whole batches from the one at `start` to the last that ends at or below `end`."""
        found = [
            each for each in self.batches if start <= each.outline.base and each.outline.end <= end
        ]
        assert start >= self.start, f"{start} is before the log start offset {self.start}"
        assert found, f"no whole batch in [{start}, {end})"
        assert found[0].outline.base == start, "replicas stop at the end of a batch"
        return tuple(found[:batches_max])

    def truncate_to(self, end: int) -> None:
        while self.batches and self.batches[-1].outline.end > end:
            self.batches.pop()
        kept = self.batches[-1].outline.end if self.batches else 0
        assert kept == end, f"a batch lies across the cut at {end}"
        del self.records[end:]
        self.durable = min(self.durable, end)
        if self._flushing is not None:
            self._flushing = min(self._flushing, end)

    def begin_flush(self) -> bool:
        """Start to make durable what is there now; False if there is nothing to do or one runs."""
        if self._flushing is not None or self.durable == len(self.records):
            return False
        self._flushing = len(self.records)
        return True

    def complete_flush(self) -> OffsetAndEpoch:
        """The durable end now: that of `begin_flush`, unless it was truncated since."""
        assert self._flushing is not None
        self.durable, self._flushing = max(self.durable, self._flushing), None
        return self.end_at(self.durable)

    def lose_power(self, batches_kept: int) -> None:
        """Forget what is not durable, but for `batches_kept` batches that made it by chance."""
        lost = [each for each in self.batches if each.outline.base >= self.durable][batches_kept:]
        self._flushing = None
        if lost:
            self.truncate_to(lost[0].outline.base)
        self.durable = len(self.records)

    @property
    def batches_at_risk(self) -> int:
        return sum(each.outline.base >= self.durable for each in self.batches)

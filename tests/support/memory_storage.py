"""The ports of storage in memory, for tests and simulation: same contracts, no file.

They know what a disk would have kept: `crash` is a loss of power, after which the same object is
what a restarted process finds.
"""

from collections.abc import Sequence
from pathlib import Path

from chaos.disk.virtual_disk import VirtualDisk
from quorum.cluster_id import ClusterIdentity
from quorum.core.messages import Batch
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch
from quorum.log.segment import Bytes, Extent, Tail
from quorum.log.segment_reader import first_record_from
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.ports import OffsetOutOfRange
from quorum.records.batch import Buffer, headers


class MemoryLog:
    """A `quorum.ports.Log`."""

    def __init__(self, start: Offset = Offset(0)) -> None:
        self._extent = Extent(start)
        self._tail = Tail(start)
        self._durable = start

    @property
    def start(self) -> Offset:
        """The first offset still held."""
        return self._extent.start

    @property
    def end(self) -> OffsetAndEpoch:
        """The epoch of the last batch (0 if there is none) and the log end offset."""
        return self._extent.end

    @property
    def epochs(self) -> Sequence[tuple[Epoch, Offset]]:
        """Each epoch that has records here, with the offset of its first one, rising."""
        return tuple(self._extent.epochs)

    def bytes_from(self, offset: Offset) -> int:
        """The bytes of the batches from `offset` on; see the port."""
        end = self._extent.end.offset
        start = min(max(offset, self._extent.start), end)
        return len(self.read(start, end, self.size_bytes))

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches, durable or not."""
        return self._tail.size_bytes

    def append(self, batches: Buffer) -> Sequence[Batch]:
        """Append whole batches; see the port."""
        found = list(headers(batches))
        outlines = [header.outline for _, header in found]
        self._extent.assert_continued_by(outlines)
        view = memoryview(batches)
        for (position, header), outline in zip(found, outlines, strict=True):
            batch: Bytes = bytes(view[position : position + header.size_bytes])
            self._tail.append(outline.end, batch)
            self._extent.append(outline)
        return outlines

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        """Whole batches in [start, end); see the port."""
        log_end = self.end.offset
        if not self.start <= start <= log_end:
            raise OffsetOutOfRange(start, self.start, log_end)
        end = min(end, log_end)
        if start >= end:
            return b""
        return b"".join(self._tail.slice(start, end, max_bytes, at_least_one=True))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """The first record that is not older than this: its offset and time; None if all are."""
        return first_record_from(self, self.start, self.end.offset, timestamp_ms)

    def truncate_to(self, end: Offset) -> None:
        """Forget every batch that reaches beyond `end`, durably; see the port."""
        assert self.start <= end <= self.end.offset
        assert self._has_boundary(end), f"{end} is not the boundary of a batch"
        self._tail.truncate(end)
        self._extent.truncate(end)
        self._durable = min(self._durable, end)

    def advance_start(self, start: Offset) -> None:
        """Hold nothing below `start` any more; see the port."""
        assert self._has_boundary(start), f"{start} is not the boundary of a batch"
        self._extent.advance(start)
        self._tail.shrink(0, below=start)
        self._durable = max(self._durable, start)

    def remove_obsolete(self) -> bool:
        """There are no files to remove."""
        return False

    def begin_anew(self, start: Offset) -> None:
        """Forget every batch and begin at `start`, durably; see the port."""
        self._extent, self._tail, self._durable = Extent(start), Tail(start), start

    def _has_boundary(self, offset: Offset) -> bool:
        """Return True if a batch begins or ends at `offset`."""
        found = headers(self.read(self.start, self.end.offset, self.size_bytes))
        return offset == self.end.offset or any(each.base_offset == offset for _, each in found)

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        """Let everything appended so far survive a crash, if it is to be synced; see the port."""
        if sync:
            self._durable = self.end.offset
        return self.end

    def close(self) -> None:
        """Commit what is left; the log stays readable, as a folder would."""
        self.commit()

    def crash(self, *, surviving: int = 0) -> None:
        """Lose power: what was not committed is gone, but for its first `surviving` batches.

        An append that was under way may have reached the disk in part, or whole.
        """
        end = self._durable
        for _ in range(surviving):
            if end < self.end.offset:
                data = self.read(end, self.end.offset, 1)
                _, header = next(headers(data))
                end = Offset(header.end_offset)
        self.truncate_to(end)
        self._durable = end


class MemoryElectionStore:
    """A `quorum.ports.ElectionStore`."""

    def __init__(self) -> None:
        self._election = ElectionState()

    def read(self) -> ElectionState:
        """The value last written."""
        return self._election

    def write(self, election: ElectionState) -> None:
        """Replace what is stored."""
        self._election = election


def known_cluster() -> ClusterIdentity:
    """The identity of a cluster whose id every replica knows."""

    def keep(learned: str, done: object) -> None:
        raise AssertionError("the id is known")

    return ClusterIdentity("cluster", keep=keep, make=lambda: "another")


def no_snapshots() -> FileSnapshotStore:
    """A snapshot store in an empty folder of a disk in memory."""
    return FileSnapshotStore(Path("/"), VirtualDisk())

"""A log on disk: Kafka record batches in Kafka's files, rolled at a size, the newest in memory.

One class serves two uses: the quorum's log, which a writer thread commits, and the partitions of a
broker, which commits inline. Records are opaque, and others decide what is committed.

Two threads use a log: the owner appends and reads, the writer thread commits. They share the list
of batches to write, and the end offset of that list. Both change under one lock, so that a commit
takes a list with its end, and an append is part of exactly one commit. The lock is never held
during I/O. All other state needs no lock: files and descriptors belong to the writer; index and
tail belong to the owner, except for a truncation, which changes them under the lock; and `_written`
only grows between truncations, so an old value only keeps a batch in memory longer.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple, NoReturn

from quorum.core.limits import SEGMENT_BYTES_MAX
from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.histogram import Histogram
from quorum.log.append_times import AppendTimeWriter
from quorum.log.filesystem import OS, FileSystem, FolderLock, make_folder, remove_some, usable
from quorum.log.recovery import Cut, OnControl, recover
from quorum.log.segment import TAIL_BYTES_MAX, Bytes, Extent, IndexEntry, Segment, Tail
from quorum.log.segment_reader import first_record_from, position_of, read_batches
from quorum.log.segment_writer import SegmentWriter, Write
from quorum.ports import Clock, DiskFull, LogFailure, OffsetOutOfRange
from quorum.records.batch import LENGTH_END, MAGIC, Buffer, Header, header_at, headers


class _Plan(NamedTuple):
    """A written part of one segment, and the index entries for reading it."""

    path: Path
    end: Offset
    before: IndexEntry
    within: IndexEntry


class SegmentedLog:
    """A `quorum.ports.Log`."""

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        tail_bytes_max: int = TAIL_BYTES_MAX,
        synced: bool = True,
        check_all: bool = False,
        lock: bool = True,
        on_control: OnControl | None = None,
        wall_clock: Clock | None = None,
        fs: FileSystem = OS,
    ) -> None:
        """Open the log in `folder`, which is created if its parent exists, and recover it.

        `synced` says that acknowledged records must survive a power failure; see
        `quorum.log.recovery` for its effect, and that of `check_all`, on recovery. A broker locks
        the folder above its partitions and opens each without `lock`. `on_control` gets every
        control batch. With `wall_clock` (ms) the time of every append is stored beside the
        segments. Raises `FolderInUse`, `FolderUnusable` or `LogDamaged`.
        """
        assert segment_bytes_max > 0
        assert tail_bytes_max >= 0
        with usable(folder):
            make_folder(folder, fs)
        self.folder = folder
        self._fs = fs
        self._segment_bytes_max = segment_bytes_max
        self._tail_bytes_max = tail_bytes_max
        self._writer = SegmentWriter(fs)
        self._wall_clock = wall_clock
        self._times = None if wall_clock is None else AppendTimeWriter(fs, folder)
        self._folder_lock = FolderLock(folder, fs) if lock else None
        try:
            self.cut = self._recover(synced=synced, check_all=check_all, on_control=on_control)
            """The bytes that recovery removed from the end, or None."""
        except BaseException:
            self._release()
            raise
        self._lock = Lock()
        self._obsolete: list[Segment] = []
        self._pending: list[Write] = []
        self._tail = Tail(self._extent.end.offset)
        self._written = self._extent.end.offset
        self._failure: LogFailure | None = None
        self._closed = False

    def _recover(
        self, *, synced: bool, check_all: bool, on_control: OnControl | None
    ) -> Cut | None:
        recovered = recover(
            self._fs, self.folder, synced=synced, check_all=check_all, on_control=on_control
        )
        self._segments = recovered.segments or [Segment(self.folder, Offset(0))]
        self._extent = recovered.extent
        if recovered.segments and not synced:
            self._writer.found(self._segments[-1].path)
        if self._times is not None:
            self._times.begin(self._segments, self._extent.end.offset)
        return recovered.cut

    def __str__(self) -> str:
        found = f"{self.folder}: offsets [{self.start}, {self.end.offset}), epoch {self.end.epoch}"
        return f"{found}, {self.size_bytes} bytes in {len(self._segments)} segments"

    @property
    def start(self) -> Offset:
        """The first offset still held."""
        return self._extent.start

    @property
    def end(self) -> OffsetAndEpoch:
        """The epoch of the last batch (0 if there is none) and the log end offset."""
        return self._extent.end

    @property
    def syncs(self) -> Histogram:
        """The times of the fsyncs of its segments."""
        return self._writer.syncs

    @property
    def epochs(self) -> Sequence[tuple[Epoch, Offset]]:
        """Each epoch with records, in ascending order, with the offset of its first record."""
        return tuple(self._extent.epochs)

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches, written or not."""
        return sum(segment.size_bytes for segment in self._segments)

    def bytes_from(self, offset: Offset) -> int:
        """Estimate the bytes of the batches from `offset` on; see the port."""
        if offset <= self.start:
            return self.size_bytes
        if offset >= self.end.offset:
            return 0
        first = self._segment_of(offset)
        later = sum(segment.size_bytes for segment in self._segments[first:])
        return later - self._segments[first].mark_at_or_before(offset).position

    def append(self, batches: Buffer) -> Sequence[Batch]:
        """Append whole batches; see the port. No batch spans two segments."""
        assert not self._closed
        if not batches:
            return ()
        first = header_at(batches)
        if first.length + LENGTH_END == len(batches) and first.magic == MAGIC:
            found = [(0, first)]
        else:
            found = list(headers(batches))
        outlines = [header.outline for _, header in found]
        self._extent.assert_continued_by(outlines)
        if len(found) == 1 and not isinstance(batches, memoryview):
            parts: list[Bytes] = [batches]
        else:
            view = memoryview(batches)
            parts = [bytes(view[at : at + header.size_bytes]) for at, header in found]
        now_ms = 0 if self._wall_clock is None else self._wall_clock()
        with self._lock:
            for (_, header), outline, batch in zip(found, outlines, parts, strict=True):
                self._append_one(header, outline, batch, now_ms)
            if self._tail.size_bytes > self._tail_bytes_max:
                # In strides, so that many appends share the cost of moving the rest.
                self._tail.shrink(self._tail_bytes_max * 3 // 4, below=self._written)
        return outlines

    def _append_one(self, header: Header, outline: Batch, batch: Bytes, now_ms: int) -> None:
        segment = self._segments[-1]
        full = segment.size_bytes + len(batch) > self._segment_bytes_max
        if full and segment.size_bytes > 0:
            segment = Segment(self.folder, self._extent.end.offset)
            self._segments.append(segment)
        base, end, epoch = outline.base, outline.end, outline.epoch
        position = segment.append(header)
        self._pending.append(Write(base, segment, position, batch, end, epoch, now_ms))
        self._tail.append(outline.end, batch)
        self._extent.append(outline)

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        """Read whole batches in [start, end); see the port."""
        log_end = self._extent.end.offset
        if not self.start <= start <= log_end:
            raise OffsetOutOfRange(start, self.start, log_end)
        end = min(end, log_end)
        parts: list[Bytes] = []
        left = max_bytes
        while start < end:
            plan = self._plan_or_tail(start, end, left, parts)
            if plan is None:
                break
            data, start = read_batches(
                self._fs,
                plan.path,
                start,
                plan.end,
                left,
                before=plan.before,
                within=plan.within,
                at_least_one=not parts,
            )
            parts.append(data)
            left -= len(data)
            if start < plan.end:
                break
        return b"".join(parts)

    def _plan_or_tail(
        self, start: Offset, end: Offset, max_bytes: int, parts: list[Bytes]
    ) -> _Plan | None:
        """Return the plan of the next read from disk; None once memory had the rest, in `parts`."""
        with self._lock:
            if start >= self._tail.start:
                parts += self._tail.slice(start, end, max_bytes, at_least_one=not parts)
                return None
            index = self._segment_of(start)
            segment = self._segments[index]
            # All batches before the tail have been written.
            end = min(end, self._tail.start)
            if index + 1 < len(self._segments):
                end = min(end, self._segments[index + 1].base)
            before = segment.mark_at_or_before(start)
            return _Plan(segment.path, end, before, segment.mark_within(before, end, max_bytes))

    def _segment_of(self, offset: Offset) -> int:
        """Return the index of the segment that holds `offset`."""
        return bisect_right(self._segments, offset, key=lambda segment: segment.base) - 1

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """Return offset and time of the first record not older than this; None if all are."""
        ends = [*(segment.base for segment in self._segments[1:]), self._extent.end.offset]
        for segment, end in zip(self._segments, ends, strict=True):
            if segment.size_bytes == 0 or segment.max_timestamp_ms < timestamp_ms:
                continue
            start = segment.mark_before_time(timestamp_ms).offset
            found = first_record_from(self, start, end, timestamp_ms)
            if found is not None:
                return found
        return None

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        """Write everything appended so far; see the port."""
        self._refuse_after_failure()
        with self._lock:
            writes, self._pending = self._pending, []
            end = self._extent.end
        try:
            done = self._writer.write(writes, sync=sync)
        except OSError as error:
            raise self._failed_for_good("written", error) from error
        if done < len(writes):
            self._wait_for_room(writes, done)
        self._written = end.offset
        if self._times is not None:
            self._times.write(writes)
        return end

    def _wait_for_room(self, writes: list[Write], done: int) -> NoReturn:
        """Requeue the batches without room for the next commit, and raise `DiskFull`."""
        with self._lock:
            self._pending[:0] = writes[done:]
        self._written = writes[done].base
        if self._times is not None:
            self._times.write(writes[:done])
        raise DiskFull(f"the log in {self.folder} cannot be written: no room is left on its disk")

    def truncate_to(self, end: Offset) -> None:
        """Remove every batch that reaches beyond `end`, durably; see the port."""
        self._refuse_after_failure()
        assert self.start <= end <= self.end.offset
        if end == self.end.offset:
            return
        segment, position = self._place_of(end)
        with self._lock:
            index = self._segments.index(segment)
            later = self._segments[index + 1 :]
            del self._segments[index + 1 :]
            segment.truncate(position)
            self._pending = [write for write in self._pending if write.base < end]
            self._tail.truncate(end)
            self._extent.truncate(end)
        if end < self._written:
            with self._failing_for_good("truncated"):
                if self._times is not None:
                    self._times.truncate(segment, end, later)
                self._writer.truncate(segment.path, position, [each.path for each in later])
            self._written = end

    def advance_start(self, start: Offset) -> None:
        """Advance the log start; see the port. Only whole segments are removed."""
        with self._lock:
            self._extent.advance(start)
            # Keep the segments of batches that still wait to be written.
            gone = self._segment_of(min(start, self._written))
            self._obsolete += self._segments[:gone]
            del self._segments[:gone]

    def remove_obsolete(self) -> bool:
        """Remove a part of what lies below the log start, durably; see the port."""
        self._refuse_after_failure()
        if self._obsolete:
            # The oldest one first, so that a crash leaves no gap.
            with self._failing_for_good("cut at its start"):
                if self._times is not None:
                    self._times.remove(self._obsolete[:1])
                is_gone = not remove_some(self._obsolete[0].path, self._fs)
            if is_gone:
                del self._obsolete[0]
        return bool(self._obsolete)

    def begin_anew(self, start: Offset) -> None:
        """Replace the log by an empty one at `start`, durably; see the port."""
        self._refuse_after_failure()
        with self._lock:
            old = [*self._obsolete, *self._segments]
            self._obsolete, self._segments = [], [Segment(self.folder, start)]
            self._extent, self._tail = Extent(start), Tail(start)
            self._pending = []
        with self._failing_for_good("replaced"):
            if self._times is not None:
                self._times.remove(old)
            left = self._writer.begin_anew(self._segments[0].path, [each.path for each in old])
        self._obsolete = [each for each in old if each.path in left]
        self._written = start

    def _place_of(self, end: Offset) -> tuple[Segment, int]:
        """Return segment and position of the batch that begins at `end`."""
        for write in self._pending:
            if write.base == end:
                return write.segment, write.position
        assert end < self._written, f"{end} is not the boundary of a batch"
        segment = self._segments[self._segment_of(end)]
        mark = segment.mark_at_or_before(end)
        return segment, position_of(self._fs, segment.path, end, mark)

    @contextmanager
    def _failing_for_good(self, what: str) -> Iterator[None]:
        """Turn an `OSError` of the block into `LogFailure`, and remember it."""
        try:
            yield
        except OSError as error:
            raise self._failed_for_good(what, error) from error

    def _failed_for_good(self, what: str, error: OSError) -> LogFailure:
        why = error.strerror or str(error)
        self._failure = LogFailure(f"the log in {self.folder} cannot be {what}: {why}")
        return self._failure

    def _refuse_after_failure(self) -> None:
        # A failed fsync may mark unwritten pages clean: the next one would succeed wrongly.
        if self._failure is not None:
            raise LogFailure(str(self._failure)) from self._failure

    def close(self) -> None:
        """Write everything appended, durably, and release the files; a second call does nothing.

        On a full disk the rest is dropped: it was never acknowledged.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._failure is None:
                with suppress(DiskFull):
                    self.commit()
        finally:
            self._writer.close()
            if self._times is not None:
                self._times.close()
            self._release()

    def _release(self) -> None:
        if self._folder_lock is not None:
            self._folder_lock.release()

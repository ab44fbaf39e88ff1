"""The offset of a stream, a value that survives a restart, and the tasks between two offsets.

For each log folder, an offset has the segment, the position after the last batch returned, its log
offset, and the start offset of each epoch. The same epoch at the same offset is the same record
(Raft's log matching property), so two offsets determine what happened between them: appends, and
the offset from which a new leader made the log be truncated. There is no other state.

Rows are not retracted. A truncation is a row with `mark` truncated, and every row has the
`generation` of its log, the number of truncations before it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from lag.source import files
from lag.source.folders import LogFolder, Segment, find
from lag.source.options import Options
from lag.source.planner import slices_of
from lag.source.scan import BatchRun, scan
from lag.source.schemas import MARK_MISSING, MARK_TRUNCATED
from lag.source.tasks import Mark, Slice, Span, Task
from quorum.records.batch import HEADER_BYTES, header_at

_NOBODY: Final = -1

Epochs = tuple[tuple[int, int], ...]
"""Epochs and their first offsets, rising."""


class LastBatch(msgspec.Struct, frozen=True):
    """The identity of the last batch that was returned."""

    position: int
    base_offset: int
    epoch: int
    crc: int


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a stream in one log."""

    replica: str
    start: int
    """The first offset of the log when it was first seen."""
    segment: int
    """The base offset of the current segment."""
    position: int
    """The position in it at which reading continues."""
    end: int
    """The log offset there."""
    generation: int = 0
    epochs: Epochs = ()
    last: LastBatch | None = None
    """None if nothing was returned yet."""


class StreamOffset(msgspec.Struct, frozen=True):
    """The progress in all logs, by the paths of their folders."""

    logs: dict[str, LogState] = {}

    def to_json(self) -> dict[str, Any]:
        """The form for Spark's checkpoint."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> "StreamOffset":
        """Parse the result of `to_json`; raises `ValueError`."""
        return msgspec.convert(value, cls)


class Follower:
    """Find the current ends of logs. The only state is the end to stop at, if there is one."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sizes: dict[str, int] | None = None
        """The sizes of segments at the time of `stop_here`, by path."""

    def stop_here(self) -> None:
        """Do not read beyond the present ends of the logs.

        Repeated calls of `latest` then reach the end of every log.
        """
        folders = self._found({})
        self._sizes = {each.path: each.size_bytes for log in folders for each in log.segments}

    def latest(self, start: dict[str, Any], bytes_max: int | None = None) -> dict[str, Any]:
        """The current ends of the logs, at most so many bytes each beyond `start`.

        A log that cannot be seen stays where it was, because it may come back.
        """
        known = StreamOffset.of_json(start).logs
        labels = {path: state.replica for path, state in known.items()}
        logs = dict(known)
        for found in self._found(labels):
            log = found if self._sizes is None else _within(found, self._sizes)
            if log.segments:
                logs[log.path] = _advanced(log, known.get(log.path), bytes_max)
        return StreamOffset(logs).to_json()

    def _found(self, labels: dict[str, str]) -> tuple[LogFolder, ...]:
        return find(self._options.paths, labels, self._options.cluster).folders


def _within(log: LogFolder, sizes: dict[str, int]) -> LogFolder:
    """The part of a log that existed when its segments had these sizes."""
    segments = (
        replace(each, size_bytes=min(each.size_bytes, sizes[each.path]))
        for each in log.segments
        if each.path in sizes
    )
    return replace(log, segments=tuple(segments))


def _advanced(log: LogFolder, known: LogState | None, bytes_max: int | None) -> LogState:
    first = log.segments[0].base
    if known is None:
        return _walked(log, _unread(log.replica, first), bytes_max)
    if _is_there(log, known):
        return _walked(log, known, bytes_max)
    before = tuple(each for each in known.epochs if each[1] < first)
    state = LogState(
        replica=known.replica,
        start=known.start,
        segment=first,
        position=0,
        end=first,
        generation=known.generation,
        epochs=before,
    )
    state = _walked(log, state, None)
    if common_end(known.epochs, known.end, state.epochs, state.end) < known.end:
        state = msgspec.structs.replace(state, generation=known.generation + 1)
    return state


def _unread(replica: str, start: int) -> LogState:
    return LogState(replica=replica, start=start, segment=start, position=0, end=start)


def _is_there(log: LogFolder, state: LogState) -> bool:
    """True if the last batch that was returned is still in place."""
    path = next((each.path for each in log.segments if each.base == state.segment), None)
    if path is None:
        return False
    if state.last is None:
        return state.position == 0
    last = state.last
    try:
        with files.opened(path) as file:
            head = files.read_up_to(file, HEADER_BYTES, last.position)
    except OSError:
        return False
    if len(head) < HEADER_BYTES:
        return False
    found = header_at(head)
    there = (found.base_offset, found.epoch, found.crc, last.position + found.size_bytes)
    return there == (last.base_offset, last.epoch, last.crc, state.position)


def _walked(log: LogFolder, state: LogState, bytes_max: int | None) -> LogState:
    """The state after the last valid batch, or after so many bytes."""
    read_bytes = 0
    for segment in log.segments:
        if segment.base < state.segment:
            continue
        if segment.base > state.segment:
            state = msgspec.structs.replace(state, segment=segment.base, position=0)
        for piece in _pieces(log, segment, state.position):
            read_bytes += piece.sound.end - piece.sound.origin
            state = _behind(state, piece)
            if bytes_max is not None and read_bytes >= bytes_max:
                return state
    return state


def _pieces(log: LogFolder, segment: Segment, low: int) -> Iterator[BatchRun]:
    if low >= segment.size_bytes:
        return
    (part,) = slices_of(log, segment, segment.size_bytes, low=low)
    # An incomplete batch is left for the next call, without a wait.
    for found in scan(part, settle_ms=0):
        if isinstance(found, BatchRun):
            yield found


def _behind(state: LogState, piece: BatchRun) -> LogState:
    headers = piece.headers
    epochs = list(state.epochs)
    last_epoch = epochs[-1][0] if epochs else _NOBODY
    begins = [0, *((headers.epoch[1:] != headers.epoch[:-1]).nonzero()[0] + 1).tolist()]
    for at in begins:
        epoch = int(headers.epoch[at])
        if epoch > last_epoch:
            epochs.append((epoch, int(headers.base_offset[at])))
            last_epoch = epoch
    position = int(headers.position[-1])
    header = header_at(piece.sound.data, position - piece.sound.origin)
    return msgspec.structs.replace(
        state,
        position=piece.sound.end,
        end=max(state.end, int(headers.last_offset[-1]) + 1),
        epochs=tuple(epochs),
        last=LastBatch(position, header.base_offset, header.epoch, header.crc),
    )


def common_end(some: Epochs, some_end: int, others: Epochs, others_end: int) -> int:
    """The offset, exclusive, up to which two logs with these epochs and ends are equal.

    They are equal as long as the same epochs start at the same offsets. The last common epoch ends,
    in each, where its next one starts or the log ends.
    """
    alike = 0
    for one, other in zip(some, others, strict=False):
        if one != other:
            break
        alike += 1
    ends = [
        epochs[alike][1] if alike < len(epochs) else end
        for epochs, end in ((some, some_end), (others, others_end))
    ]
    return min(ends)


def tasks_between(start: dict[str, Any], end: dict[str, Any], options: Options) -> list[Task]:
    """The tasks for appends, truncations and losses between two offsets of a stream."""
    before, after = StreamOffset.of_json(start).logs, StreamOffset.of_json(end).logs
    tasks: list[Task] = []
    for path, state in after.items():
        known = before.get(path) or _unread(state.replica, state.start)
        if known != state:
            tasks += _tasks_of(path, known, state, options)
    return tasks


def _tasks_of(path: str, known: LogState, state: LogState, options: Options) -> Iterator[Task]:
    low = known.end
    if state.generation != known.generation:
        low = common_end(known.epochs, known.end, state.epochs, state.end)
        yield _mark(path, state, MARK_TRUNCATED, low, known.end)
    if low >= state.end:
        return
    found = find([path], {path: state.replica}).folders
    log = found[0] if found and found[0].segments else None
    first = state.end if log is None else log.segments[0].base
    if first > low:
        yield _mark(path, state, MARK_MISSING, low, min(first, state.end))
    if log is not None:
        yield from _slices(log, known, state, max(low, first), options)


def _slices(
    log: LogFolder, known: LogState, state: LogState, low: int, options: Options
) -> Iterator[Slice]:
    span = Span(low=low, high=state.end, epochs=state.epochs, generation=state.generation)
    is_continued = low == known.end and state.generation == known.generation
    for segment in log.segments:
        if segment.base >= state.end:
            return
        if segment.next_base is not None and segment.next_base <= low:
            continue
        is_first = is_continued and segment.base == known.segment
        begin = known.position if is_first else 0
        behind = state.position if segment.base == state.segment else segment.size_bytes
        if begin < behind:
            yield from slices_of(
                log,
                segment,
                options.partition_bytes,
                low=begin,
                high=behind,
                span=span,
                is_continued=is_first,
            )


def _mark(path: str, state: LogState, mark: str, low: int, high: int) -> Mark:
    epoch = next((epoch for epoch, begin in reversed(state.epochs) if begin <= low), 0)
    return Mark(
        replica=state.replica,
        path=path,
        mark=mark,
        low=low,
        high=high,
        epoch=epoch,
        generation=state.generation,
    )

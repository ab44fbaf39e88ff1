"""Divide the logs into tasks: the files to read, and the byte ranges.

The driver lists folders, and opens no segment for it. A *share* is what one task gets: ranges of
the segments of one log, by name and size. The worker that has the share makes the slices
(`slices_in`), and looks for the first batch in each of them.

A segment's name has its first offset, and its first header its first time. The driver leaves out
segments without requested offsets, and the worker those without requested times. If there are more
ranges than tasks, the ranges of a log are dealt to its tasks in turn, so that each task has some of
any time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Final

from lag.source import files
from lag.source.files import join, name_of
from lag.source.folders import Found, LogFolder, Segment, find, unreadable
from lag.source.options import Options, check_missing
from lag.source.problems import APPEND_TIMES, GAP, META, Problem
from lag.source.replicas import QUORUM_STATE, quorum_state
from lag.source.tasks import (
    FoundProblems,
    Pick,
    ReplicaFolder,
    SegmentRange,
    Share,
    Slice,
    Span,
    Task,
    index_path,
    segment_path,
)
from quorum.log.append_times import SUFFIX
from quorum.log.checkpoint import checkpoint_id
from quorum.log.segment import segment_base
from quorum.records.batch import HEADER_BYTES, MAGIC, header_at

SHARES_MAX: Final = 20_000
"""The most shares of a read, and one more for each log: Spark's driver keeps each of its tasks."""


def plan(options: Options) -> list[Task]:
    """The tasks of one read of everything that exists; raises `InvalidInput` for its paths."""
    check_missing(options)
    found = find(options.paths, cluster=options.cluster)
    if options.table.name == "replicas":
        return [_replica(log) for log in found.folders]
    if options.picks is not None:
        return list(_picked(found, options.picks, options))
    tasks: list[Task] = []
    if options.table.name == "walk":
        tasks += [_replica(log) for log in found.folders]
    if options.table.name in ("problems", "walk"):
        tasks.append(FoundProblems(problems=planning_problems(found)))
    logs = [log for log in found.folders if options.replica in (None, log.replica)]
    if "log" in options.sources:
        tasks += _shares(logs, options)
    if "snapshot" in options.sources:
        for log in logs:
            tasks += [each for path in log.snapshots for each in _snapshot(log, path, options)]
    return tasks


def _shares(logs: Sequence[LogFolder], options: Options) -> Iterator[Share]:
    """The shares of the segments that may contain requested offsets."""
    wanted = [[each for each in log.segments if _has_offsets(each, options)] for log in logs]
    total = sum(segment.size_bytes for segments in wanted for segment in segments)
    range_bytes = max(options.partition_bytes, -(-total // SHARES_MAX))
    ranges = [
        [each for segment in segments for each in _ranges(log, segment, range_bytes)]
        for log, segments in zip(logs, wanted, strict=True)
    ]
    ranges_a_share = max(1, -(-sum(map(len, ranges)) // SHARES_MAX))
    for log, own in zip(logs, ranges, strict=True):
        shares = -(-len(own) // ranges_a_share)
        for at in range(shares):
            yield Share(replica=log.replica, folder=log.path, ranges=tuple(own[at::shares]))


def _ranges(log: LogFolder, segment: Segment, range_bytes: int) -> Iterator[SegmentRange]:
    is_indexed = index_path(log.path, segment.base) in log.indexes
    for low, high in _divided(0, segment.size_bytes, range_bytes):
        yield SegmentRange(
            segment.base, segment.next_base, segment.size_bytes, low, high, is_indexed
        )


def slices_in(share: Share, options: Options) -> Iterator[Slice]:
    """The slices of a share that may contain requested times, on the worker that reads them."""

    @cache
    def begins(base: int) -> int | None:
        return _first_time_ms(segment_path(share.folder, base))

    for each in share.ranges:
        if _has_times(each, begins, options):
            yield Slice(
                replica=share.replica,
                folder=share.folder,
                path=segment_path(share.folder, each.base),
                source="log",
                low=each.low,
                high=each.high,
                size_bytes=each.size_bytes,
                base=each.base,
                next_base=each.next_base,
                index=index_path(share.folder, each.base) if each.is_indexed else None,
            )


def _divided(low: int, high: int, size: int) -> Iterator[tuple[int, int]]:
    """The ranges of so many bytes from `low` to `high`; an empty file is one range too."""
    cuts = [*range(low, high, size), high] if high > low else [low, high]
    return pairwise(cuts)


def _picked(found: Found, picks: Iterable[Pick], options: Options) -> Iterator[Slice]:
    """The slices of some parts of files; a snapshot is read completely."""
    logs = {log.replica: log for log in found.folders}
    segments = {segment.path: (log, segment) for log in found.folders for segment in log.segments}
    snapshots = {path: log for log in found.folders for path in log.snapshots}
    for pick in picks:
        if pick.path in snapshots:
            yield from _snapshot(snapshots[pick.path], pick.path, options)
        if pick.path not in segments:
            continue  # Or it was deleted since.
        log, segment = segments[pick.path]
        slices = slices_of(log, segment, options.partition_bytes, low=pick.low, high=pick.high)
        if pick.borrower is None:
            for part in slices:
                yield replace(part, wanted=(pick.first, pick.end))
            continue
        for index, first, end in _indexed(logs[pick.borrower], pick.first, pick.end):
            for part in slices:
                yield replace(
                    part,
                    replica=pick.borrower,
                    index=index,
                    base=first if index is None else _index_base(index),
                    wanted=(first, end),
                    is_borrowed=True,
                )


def _indexed(log: LogFolder, first: int, end: int) -> Iterator[tuple[str | None, int, int]]:
    """The indexes of append times that may have these offsets, each with its part of them."""
    behind = [*(_index_base(each) for each in log.indexes[1:]), end]
    for index, stop in zip(log.indexes, behind, strict=False):
        low, high = max(first, _index_base(index)), min(end, stop)
        if low < high:
            if first < low:
                yield None, first, low
            yield index, low, high
            first = high
    if first < end:
        yield None, first, end


def _index_base(path: str) -> int:
    base = segment_base(name_of(path), SUFFIX)
    assert base is not None, f"{path} has the name of an index"
    return base


def planning_problems(found: Found) -> tuple[tuple[str, Problem], ...]:
    """The problems of folders and small files."""
    own = files.all_of(lambda log: list(_folder_problems(log)), found.folders)
    of_logs = zip(found.folders, own, strict=True)
    return (
        *found.problems,
        *((log.replica, problem) for log, problems in of_logs for problem in problems),
    )


def _folder_problems(log: LogFolder) -> Iterator[Problem]:
    state = join(log.path, QUORUM_STATE)
    try:
        quorum_state(log.path)
    except OSError as error:
        yield unreadable(state, error)
    except ValueError as error:
        yield Problem(state, None, None, META, f"it is not understood: {error}")
    yield from _start_problems(log)
    segments = {index_path(log.path, segment.base) for segment in log.segments}
    # If a segment before the last is missing, a gap tells it.
    last = log.segments[-1].base if log.segments else -1
    for path in log.indexes:
        if path not in segments and _index_base(path) > last:
            reason = "an index of append times without its segment"
            yield Problem(path, None, None, APPEND_TIMES, reason)


def _start_problems(log: LogFolder) -> Iterator[Problem]:
    """A log begins at offset 0, or where a snapshot allowed its older part to be deleted."""
    ids = [checkpoint_id(name_of(path)) for path in log.snapshots]
    reached = max((id_.offset for id_ in ids if id_ is not None), default=0)
    if log.segments and log.segments[0].base > reached:
        first = log.segments[0]
        since = f", and the last snapshot ends at {reached}" if reached else ""
        reason = f"the log begins at offset {first.base}{since}: what is before is gone"
        yield Problem(first.path, None, reached, GAP, reason)


def slices_of(
    log: LogFolder,
    segment: Segment,
    partition_bytes: int,
    *,
    low: int = 0,
    high: int | None = None,
    span: Span | None = None,
    is_continued: bool = False,
) -> list[Slice]:
    """Divide the bytes [`low`, `high`) of a segment; an empty file is one slice too."""
    index = index_path(log.path, segment.base)
    # If the log has indexes, that of a new segment is created a moment later.
    is_awaited = span is not None and segment.next_base is None and bool(log.indexes)
    high = segment.size_bytes if high is None else high
    return [
        Slice(
            replica=log.replica,
            folder=log.path,
            path=segment.path,
            source="log",
            low=begin,
            high=end,
            size_bytes=segment.size_bytes,
            base=segment.base,
            next_base=segment.next_base,
            index=index if index in log.indexes or is_awaited else None,
            span=span,
            is_continued=is_continued and begin == low,
        )
        for begin, end in _divided(low, high, partition_bytes)
    ]


def _snapshot(log: LogFolder, path: str, options: Options) -> list[Slice]:
    size = log.snapshot_sizes[log.snapshots.index(path)]
    return [
        Slice(
            replica=log.replica,
            folder=log.path,
            path=path,
            source="snapshot",
            low=begin,
            high=end,
            size_bytes=size,
            base=0,
        )
        for begin, end in _divided(0, size, options.partition_bytes)
    ]


def _has_offsets(segment: Segment, options: Options) -> bool:
    first, behind, following = options.from_offset, options.to_offset, segment.next_base
    if first is not None and following is not None and following <= first:
        return False
    return behind is None or segment.base < behind


def _has_times(part: SegmentRange, begins: Callable[[int], int | None], options: Options) -> bool:
    """True if a segment may contain a requested time; `begins` has the first one of a segment.

    Times rise except where a leader with another clock takes over, hence the slack. A segment with
    unknown times is read.
    """
    slack_ms = options.clock_slack_ms
    if options.until_ms is not None:
        first = begins(part.base)
        if first is not None and first - slack_ms >= options.until_ms:
            return False
    if options.since_ms is None or part.next_base is None:
        return True
    last = begins(part.next_base)
    return last is None or last + slack_ms >= options.since_ms


def _first_time_ms(path: str) -> int | None:
    """The time of the first batch of a file; None if there is none."""
    try:
        with files.opened(path) as file:
            head = files.read_up_to(file, HEADER_BYTES, 0)
    except OSError:
        return None
    if len(head) < HEADER_BYTES:
        return None
    header = header_at(head)
    has_time = header.magic == MAGIC and header.max_timestamp_ms > 0
    return header.max_timestamp_ms if has_time else None


def _replica(log: LogFolder) -> ReplicaFolder:
    return ReplicaFolder(
        folder=log.path,
        replica=log.replica,
        node_id=log.node_id,
        directory_id=log.directory_id,
        cluster_id=log.cluster_id,
        bases=tuple(segment.base for segment in log.segments),
        sizes=tuple(segment.size_bytes for segment in log.segments),
        snapshots=log.snapshots,
        indexes=log.indexes,
    )

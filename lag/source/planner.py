"""Divide the logs into tasks: the files to read, and the byte ranges.

A segment's name has its first offset, and its first header its first time. Segments that cannot
contain anything requested are not opened.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from lag.source.folders import Found, LogFolder, Segment, find, unreadable
from lag.source.options import Options, check_missing
from lag.source.problems import APPEND_TIMES, GAP, META, Problem
from lag.source.replicas import QUORUM_STATE, quorum_state
from lag.source.tasks import FoundProblems, Pick, ReplicaFolder, Slice, Span, Task
from quorum.log.append_times import SUFFIX, index_of
from quorum.log.checkpoint import checkpoint_id
from quorum.log.segment import segment_base
from quorum.records.batch import HEADER_BYTES, MAGIC, header_at


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
    for log in found.folders:
        if options.replica not in (None, log.replica):
            continue
        if "log" in options.sources:
            for segment in segments_wanted(log, options):
                tasks += slices_of(log, segment, options.partition_bytes)
        if "snapshot" in options.sources:
            tasks += [each for path in log.snapshots for each in _snapshot(log, path, options)]
    return tasks


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
    base = segment_base(Path(path).name, SUFFIX)
    assert base is not None, f"{path} has the name of an index"
    return base


def planning_problems(found: Found) -> tuple[tuple[str, Problem], ...]:
    """The problems of folders and small files."""
    problems = list(found.problems)
    for log in found.folders:
        problems += [(log.replica, problem) for problem in _folder_problems(log)]
    return tuple(problems)


def _folder_problems(log: LogFolder) -> Iterator[Problem]:
    state = str(Path(log.path) / QUORUM_STATE)
    try:
        quorum_state(log.path)
    except OSError as error:
        yield unreadable(state, error)
    except ValueError as error:
        yield Problem(state, None, None, META, f"it is not understood: {error}")
    yield from _start_problems(log)
    segments = {str(index_of(Path(segment.path))) for segment in log.segments}
    # If a segment before the last is missing, a gap tells it.
    last = log.segments[-1].base if log.segments else -1
    for path in log.indexes:
        if path not in segments and _index_base(path) > last:
            reason = "an index of append times without its segment"
            yield Problem(path, None, None, APPEND_TIMES, reason)


def _start_problems(log: LogFolder) -> Iterator[Problem]:
    """A log begins at offset 0, or where a snapshot allowed its older part to be deleted."""
    ids = [checkpoint_id(Path(path).name) for path in log.snapshots]
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
    index = str(index_of(Path(segment.path)))
    # If the log has indexes, that of a new segment is created a moment later.
    is_awaited = span is not None and segment.next_base is None and bool(log.indexes)
    high = segment.size_bytes if high is None else high
    cuts = [*range(low, high, partition_bytes), high] if high > low else [low, high]
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
        for begin, end in pairwise(cuts)
    ]


def _snapshot(log: LogFolder, path: str, options: Options) -> list[Slice]:
    id_ = checkpoint_id(Path(path).name)
    assert id_ is not None
    try:
        size = Path(path).stat().st_size
    except OSError:
        size = 0  # The task that reads it reports the reason.
    cuts = [*range(0, size, options.partition_bytes), size] if size else [0, 0]
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
        for begin, end in pairwise(cuts)
    ]


def segments_wanted(log: LogFolder, options: Options) -> Sequence[Segment]:
    """The segments that may contain requested offsets and times."""
    wanted = [segment for segment in log.segments if _has_offsets(segment, options)]
    if options.since_ms is None and options.until_ms is None:
        return wanted
    begins = {segment.base: _first_time_ms(segment.path) for segment in log.segments}
    return [segment for segment in wanted if _has_times(segment, begins, options)]


def _has_offsets(segment: Segment, options: Options) -> bool:
    first, behind, following = options.from_offset, options.to_offset, segment.next_base
    if first is not None and following is not None and following <= first:
        return False
    return behind is None or segment.base < behind


def _has_times(segment: Segment, begins: dict[int, int | None], options: Options) -> bool:
    """True if a segment may contain a requested time.

    Times rise except where a leader with another clock takes over, hence the slack. A segment with
    unknown times is read.
    """
    slack_ms = options.clock_slack_ms
    first, following = begins[segment.base], segment.next_base
    if options.until_ms is not None and first is not None and first - slack_ms >= options.until_ms:
        return False
    last = None if following is None else begins[following]
    return options.since_ms is None or last is None or last + slack_ms >= options.since_ms


def _first_time_ms(path: str) -> int | None:
    """The time of the first batch of a file; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head = os.pread(fd, HEADER_BYTES, 0)
        finally:
            os.close(fd)
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
        segments=tuple(segment.path for segment in log.segments),
        sizes=tuple(segment.size_bytes for segment in log.segments),
        snapshots=log.snapshots,
        indexes=log.indexes,
    )

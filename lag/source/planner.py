"""Divide the logs into tasks: the files to read, and the byte ranges.

A segment's name has its first offset, and its first header its first time. Segments that cannot
contain anything requested are not opened.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from lag.source.folders import Found, LogFolder, Segment, find, unreadable
from lag.source.options import Options
from lag.source.problems import APPEND_TIMES, META, Problem
from lag.source.replicas import QUORUM_STATE, quorum_state
from lag.source.tasks import FoundProblems, ReplicaFolder, Slice, Span, Task
from quorum.log.append_times import index_of
from quorum.log.checkpoint import checkpoint_id
from quorum.records.batch import HEADER_BYTES, MAGIC, header_at


def plan(options: Options) -> list[Task]:
    """The tasks of one read of everything that exists."""
    found = find(options.paths)
    if options.table.name == "replicas":
        return [_replica(log) for log in found.folders]
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
    segments = {str(index_of(Path(segment.path))) for segment in log.segments}
    for path in log.indexes:
        if path not in segments:
            reason = "an index of append times without its segment"
            yield Problem(path, None, None, APPEND_TIMES, reason)


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
        has_append_times=bool(log.indexes),
    )

"""The table `replicas`: one row per log folder, from its files and the end of the log."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from lag.source import files
from lag.source.append_time_index import epochs_of
from lag.source.files import join, name_of
from lag.source.problems import UNREADABLE, Problem
from lag.source.runs import Run
from lag.source.scan import BatchRun, scan
from lag.source.tasks import ReplicaFolder, Slice, segment_path
from quorum.log.append_times import SUFFIX
from quorum.log.segment import segment_base

QUORUM_STATE: Final = "quorum-state"
TAILS_BYTES: Final = (256 * 1024, 16 * 1024 * 1024)
"""The sizes of the ends of a segment in which the last batch is looked for, before all of it."""


class QuorumState(msgspec.Struct, kw_only=True):
    """The fields of quorum-state that are shown, in any version of the file."""

    leader_id: int = msgspec.field(name="leaderId", default=-1)
    leader_epoch: int = msgspec.field(name="leaderEpoch", default=-1)


def quorum_state(folder: str) -> QuorumState | None:
    """Read the quorum-state of a folder; None if there is none. Raises `OSError` and `ValueError`
    (`msgspec.DecodeError` is one)."""
    path = join(folder, QUORUM_STATE)
    try:
        return msgspec.json.decode(files.read_file(path), type=QuorumState)
    except FileNotFoundError:
        return None


def replica_row(task: ReplicaFolder, settle_ms: int) -> dict[str, Any]:
    """The row of a folder. Damaged values are null here and reported in `problems`."""
    try:
        state = quorum_state(task.folder)
    except (OSError, ValueError):
        state = None
    end, epoch = _end(task, settle_ms)
    return {
        "replica": task.replica,
        "path": task.folder,
        "node_id": task.node_id,
        "directory_id": task.directory_id,
        "cluster_id": task.cluster_id,
        "log_start": task.bases[0] if task.bases else None,
        "log_end": end,
        "last_epoch": epoch,
        "voted_epoch": None if state is None else state.leader_epoch,
        "leader": None if state is None or state.leader_id < 0 else state.leader_id,
        "has_append_times": bool(task.indexes),
        "snapshots": [name_of(path) for path in task.snapshots],
        "bytes": sum(task.sizes),
        "segments": len(task.bases),
    }


def indexed_runs(task: ReplicaFolder) -> Iterator[Run]:
    """The part of each epoch that a log had, by its indexes, if all its segments are gone.

    There are no batches in these runs.
    """
    if any(task.sizes):
        return
    for path in task.indexes:
        first = int(segment_base(name_of(path), SUFFIX) or 0)
        for epoch, end in epochs_of(path, first):
            yield Run(task.replica, epoch, first, end, batches=0)
            first = end


def _end(task: ReplicaFolder, settle_ms: int) -> tuple[int | None, int | None]:
    """The end offset and epoch of the last valid batch, from the last segment with one."""
    segments = list(zip(task.bases, task.sizes, strict=True))
    for at in range(len(segments) - 1, -1, -1):
        base, size = segments[at]
        for low in dict.fromkeys(max(0, size - tail) for tail in (*TAILS_BYTES, size)):
            part = Slice(
                replica=task.replica,
                folder=task.folder,
                path=segment_path(task.folder, base),
                source="log",
                low=low,
                high=size,
                size_bytes=size,
                base=base,
                next_base=None if at == len(segments) - 1 else 0,
            )
            last = None
            for found in scan(part, settle_ms=settle_ms):
                if isinstance(found, Problem) and found.kind == UNREADABLE:
                    return None, None  # The end of the log is in a file that cannot be read.
                last = found.headers if isinstance(found, BatchRun) else last
            if last is not None:
                return int(last.last_offset[-1]) + 1, int(last.epoch[-1])
        if at == 0:
            return base, None
    return None, None

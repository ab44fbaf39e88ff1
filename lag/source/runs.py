"""Runs: batches of one copy of the log that follow each other in one epoch, as one value.

A sound log is one run for each epoch. Damage, lost files and headers that contradict each other
divide it into more. So the runs of all copies are few, and enough to decide which copy supplies
which part of the quorum's log. No Spark.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np


class Run(NamedTuple):
    """Consecutive batches of one copy, all of one epoch."""

    replica: str
    epoch: int
    first: int
    end: int
    """Exclusive."""
    first_ms: int | None = None
    """The least append time at the leader,"""
    last_ms: int | None = None
    """and the greatest."""
    first_here_ms: int | None = None
    """The least append time at the replica, if known,"""
    last_here_ms: int | None = None
    """and the greatest."""
    least_delay_ms: int | None = None
    """The least difference of the append times of a batch here and at the leader."""
    timed: int = 0
    """The number of batches with a known append time here."""
    batches: int = 1
    """The number of batches; 0 for a damaged batch with a legible header, whose content is lost."""
    path: str | None = None
    """The file; None if unknown, as for batches that are not read from files."""
    position: int = 0
    """The position of the first batch in the file,"""
    end_position: int = 0
    """and the position after the last."""
    elects: bool = False
    """True if the first batch has the record of a new leader, with which every epoch begins."""
    crc: int = 0
    """The checksum of the first batch."""
    said_by_index: bool | None = None
    """For a single batch: true if the index of append times has it, false if it has another epoch
    there."""


_LEAST: Final = ("first", "first_ms", "first_here_ms", "least_delay_ms")
_GREATEST: Final = ("end", "last_ms", "last_here_ms")
_SUMMED: Final = ("timed", "batches")


def runs_of(replica: str, rows: Mapping[str, Any], **files: Any) -> Iterator[Run]:
    """The runs of these batches, given as columns (`batches.columns_of`).

    `files` has more columns by the fields of `Run`: path, position, end_position, elects, crc.
    """
    count = len(rows["base_offset"])
    if not count:
        return
    ends = rows["last_offset"] + 1
    begins = np.ones(count, np.bool_)
    begins[1:] = (rows["base_offset"][1:] != ends[:-1]) | (np.diff(rows["epoch"]) != 0)
    elects = files.get("elects")
    if elects is not None:
        begins |= elects
    firsts = np.nonzero(begins)[0]
    lasts = np.append(firsts[1:], count) - 1
    there, here = rows["leader_append_ms"], rows["local_append_ms"]
    is_timed, is_known = rows["leader_append_known"], rows["local_append_known"]
    columns = {
        "epoch": rows["epoch"][firsts].tolist(),
        "first": rows["base_offset"][firsts].tolist(),
        "end": ends[lasts].tolist(),
        "first_ms": _reduced(np.minimum, there, is_timed, firsts),
        "last_ms": _reduced(np.maximum, there, is_timed, firsts),
        "first_here_ms": _reduced(np.minimum, here, is_known, firsts),
        "last_here_ms": _reduced(np.maximum, here, is_known, firsts),
        "least_delay_ms": _reduced(np.minimum, here - there, is_timed & is_known, firsts),
        "timed": np.add.reduceat(is_known.astype(np.int64), firsts).tolist(),
        "batches": (lasts - firsts + 1).tolist(),
    }
    for name, column in files.items():
        at = lasts if name == "end_position" else firsts
        columns[name] = [column] * len(firsts) if isinstance(column, str) else column[at].tolist()
    for values in zip(*columns.values(), strict=True):
        yield Run(replica=replica, **dict(zip(columns, values, strict=True)))


def _reduced(how: Any, values: Any, known: Any, firsts: Any) -> list[int | None]:
    """The least or greatest known value of each run; None if it has none."""
    worst = np.iinfo(np.int64).max if how is np.minimum else np.iinfo(np.int64).min
    found = how.reduceat(np.where(known, values, worst), firsts)
    return [None if value == worst else value for value in found.tolist()]


def joined(runs: Iterable[Run]) -> list[Run]:
    """Join runs of one file that continue each other; they have to be in order."""
    found: list[Run] = []
    for run in runs:
        if found and _continues(found[-1], run):
            found[-1] = both(found[-1], run)
        else:
            found.append(run)
    return found


def _continues(run: Run, following: Run) -> bool:
    same_file = (run.path, run.end_position) == (following.path, following.position)
    return same_file and is_continued(run, following)


def is_continued(run: Run, following: Run) -> bool:
    """True if the batches of the other run are the next ones in the same epoch of the same copy."""
    return (
        (run.replica, run.epoch, run.end) == (following.replica, following.epoch, following.first)
        and not following.elects
        and min(run.batches, following.batches) > 0
    )


def both(run: Run, other: Run) -> Run:
    """One run in place of two parts of one epoch of one copy, of which `run` is the first."""
    changed: dict[str, Any] = {"end_position": other.end_position, "said_by_index": None}
    for names, how in ((_LEAST, min), (_GREATEST, max), (_SUMMED, sum)):
        for name in names:
            values = [v for each in (run, other) if (v := getattr(each, name)) is not None]
            changed[name] = how(values) if values else None
    return run._replace(**changed)

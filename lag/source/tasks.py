"""The tasks of workers: ranges of files, or something found while planning.

A task is plain data. A slice has everything about its surroundings, so that no task reads another's
file. A share has as little as possible, because the driver makes and keeps one for each task of a
read: the worker makes the slices.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from lag.source.files import join
from lag.source.problems import Problem
from quorum.log.append_times import SUFFIX

FILE: Final = "file"
ROWS: Final = "rows"
MARK: Final = "mark"


def segment_path(folder: str, base: int) -> str:
    """The path of the segment that begins at this offset."""
    return join(folder, f"{base:020}.log")


def index_path(folder: str, base: int) -> str:
    """The path of its index of append times."""
    return join(folder, f"{base:020}{SUFFIX}")


class Pick(NamedTuple):
    """A part of a file to read, instead of all files."""

    path: str
    low: int
    """The first byte, where a batch begins."""
    high: int
    """The byte after the last."""
    first: int
    """The first offset."""
    end: int
    """The offset after the last."""
    borrower: str | None = None
    """The replica that lost these batches, whose index of append times may still have them; None
    for that of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A range of bytes of one segment or snapshot."""

    replica: str
    folder: str
    path: str
    source: str
    """`log` or `snapshot`."""
    low: int
    high: int
    size_bytes: int
    """Size of the file when it was divided."""
    base: int
    """The expected first offset of the file."""
    next_base: int | None = None
    """The base offset of the next segment; None for the newest, and for a snapshot."""
    index: str | None = None
    """The index of append times of the segment, if there is one."""
    span: "Span | None" = None
    """In a stream: the new part of the log."""
    is_continued: bool = False
    """In a stream: true if it continues where the previous slice ended."""
    wanted: tuple[int, int] | None = None
    """The offsets [first, end) to read; None for all."""
    is_borrowed: bool = False
    """True if `replica` and `index` are those of another replica, which lost these batches."""

    @property
    def due(self) -> int | None:
        """The expected offset at the start of the slice; None if unknown."""
        if self.low == 0:
            return self.base
        # The first slice of a stream continues after the batches already returned.
        return self.span.low if self.span is not None and self.is_continued else None

    @property
    def generation(self) -> int:
        """The number of truncations of the log before it was read, as far as known."""
        return 0 if self.span is None else self.span.generation

    @property
    def is_newest(self) -> bool:
        """True if the file may still be appended to."""
        return self.source == "log" and self.next_base is None

    @property
    def is_last(self) -> bool:
        """True if the slice reaches the end of its file."""
        return self.high >= self.size_bytes


class SegmentRange(NamedTuple):
    """A range of bytes of a segment that was not opened yet."""

    base: int
    """The first offset, by the name of the file."""
    next_base: int | None
    size_bytes: int
    low: int
    high: int
    is_indexed: bool
    """True if it has an index of append times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Ranges of the segments of one log, for one task."""

    replica: str
    folder: str
    ranges: tuple[SegmentRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The offsets [`low`, `high`) of a log with these epochs; other batches are skipped."""

    low: int
    high: int
    epochs: tuple[tuple[int, int], ...]
    """Epochs and their first offsets, rising."""
    generation: int = 0
    """The number of truncations of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """In a stream: a row about the offsets from `low` on, before later rows."""

    replica: str
    path: str
    mark: str
    low: int
    high: int
    epoch: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProblems:
    """Problems that were found while planning, each with its replica."""

    problems: tuple[tuple[str, Problem], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFolder:
    """A log folder, for its row of the table `replicas`."""

    folder: str
    replica: str
    node_id: int | None
    directory_id: str | None
    cluster_id: str | None
    bases: tuple[int, ...]
    """The base offsets of the segments,"""
    sizes: tuple[int, ...]
    """and their sizes."""
    snapshots: tuple[str, ...]
    indexes: tuple[str, ...]


Task = Share | Slice | Mark | FoundProblems | ReplicaFolder

"""What one task reads: a range of a file, or what was found out about a folder beforehand.

A slice is plain data, for it travels to a worker. It knows what lies around its file, so that no
task has to look at another's.
"""

from dataclasses import dataclass
from typing import Final

from lag.source.problems import Problem

FILE: Final = "file"
ROWS: Final = "rows"
MARK: Final = "mark"


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
    """Of the file, when it was divided."""
    base: int
    """The offset with which the file ought to begin."""
    next_base: int | None = None
    """With which the next segment begins; None of the newest, and of a snapshot."""
    index: str | None = None
    """The index of append times beside a segment, if there is one."""
    span: "Span | None" = None
    """In a stream: which part of the log is new."""
    is_continued: bool = False
    """In a stream: whether it begins where the one before it ended."""

    @property
    def due(self) -> int | None:
        """The offset with which the slice ought to begin; None where nobody knows."""
        if self.low == 0:
            return self.base
        # Of a stream's slices the first goes on where the batches before it were told.
        return self.span.low if self.span is not None and self.is_continued else None

    @property
    def generation(self) -> int:
        """How often the log had been truncated when it was read, as far as is known."""
        return 0 if self.span is None else self.span.generation

    @property
    def is_newest(self) -> bool:
        """Whether its file may still be appended to."""
        return self.source == "log" and self.next_base is None

    @property
    def is_last(self) -> bool:
        """Whether it reaches to the end of its file."""
        return self.high >= self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets [`low`, `high`) of a log that had these epochs: what else is there is left out."""

    low: int
    high: int
    epochs: tuple[tuple[int, int], ...]
    """Epoch and first offset, rising."""
    generation: int = 0
    """How often the log had been truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """In a stream: a row that says what became of the offsets from `low` on, before others come."""

    replica: str
    path: str
    mark: str
    low: int
    high: int
    epoch: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Problems that were found while the work was divided, each with its replica."""

    problems: tuple[tuple[str, Problem], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFolder:
    """The folder of a log, for its one row of the table `replicas`."""

    folder: str
    replica: str
    node_id: int | None
    directory_id: str | None
    cluster_id: str | None
    segments: tuple[str, ...]
    sizes: tuple[int, ...]
    snapshots: tuple[str, ...]
    has_append_times: bool


Task = Slice | Mark | Told | ReplicaFolder

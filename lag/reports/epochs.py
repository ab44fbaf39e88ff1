"""The epochs of the quorum's log, and the copies that hold them.

Every replica has a copy; that of a dead one may end with records that are not in the quorum's log.
The *quorum's log* is the most up-to-date copy (Raft's order: last epoch, then end offset), extended
below its first record by what other copies still have. Plain values, no Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Span(NamedTuple):
    """The part of one epoch that a replica holds."""

    replica: str
    epoch: int
    first: int
    end: int
    """Exclusive."""
    first_ms: int
    """Append time of its first record at the leader."""
    last_ms: int
    first_here_ms: int | None = None
    """Append time of its first record at the replica, if known."""
    last_here_ms: int | None = None
    least_delay_ms: int | None = None
    """The least difference of the append times of a batch here and at the leader."""
    timed: int = 0
    """The number of batches with a known append time here."""


class EpochSpan(NamedTuple):
    """One epoch of the quorum's log."""

    epoch: int
    first: int
    end: int
    first_ms: int
    last_ms: int


def best_copy(spans: Iterable[Span]) -> str | None:
    """The replica whose log is the quorum's."""
    best = max(spans, key=lambda span: (span.epoch, span.end, -span.first), default=None)
    return None if best is None else best.replica


def quorum_epochs(spans: Sequence[Span]) -> dict[int, EpochSpan]:
    """The epochs of the quorum's log, by number and in order."""
    best = best_copy(spans)
    own = [span for span in spans if span.replica == best]
    begins = min((span.first for span in own), default=0)
    below = [
        span._replace(end=min(span.end, begins))
        for span in spans
        if span.replica != best and span.first < begins
    ]
    found: dict[int, EpochSpan] = {}
    for span in sorted((*own, *below), key=lambda span: span.epoch):
        had = found.get(span.epoch, EpochSpan(span.epoch, *span[2:6]))
        found[span.epoch] = EpochSpan(
            span.epoch,
            min(had.first, span.first),
            max(had.end, span.end),
            min(had.first_ms, span.first_ms),
            max(had.last_ms, span.last_ms),
        )
    return found


class Leader(NamedTuple):
    """The leader of an epoch."""

    node_id: int
    replica: str | None
    """The replica with its log, if it was read."""
    voters: list[int] | None


def leaders(
    rows: Iterable[Mapping[str, Any]],
    replicas: Iterable[Mapping[str, Any]],
    quorum: Mapping[int, EpochSpan],
) -> dict[int, Leader]:
    """The leaders of the epochs of the quorum's log, from rows of `epochs` and `replicas`.

    Of several folders of a node the first by name counts.
    """
    names: dict[int, str] = {}
    for row in sorted(replicas, key=lambda row: str(row["replica"]), reverse=True):
        if row["node_id"] is not None:
            names[row["node_id"]] = row["replica"]
    return {
        row["epoch"]: Leader(row["leader"], names.get(row["leader"]), row["voters"])
        for row in rows
        if row["epoch"] in quorum and row["leader"] is not None and row["leader"] >= 0
    }

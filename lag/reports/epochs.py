"""The quorum's log, as far as its epochs tell: what of which copy is part of it.

Every replica holds a copy, the dead may hold records at its end that the quorum has given up. The
*quorum's log* is the copy whose end is the most up to date (Raft's order: last epoch, then end
offset), and below its first record what other copies still have. Plain values, no Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Span(NamedTuple):
    """What one replica holds of one epoch."""

    replica: str
    epoch: int
    first: int
    end: int
    """Exclusive."""
    first_ms: int
    """When the leader appended the first of it."""
    last_ms: int
    first_here_ms: int | None = None
    """When the replica appended the first of it, as far as it knows."""
    last_here_ms: int | None = None
    least_delay_ms: int | None = None
    """The least that any batch came later here than at the leader, by the two clocks."""
    timed: int = 0
    """Of how many batches it knows when it appended them."""


class EpochSpan(NamedTuple):
    """One epoch of the quorum's log."""

    epoch: int
    first: int
    end: int
    first_ms: int
    last_ms: int


def best_copy(spans: Iterable[Span]) -> str | None:
    """Whose log is the quorum's."""
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
    """Who led an epoch."""

    node_id: int
    replica: str | None
    """Its log, where it is among those that were read."""
    voters: list[int] | None


def leaders(
    rows: Iterable[Mapping[str, Any]],
    replicas: Iterable[Mapping[str, Any]],
    quorum: Mapping[int, EpochSpan],
) -> dict[int, Leader]:
    """Who led each epoch of the quorum's log; from rows of the tables `epochs` and `replicas`.

    Of several folders of one node the first by name is taken for it.
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

"""The epochs of the quorum's log, and the copies that hold them. Plain values, no Spark."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lag.reports.quorum_log import QuorumLog
from lag.source.runs import Run, both


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


def spans(runs: Iterable[Run]) -> list[Span]:
    """The part of each epoch that each replica holds, from its runs."""
    found: dict[tuple[str, int], Run] = {}
    for run in runs:
        key = (run.replica, run.epoch)
        found[key] = both(found[key], run) if key in found else run
    return [Span(**{name: getattr(run, name) for name in Span._fields}) for run in found.values()]


class EpochSpan(NamedTuple):
    """One epoch of the quorum's log, as far as it is known."""

    epoch: int
    first: int
    end: int
    first_ms: int
    last_ms: int
    begins_known: bool = True
    """False if the epoch may have begun earlier, in a hole or before the start of the log."""
    ends_known: bool = True
    """False if it may have ended later, in a hole."""


def quorum_epochs(log: QuorumLog) -> dict[int, EpochSpan]:
    """The epochs of the quorum's log, by number and in order."""
    found: dict[int, EpochSpan] = {}
    ends = {piece.end for piece in log.pieces}
    begins = {piece.first for piece in log.pieces}
    for piece in log.pieces:
        assert piece.first_ms is not None, "times were looked up"
        assert piece.last_ms is not None
        is_first = piece.first == 0 or piece.elects or piece.first in ends
        own = EpochSpan(
            piece.epoch, piece.first, piece.end, piece.first_ms, piece.last_ms, is_first, True
        )
        had = found.get(piece.epoch, own)
        is_last = piece.end == log.end or piece.end in begins
        found[piece.epoch] = EpochSpan(
            piece.epoch,
            had.first,
            piece.end,
            min(had.first_ms, own.first_ms),
            max(had.last_ms, own.last_ms),
            had.begins_known,
            is_last,
        )
    return found


def until(
    quorum: Mapping[int, EpochSpan], end: int, last_ms: int | None, *, ends_known: bool = True
) -> dict[int, EpochSpan]:
    """The epochs when the quorum's log ended at `end`, with a last record appended at `last_ms`.

    `ends_known` is false if a hole begins there.
    """
    found = {number: each for number, each in quorum.items() if each.first < end}
    for number, each in found.items():
        if each.end > end:
            last = each.last_ms if last_ms is None else last_ms
            found[number] = each._replace(end=end, last_ms=last, ends_known=ends_known)
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

    The record of a leader is the first of its epoch. Of several folders of a node the first by name
    counts.
    """
    names: dict[int, str] = {}
    for row in sorted(replicas, key=lambda row: str(row["replica"]), reverse=True):
        if row["node_id"] is not None:
            names[row["node_id"]] = row["replica"]
    return {
        row["epoch"]: Leader(row["leader"], names.get(row["leader"]), row["voters"])
        for row in rows
        if row["leader"] is not None and row["leader"] >= 0 and _is_first(row, quorum)
    }


def _is_first(row: Mapping[str, Any], quorum: Mapping[int, EpochSpan]) -> bool:
    """True if the record begins an epoch of the quorum's log."""
    epoch = quorum.get(row["epoch"])
    return epoch is not None and epoch.begins_known and row["start_offset"] == epoch.first

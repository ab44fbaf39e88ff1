"""How far each replica was behind, in windows of time and in all; from what was measured.

Percentiles are over time, since a lag that lasts is worse than one that does not. Plain values, no
Spark.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lag.reports.epochs import EpochSpan, Span
from lag.reports.parts import Part
from lag.reports.sampling import WHOLE
from lag.reports.schemas import REPLICA_LAG, REPLICATION_LAG
from lag.reports.scope import Scope

Row = dict[str, Any]
Parts = Mapping[tuple[str, int], Part]


def replication_lag(measured: Iterable[Row], known: Parts, scope: Scope) -> list[Row]:
    """The report `replication_lag`; `known` are the parts of the logs (`parts.parts`)."""
    found = [
        {**row, **scope.bounds_of(row["window"]), "clock_ms": _clock_ms(row["replica"], known)}
        for row in measured
        if row["window"] != WHOLE
    ]
    found.sort(key=lambda row: (row["replica"], row["window"]))
    return [{name: row[name] for name in REPLICATION_LAG.names} for row in found]


def _clock_ms(replica: str, known: Parts) -> int | None:
    """What was taken out of its clock, in the last epoch that it has."""
    own = [part for part in known.values() if part.replica == replica]
    return max(own, key=lambda part: part.epoch).clock_ms if own else None


def replica_lag(
    measured: Iterable[Row],
    ends: Mapping[str, Row],
    replicas: Iterable[Mapping[str, Any]],
    known: Parts,
) -> list[Row]:
    """The report `replica_lag`: over the whole time, with where each log ends (`ends`)."""
    whole = {row["replica"]: row for row in measured if row["window"] == WHOLE}
    found = []
    for replica in sorted(replicas, key=lambda row: str(row["replica"])):
        name = replica["replica"]
        clock = {"clock_ms": _clock_ms(name, known)}
        row = {**replica, **whole.get(name, {}), **clock, **ends.get(name, {})}
        found.append({column: row.get(column) for column in REPLICA_LAG.names})
    return found


def ends(
    spans: Iterable[Span],
    known: Parts,
    quorum: Mapping[int, EpochSpan],
    appended_ms: Mapping[int, int],
    end_ms: int,
) -> dict[str, Row]:
    """Where the log of each replica ends, compared with the quorum's: that needs no append times.

    `appended_ms` says when the leader appended what begins at an offset.
    """
    per_replica: dict[str, list[Span]] = {}
    for span in spans:
        per_replica.setdefault(span.replica, []).append(span)
    quorum_end = max((epoch.end for epoch in quorum.values()), default=0)
    found = {}
    for replica, own in per_replica.items():
        log_end = max(span.end for span in own)
        shared_end = max((min(s.end, p.epoch_end) for s, p in _with_parts(own, known)), default=0)
        behind = quorum_end - shared_end
        since_ms = appended_ms.get(shared_end) if behind else None
        found[replica] = {
            "log_end": log_end,
            "last_epoch": max(span.epoch for span in own),
            "records_behind": behind,
            "records_diverging": log_end - shared_end,
            "waits_since_ms": since_ms,
            "last_append_ms": last_append_ms(own, known),
            "lag_ms": _lag_ms(behind, since_ms, end_ms),
        }
    return found


def _lag_ms(behind: int, since_ms: int | None, end_ms: int) -> int | None:
    if not behind:
        return 0
    return None if since_ms is None else max(0, end_ms - since_ms)


def _with_parts(spans: Iterable[Span], known: Parts) -> list[tuple[Span, Part]]:
    keys = [(span, (span.replica, span.epoch)) for span in spans]
    return [(span, known[key]) for span, key in keys if key in known]


def last_append_ms(spans: Iterable[Span], known: Parts) -> int | None:
    """When it appended last, by the clock of the leader."""
    times = [
        (span.epoch, span.last_ms if part.is_leader else span.last_here_ms - part.clock_ms)
        for span, part in _with_parts(spans, known)
        if span.last_here_ms is not None
    ]
    # The last, and not the greatest: an earlier leader's clock may have been ahead.
    return max(times)[1] if times else None


def cut(measured: Iterable[Row], ends_: Mapping[str, Row], end_ms: int) -> dict[str, Row]:
    """`ends` of a report that is over before the logs are: as far as append times tell."""
    found = {}
    for row in measured:
        if row["window"] == WHOLE and row["replica"] in ends_:
            behind, lag_ms = row["records_behind"], row["lag_ms"]
            found[row["replica"]] = {
                **ends_[row["replica"]],
                "records_behind": behind,
                "lag_ms": lag_ms,
                "waits_since_ms": end_ms - lag_ms if behind and lag_ms is not None else None,
                "last_append_ms": row["last_append_ms"],
            }
    return found

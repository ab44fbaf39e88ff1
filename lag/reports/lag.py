"""The lag of each replica: sampled at even intervals, then summed up per window and in total.

At time t a replica's log ends with the last batch that it had by then. Its lag in ms is the time
since the leader appended the next batch, or 0 if the leader had not. Lag peaks just before a batch
arrives; these peaks are kept exactly, besides the samples. Percentiles are over time, so that a lag
that lasts weighs more. Plain values, no Spark.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final, NamedTuple

from lag.reports import offset_ranges
from lag.reports.clocks import EpochPart
from lag.reports.epochs import EpochSpan, Span
from lag.reports.holes import NONE, Holes, blanked, names
from lag.reports.offset_ranges import Range
from lag.reports.quorum_log import QuorumLog
from lag.reports.schemas import REPLICA_LAG, REPLICATION_LAG
from lag.reports.scope import Scope

WHOLE: Final = -1
"""The window number of the whole time."""
_PERCENTILES: Final = (("p50_ms", 0.50), ("p95_ms", 0.95), ("p99_ms", 0.99))


class Bucket(NamedTuple):
    """The arrivals at a replica between two samples: after the previous one, up to this one."""

    sample: int
    came_to: int
    """The end of its log then."""
    peak_ms: int | None
    """The greatest lag, just before an arrival; None before the report begins."""
    peak_at_ms: int | None
    last_ms: int | None
    """Time of the last arrival."""


class LeaderTimeline(NamedTuple):
    """The leader's log over time, against which lag is measured."""

    ends: Sequence[int | None]
    """The end of its log at each sample, from number 1 on."""
    appended_ms: Mapping[int, int]
    """The append time of the batch at each offset where a log ended at a sample."""
    last_ms: int | None = None
    """The time of its last append before the end of the report."""
    lost: Sequence[Range] = ()
    """The offsets that no copy has."""
    unsure: Sequence[Range] = ()
    """The numbers of the samples at which records may have been appended that no copy has."""


class Lost(NamedTuple):
    """Offsets of which nothing is known at a replica, or at any."""

    ranges: Sequence[Range] = ()
    across: Sequence[Range] = ()
    """Those of them that an election may be in or beside. Their times are by another clock than
    those of the batches beside them, and may be earlier than the one and later than the other."""
    clocks_ms: int = 0
    """By how much, at most."""

    def unsure(
        self, ends: Sequence[int | None], scope: Scope, *, both: bool = False
    ) -> list[Range]:
        """The numbers of the samples at which a log may have ended with some of `across`.

        `ends` is its known end at each sample, from number 0 on. With `both`, the samples count as
        well at which some may have arrived although later ones had.
        """
        reach = -(-self.clocks_ms // scope.step_ms)
        known = [-1 if end is None else end for end in ends]
        found = []
        for first, end in self.across:
            reached, passed = bisect_left(known, first), bisect_right(known, end)
            if reached < len(known):
                found.append((max(0, reached - reach), passed + (reach + 1 if both else 0)))
        return offset_ranges.union(found)


NOTHING_LOST: Final = Lost()


class Sample(NamedTuple):
    """A replica at one moment; None is unknown."""

    t_ms: int
    log_end: int | None
    behind: int | None
    lag_ms: int | None
    is_lost: bool = False
    """True if records arrived since the sample before, or were awaited, of which nothing is known
    because they are lost."""


def samples(
    buckets: Iterable[Bucket],
    unknown: frozenset[int],
    leading: LeaderTimeline,
    scope: Scope,
    lost: Lost = NOTHING_LOST,
) -> Iterator[Sample]:
    """The replica at each sample.

    `unknown` are the start offsets of batches that it has since an unknown time, so that it is
    unknown too whether it was waiting for one of them.
    """
    came = {bucket.sample: bucket.came_to for bucket in buckets}
    ends = [came.get(0)]
    for number in range(1, len(leading.ends) + 1):
        ends.append(max(ends[-1] or 0, came[number]) if number in came else ends[-1])
    unsure, beside = lost.unsure(ends, scope), lost.unsure(ends, scope, both=True)
    for number, leader_end in enumerate(leading.ends, 1):
        t_ms, before, log_end = scope.sample_at(number), ends[number - 1], ends[number]
        is_awaited = offset_ranges.holds(lost.ranges, log_end or 0)
        is_awaited |= offset_ranges.holds(leading.lost, leader_end or 0)
        is_unsure = any(offset_ranges.holds(each, number) for each in (unsure, leading.unsure))
        is_lost = (
            is_awaited
            or is_unsure
            or offset_ranges.holds(beside, number)
            or offset_ranges.begins(lost.ranges, before or 0, log_end or 0)
        )
        is_hidden = is_awaited or is_unsure or log_end in unknown
        if is_hidden or log_end is None or leader_end is None:
            yield Sample(t_ms, None, None, None, is_lost)
        elif log_end >= leader_end:
            yield Sample(t_ms, log_end, 0, 0, is_lost)
        else:
            since_ms = leading.appended_ms.get(log_end)
            lag_ms = None if since_ms is None else max(0, t_ms - since_ms)
            yield Sample(t_ms, log_end, leader_end - log_end, lag_ms, is_lost)


def percentile(values: Sequence[int], share: float) -> int | None:
    """The smallest of sorted values that a `share` of them does not exceed."""
    return values[max(0, ceil(share * len(values)) - 1)] if values else None


def measures(taken: Sequence[Sample], peaks: Iterable[Bucket]) -> dict[str, Any]:
    """The columns of lag for a range of samples."""
    known = [(each.lag_ms, each.t_ms) for each in taken if each.lag_ms is not None]
    in_order = sorted(lag for lag, _ in known)
    at_peaks = [
        (each.peak_ms, each.peak_at_ms)
        for each in peaks
        if each.peak_ms is not None and each.peak_at_ms is not None
    ]
    # The greatest first, and of those the earliest.
    worst = max((*known, *at_peaks), key=lambda each: (each[0], -each[1]), default=None)
    behind = [each.behind for each in taken if each.behind is not None]
    last = taken[-1]
    if any(each.is_lost for each in taken):
        # What is lost may have been the greatest, and its time counts.
        in_order, worst, behind = [], None, []
    return {
        "log_end": last.log_end,
        "records_behind": last.behind,
        "records_behind_max": max(behind, default=None),
        "lag_ms": last.lag_ms,
        **{name: percentile(in_order, share) for name, share in _PERCENTILES},
        "max_ms": None if worst is None else worst[0],
        "worst_at_ms": worst[1] if worst is not None and worst[0] else None,
        "trend_ms_per_s": _slope([(t_ms / 1_000, lag) for lag, t_ms in known if in_order]),
        "samples": len(known),
    }


def _slope(points: Sequence[tuple[float, int]]) -> float | None:
    """The slope of the points by least squares."""
    if len(points) < 2:
        return None
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread


def windows(
    buckets: Sequence[Bucket],
    unknown: frozenset[int],
    leading: LeaderTimeline,
    scope: Scope,
    lost: Lost = NOTHING_LOST,
) -> Iterator[dict[str, Any]]:
    """A row per window, and one for the `WHOLE` with the lag at each sample."""
    every = list(samples(buckets, unknown, leading, scope, lost))
    taken = [sample for sample in every if sample.t_ms >= scope.least_ms]
    peaks = [bucket for bucket in buckets if bucket.peak_ms is not None]
    per_window: dict[int, tuple[list[Sample], list[Bucket]]] = {}
    for sample in taken:
        per_window.setdefault(scope.window_at(sample.t_ms), ([], []))[0].append(sample)
    for peak in peaks:
        assert peak.peak_at_ms is not None
        window = per_window.get(scope.window_at(peak.peak_at_ms))
        if window is not None:
            window[1].append(peak)
    for number, (of_window, peaks_of_window) in per_window.items():
        yield {"window": number, **measures(of_window, peaks_of_window), "lags": None}
    whole = measures(taken, peaks)
    last_ms = last_arrival_ms(buckets, scope, lost)
    lags = [each.lag_ms for each in every]
    yield {"window": WHOLE, **whole, "last_append_ms": last_ms, "lags": lags}


def last_arrival_ms(
    buckets: Iterable[Bucket], scope: Scope, lost: Lost = NOTHING_LOST
) -> int | None:
    """Time of the last arrival before the end of the report, if known."""
    there = (bucket for bucket in buckets if bucket.sample <= scope.samples)
    last = max(there, key=lambda bucket: bucket.came_to, default=None)
    if last is None or offset_ranges.holds(lost.ranges, last.came_to):
        return None
    return last.last_ms


Row = dict[str, Any]
Parts = Mapping[tuple[str, int], EpochPart]


def replication_lag(
    measured: Iterable[Row], known: Parts, scope: Scope, holes: Holes = NONE
) -> list[Row]:
    """The report `replication_lag`; `known` are the parts of the logs (`clocks.parts`)."""
    found = [
        {**row, **scope.bounds_of(row["window"]), "clock_ms": _clock_ms(row["replica"], known)}
        for row in measured
        if row["window"] != WHOLE
    ]
    found = blanked(found, scope, holes, ())
    found.sort(key=lambda row: (row["replica"], row["window"]))
    return [{name: row[name] for name in REPLICATION_LAG.names} for row in found]


def _clock_ms(replica: str, known: Parts) -> int | None:
    """The correction of its clock in its last epoch."""
    own = [part for part in known.values() if part.replica == replica]
    return max(own, key=lambda part: part.epoch).clock_ms if own else None


def replica_lag(
    measured: Iterable[Row],
    ends: Mapping[str, Row],
    replicas: Iterable[Mapping[str, Any]],
    known: Parts,
    holes: Holes = NONE,
) -> list[Row]:
    """The report `replica_lag`: the whole time, and the end of each log (`ends`)."""
    whole = {row["replica"]: row for row in measured if row["window"] == WHOLE}
    found = []
    for replica in sorted(replicas, key=lambda row: str(row["replica"])):
        name = replica["replica"]
        clock = {"clock_ms": _clock_ms(name, known), "hole": names(holes.holes)}
        row = {**replica, **whole.get(name, {}), **clock, **ends.get(name, {})}
        found.append({column: row.get(column) for column in REPLICA_LAG.names})
    return found


def ends(
    spans: Iterable[Span],
    known: Parts,
    log: QuorumLog,
    appended_ms: Mapping[int, int],
    end_ms: int,
) -> dict[str, Row]:
    """The end of each replica's log compared with the quorum's; this needs no append times.

    `appended_ms` has the append times at the leader by offset.
    """
    per_replica: dict[str, list[Span]] = {}
    for span in spans:
        per_replica.setdefault(span.replica, []).append(span)
    found = {}
    for replica, own in per_replica.items():
        shared_end, known_end = log.shared[replica], max(span.end for span in own)
        last_epoch, reached = log.reached.get(replica, (0, 0))
        log_end = max(shared_end, reached, known_end)
        behind = log.end - shared_end
        since_ms = appended_ms.get(shared_end) if behind else None
        row = {
            "log_end": log_end,
            "last_epoch": max(last_epoch, *(span.epoch for span in own)),
            "records_behind": behind + offset_ranges.size(log.lost[replica]),
            "records_lost": offset_ranges.size(log.lost[replica]),
            "records_diverging": log_end - shared_end,
            "waits_since_ms": since_ms,
            # Of damaged batches at its end, that no copy has, only the offsets are known.
            "last_append_ms": last_append_ms(own, known) if log_end == known_end else None,
            "lag_ms": _lag_ms(behind, since_ms, end_ms),
        }
        if replica in log.undecided:
            row |= dict.fromkeys(_UNDECIDED)
        found[replica] = row
    return found


_UNDECIDED: Final = ("records_behind", "records_diverging", "waits_since_ms", "lag_ms")
"""The columns that are unknown if records of a replica may be in the quorum's log or not."""


def _lag_ms(behind: int, since_ms: int | None, end_ms: int) -> int | None:
    if not behind:
        return 0
    return None if since_ms is None else max(0, end_ms - since_ms)


def _with_parts(spans: Iterable[Span], known: Parts) -> list[tuple[Span, EpochPart]]:
    keys = [(span, (span.replica, span.epoch)) for span in spans]
    return [(span, known[key]) for span, key in keys if key in known]


def last_append_ms(spans: Iterable[Span], known: Parts) -> int | None:
    """Time of the last append, by the clock of the leader."""
    times = [
        (span.epoch, span.last_ms if part.is_leader else span.last_here_ms - part.clock_ms)
        for span, part in _with_parts(spans, known)
        if span.last_here_ms is not None
    ]
    # The last, not the greatest: the clock of an earlier leader may have been ahead.
    return max(times)[1] if times else None


def cut(
    measured: Iterable[Row],
    ends_: Mapping[str, Row],
    spans: Sequence[Span],
    known: Parts,
    log: QuorumLog,
    quorum: Mapping[int, EpochSpan],
    end_ms: int,
) -> dict[str, Row]:
    """The `ends` of a report that ends before the logs do, as far as append times tell."""
    found = {}
    for row in measured:
        if row["window"] == WHOLE and row["replica"] in ends_:
            whole = ends_[row["replica"]]
            own = [span for span in spans if span.replica == row["replica"]]
            behind, lag_ms = row["records_behind"], row["lag_ms"]
            lacks, log_end = None, None
            if behind is not None and row["log_end"] is not None:
                lost = log.lost.get(row["replica"], ())
                lacks = sum(max(0, min(high, row["log_end"]) - low) for low, high in lost)
            diverging = _diverging_by(end_ms, own, known, whole["records_diverging"])
            if row["log_end"] is not None and diverging is not None:
                log_end = row["log_end"] + diverging
            found[row["replica"]] = {
                **whole,
                "log_end": log_end,
                "last_epoch": whole["last_epoch"] if diverging else _epoch_before(log_end, quorum),
                "records_behind": None if lacks is None else behind + lacks,
                "records_lost": lacks,
                "records_diverging": diverging,
                "lag_ms": lag_ms,
                "waits_since_ms": end_ms - lag_ms if behind and lag_ms is not None else None,
                "last_append_ms": row["last_append_ms"],
            }
    return found


def _diverging_by(
    end_ms: int, spans: Iterable[Span], known: Parts, diverging: int | None
) -> int | None:
    """The records that a replica holds besides the quorum's log, if all of them came by then."""
    if not diverging:
        return diverging
    for span in spans:
        part = known.get((span.replica, span.epoch))
        if part is None or span.end > part.shared_end:
            ahead_ms = 0 if part is None else part.clock_ms
            if span.last_here_ms is None or span.last_here_ms - ahead_ms > end_ms:
                return None
    return diverging


def _epoch_before(offset: int | None, quorum: Mapping[int, EpochSpan]) -> int | None:
    """The epoch of the last record before this offset of the quorum's log."""
    if offset is None:
        return None
    return next((each.epoch for each in quorum.values() if each.first < offset <= each.end), None)

"""Views of the page's sections about the quorum: status, lag, leaders, voters, commits, clocks."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from lag.output.charts import Chart, Mark, Series, Span, lines, responsive, spans
from lag.output.charts import Row as Lane
from lag.output.scales import merged
from lag.output.tables import (
    Field,
    Hinted,
    TableView,
    count,
    log_range,
    plain,
    rests_on,
    span,
    table,
    time,
    verdict,
)
from lag.results import SEVERITY, Results, Row, Rows
from lag.units import numbered, show_count, show_span, show_time

View = dict[str, Any]
NAMED_MAX: Final = 12
LINES_MAX: Final = 8
"""The replicas that a chart shows: those furthest behind."""


def status(results: Results) -> View:
    """The state of each replica, the rule that decided it, and the figures behind it."""
    order = {state: place for place, state in enumerate(SEVERITY)}
    rows = sorted(results.rows("status"), key=lambda row: order.get(row["status"], 0))
    fields = [
        plain("replica", "replica"),
        plain("role", "role"),
        verdict("status", "status"),
        plain("rule", "rule"),
        plain("facts", "facts", "text"),
        time("waits since", "since_ms", results, without="–"),
        count("records behind", "records_behind"),
        span("lag", "lag_ms"),
        *rests_on(results),
    ]
    return {"table": table(rows, fields, name="status")}


def lag(results: Results) -> View:
    """Lag over time, in time and in records, and the figures of the whole time."""
    totals = results.rows("replica_lag")
    shown = furthest_behind(totals)
    windows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in results.rows("replication_lag"):
        windows[str(row["replica"])].append(row)
    for rows in windows.values():
        rows.sort(key=lambda row: row["window_start_ms"])
    timed = {row["replica"] for row in results.rows("replicas") if row["has_append_times"]}
    unknown = [str(row["replica"]) for row in totals if row["max_ms"] is None]
    return {
        "window": show_span(results.window_ms),
        "shown": shown,
        "untimed": _listed([each for each in unknown if each not in timed]),
        "hidden": _listed([each for each in unknown if each in timed]),
        "time": _chart(results, windows, shown, "max_ms", "Greatest lag of each replica over time"),
        "records": _chart(
            results,
            windows,
            shown,
            "records_behind_max",
            "Records behind, of each replica over time",
        ),
        "left": numbered(len(totals) - len(shown), "replica") if totals[len(shown) :] else "",
        "totals": _totals(results, totals),
    }


def _listed(replicas: Sequence[str]) -> str:
    return ", ".join(replicas[:NAMED_MAX]) + (", …" if len(replicas) > NAMED_MAX else "")


def furthest_behind(totals: Rows) -> list[str]:
    """The replicas that a chart draws, in the order of the table."""
    ranked = sorted(totals, key=lambda row: (-(row["max_ms"] or 0), -(row["records_behind"] or 0)))
    chosen = {str(row["replica"]) for row in ranked[:LINES_MAX]}
    return [str(row["replica"]) for row in totals if str(row["replica"]) in chosen]


def _chart(
    results: Results, windows: dict[str, list[Row]], shown: Sequence[str], name: str, label: str
) -> Chart | None:
    series = [
        Series(
            replica,
            # The value of a window is drawn at its end, so that no line rises before its cause.
            [(row["window_end_ms"], row[name]) for row in windows.get(replica, ())],
            place,
        )
        for place, replica in enumerate(shown)
    ]
    if not any(value is not None for one in series for _, value in one.points):
        return None
    show = show_span if name.endswith("_ms") else show_count
    between = (results.since_ms, results.until_ms)
    marks, bands = elections(results), moves(results)
    return responsive(
        lambda width: lines(
            width,
            between,
            series,
            marks=marks,
            bands=bands,
            show=show,
            label=label,
            is_log=True,
        )
    )


def elections(results: Results) -> list[Mark]:
    """A mark for each election."""
    return [
        Mark(
            row["elected_at_ms"],
            f"{row['leader']} leads",
            f"epoch {row['epoch']}: {row['leader']} was elected at "
            f"{show_time(row['elected_at_ms'])}",
        )
        for row in results.rows("leadership")
        if row["elected_at_ms"] is not None
        and results.since_ms <= row["elected_at_ms"] <= results.until_ms
    ]


def moves(results: Results) -> list[Span]:
    """The times at which partitions were moving, joined where they nearly touch."""
    times = [
        (row["started_ms"], results.until_ms if row["ended_ms"] is None else row["ended_ms"])
        for row in results.rows("moves")
        if row["started_ms"] is not None
    ]
    gap = max(1, (results.until_ms - results.since_ms) // 400)
    return [
        Span(start, end, "move", f"moves from {show_time(start)} to {show_time(end)}")
        for start, end in merged(times, gap)
    ]


def _totals(results: Results, totals: Rows) -> TableView:
    return table(
        totals,
        [
            plain("replica", "replica"),
            Field("log", log_range, "number"),
            count("records behind", "records_behind"),
            span("lag", "lag_ms"),
            span("p50", "p50_ms"),
            span("p95", "p95_ms"),
            span("p99", "p99_ms"),
            span("max", "max_ms"),
            time("worst at", "worst_at_ms", results),
            time("last append", "last_append_ms", results),
        ],
        name="replica_lag",
    )


def leadership(results: Results) -> View:
    """The term of each leader, and the reason that it ended."""
    rows = results.rows("leadership")
    lanes = [
        Lane(
            f"node {leader}",
            [
                _tenure(row, place)
                for place, row in enumerate(rows)
                if row["leader"] == leader and row["elected_at_ms"] is not None
            ],
        )
        for leader in sorted({row["leader"] for row in rows if row["leader"] is not None})
    ]
    between = (results.since_ms, results.until_ms)
    fields = [
        count("epoch", "epoch"),
        plain("leader", "leader"),
        time("elected", "elected_at_ms", results),
        span("led for", "tenure_ms"),
        span("no leader before", "gap_ms"),
        count("elections lost before", "elections_lost"),
        plain("voters", "voters"),
        verdict("ended", "ended"),
        plain("facts", "facts", "text"),
        *rests_on(results),
    ]
    return {
        "chart": responsive(lambda width: spans(width, between, lanes, label="Who led when")),
        "table": table(rows, fields, name="leadership"),
    }


def _tenure(row: Row, place: int) -> Span:
    began = row["elected_at_ms"]
    # If its end is unknown only its beginning is drawn.
    last_ms = began if row["last_append_ms"] is None else row["last_append_ms"]
    ended = None if row["ended"] == "leading" else last_ms
    return Span(
        began,
        ended,
        "lead" if place % 2 == 0 else "lead other",
        f"epoch {row['epoch']}: from {show_time(began)}, {show_span(row['tenure_ms'])}",
        f"epoch {row['epoch']}",
    )


def voters(results: Results) -> View:
    """The voter assignments in order, and the failures that they could have survived."""
    rows = results.rows("voters")
    lane = Lane(
        "the quorum could lose", [_assignment(row) for row in rows if row["at_ms"] is not None]
    )
    between = (results.since_ms, results.until_ms)
    fields = [
        time("from", "at_ms", results),
        span("for", "duration_ms"),
        Field("voters", lambda row: _voters(row["current"])),
        Field("to be", lambda row: _voters(row["target"] or ())),
        plain("kind", "kind"),
        count("may fail", "tolerates"),
        *(_survived(title, name) for _, name, title in FAILURES),
        span("unknown for", "unknown_ms"),
        *rests_on(results),
    ]
    return {
        "legend": [*((kind, meaning) for kind, _, meaning in FAILURES), ("unclear", "unknown")],
        "chart": responsive(
            lambda width: spans(width, between, [lane], label="How many voters could be lost")
        ),
        "table": table(rows, fields, name="voters"),
    }


def _voters(named: Sequence[str]) -> Hinted | str:
    """The ids, with the directories, which are long, as a tooltip."""
    ids = (voter.partition("@")[0] for voter in named)
    return Hinted(", ".join(ids), ", ".join(named)) if named else "–"


FAILURES: Final = (
    ("two", "survived_2_ms", "two failures or more"),
    ("one", "survived_1_ms", "one failure"),
    ("none", "survived_0_ms", "no failure"),
    ("lost", "no_majority_ms", "no majority"),
)
"""Of each number of survivable failures the colour, the column with its time, and its meaning."""


def _survived(title: str, name: str) -> Field:
    """A time per number of failures; unknown if nothing is known of the whole time."""

    def show(row: Row) -> str:
        is_known = any(row[each] for _, each, _ in FAILURES) or not row["unknown_ms"]
        return show_span(row[name] if is_known else None)

    return Field(f"{title} for", show, "number")


def _assignment(row: Row) -> Span:
    """An assignment in the colour of the longest part of its time."""
    parts = [*FAILURES, ("unclear", "unknown_ms", "unknown")]
    kind, longest, _ = max(parts, key=lambda each: row[each[1]] or 0)
    lasted = [f"{meaning} for {show_span(row[name])}" for _, name, meaning in parts if row[name]]
    names = ", ".join(row["current"])
    return Span(
        row["at_ms"],
        # If its end is unknown only its beginning is drawn.
        row["at_ms"] if row["until_ms"] is None else row["until_ms"],
        kind if row[longest] else "unclear",
        f"{names}, from {show_time(row['at_ms'])}: {', '.join(lasted) or 'unknown'}",
        ", ".join(voter.partition("@")[0] for voter in row["current"]),
    )


def commits(results: Results) -> View:
    """The rate of appends, and the time until a majority had them."""
    rows = sorted(results.rows("commits"), key=lambda row: row["window_start_ms"])
    between = (results.since_ms, results.until_ms)
    rate = [Series("records/s", [(r["window_start_ms"], r["records_per_s"]) for r in rows], 0)]
    names = (("majority_p50_ms", "p50"), ("majority_p99_ms", "p99"), ("majority_max_ms", "max"))
    times = [
        Series(title, [(r["window_start_ms"], r[name]) for r in rows], place)
        for place, (name, title) in enumerate(names)
    ]
    is_known = any(value is not None for one in times for _, value in one.points)
    label = "Time until a majority had what was appended"
    return {
        "are_all": all(row["records"] is not None for row in rows),
        "records": numbered(sum(row["records"] or 0 for row in rows), "record"),
        "batches": _batches(sum(row["batches"] or 0 for row in rows)),
        "rate": responsive(
            lambda width: lines(width, between, rate, label="Records a second over time")
        ),
        "names": [one.name for one in times],
        "times": responsive(
            lambda width: lines(width, between, times, show=show_span, label=label, is_log=True)
        )
        if is_known
        else None,
    }


def _batches(count: int) -> str:
    return f"{count} batch" if count == 1 else f"{count} batches"


def clocks(results: Results) -> View:
    """The bounds of the offsets between clocks."""
    fields = [
        plain("replica", "replica"),
        plain("compared with", "relative_to"),
        verdict("verdict", "verdict"),
        span("ahead by", "estimate_ms"),
        span("give or take", "error_ms"),
        span("at least", "at_least_ms"),
        span("at most", "at_most_ms"),
        count("batches", "batches"),
    ]
    return {"table": table(results.rows("clocks"), fields, name="clocks")}

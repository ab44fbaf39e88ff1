"""Views of the page's sections about moves, brokers, problems and the files."""

from collections import defaultdict
from typing import Any, Final

from lag.output.charts import Chart, Heat, Span, counted, heat, responsive, spans
from lag.output.charts import Row as Lane
from lag.output.tables import (
    Badge,
    Field,
    TableView,
    badge,
    chips,
    count,
    log_range,
    plain,
    rests_on,
    show_value,
    size,
    span,
    table,
    time,
    verdict,
)
from lag.results import Results, Row
from lag.source.problems import HARMLESS
from lag.units import numbered, show_count, show_span, show_time

View = dict[str, Any]
LANES_MAX: Final = 40
"""The moves that the waterfall shows: those that took longest."""
CELLS_MAX: Final = 120
"""The windows of the heat map; if there are more, several share a cell."""

ACTIVITY: Final = (
    ("registrations", "registered"),
    ("fencings", "fenced"),
    ("unfencings", "unfenced"),
    ("isr_shrinks", "left an ISR"),
    ("isr_expands", "came into an ISR"),
    ("moves_in", "moves in"),
    ("moves_out", "moves out"),
)
STATES: Final = {
    "unfenced": "up",
    "fenced": "fenced",
    "registered": "joining",
    "stopping": "joining",
    "unregistered": "gone",
}
"""The colour of each event."""
OUTCOMES: Final = ("completed", "cancelled", "superseded", "gone", "running", "refused")
_COLOURS: Final = {"superseded": "gone", "gone": "whole"}
"""The colours of outcomes that do not share their name with a colour."""
_RANKS: Final = {"stuck": 0, "running": 1, "cancelled": 2, "superseded": 3, "gone": 4}


def moves(results: Results) -> View:
    """The steps of the longest moves, and every move as planned and as it went."""
    rows = results.rows("moves")
    longest = sorted(rows, key=lambda row: -(row["duration_ms"] or 0))[:LANES_MAX]
    ranked = sorted(
        rows, key=lambda row: (_RANKS.get(row["outcome"], 5), -(row["duration_ms"] or 0))
    )
    fields = [
        Field("partition", _name),
        verdict("outcome", "outcome"),
        Field("planned", lambda row: chips(row["from_replicas"] or (), row["planned"] or ())),
        Field("actual", lambda row: chips(row["from_replicas"] or (), row["actual"] or ())),
        plain("as planned", "as_planned"),
        Field("steps", _steps, "number"),
        time("started", "started_ms", results),
        span("took", "duration_ms"),
        Field("slowest replica", _slowest),
        *rests_on(results),
    ]
    return {
        "waterfall": _waterfall(results, sorted(longest, key=_in_order)),
        "drawn": len(longest),
        "left": len(rows) - len(longest),
        "fulfilled": sum(1 for row in rows if row["as_planned"]),
        "total": len(rows),
        "operations": _operations(results),
        "operation_kinds": [(_COLOURS.get(kind, kind), kind) for kind in OUTCOMES],
        "table": table(ranked, fields, name="moves"),
    }


def _waterfall(results: Results, rows: list[Row]) -> Chart | None:
    """The steps of these moves over time; None if no start is known."""
    steps: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in results.rows("move_steps"):
        steps[_key(row)].append(row)
    lanes = [Lane(_name(row), _spans_of(row, steps[_key(row)]), _note(row)) for row in rows]
    starts = [row["started_ms"] for row in rows if row["started_ms"] is not None]
    ends = [results.until_ms if row["ended_ms"] is None else row["ended_ms"] for row in rows]
    if not starts:
        return None
    between = (min(starts), max(max(ends), min(starts) + 1))
    return responsive(
        lambda width: spans(width, between, lanes, label="The steps of the longest moves")
    )


def _in_order(row: Row) -> tuple[int, str, int]:
    return row["started_ms"] or 0, str(row["topic"]), row["partition"]


def _key(row: Row) -> tuple[object, ...]:
    return row["topic_id"], row["partition"], row["number"]


def _name(row: Row) -> str:
    again = f" ({row['number']})" if (row["number"] or 1) > 1 else ""
    return f"{row['topic'] or row['topic_id']}-{row['partition']}{again}"


def _note(row: Row) -> str:
    took = show_span(row["duration_ms"])
    return took if row["outcome"] == "completed" else f"{took}, {row['outcome']}"


def _spans_of(row: Row, steps: list[Row]) -> list[Span]:
    """Two spans for each step: until its last replica has caught up, and from there to its end."""
    drawn = []
    for step in sorted(steps, key=lambda step: step["step"] or 0):
        start, caught, end = step["started_ms"], step["caught_up_ms"], step["ended_ms"]
        if start is None:
            continue
        adding = ",".join(map(str, step["adding"] or ())) or "nothing"
        removing = ",".join(map(str, step["removing"] or ())) or "nothing"
        title = (
            f"{_name(row)}, step {step['step']}: adds {adding}, removes {removing}, "
            f"from {show_time(start)}, {show_span(step['duration_ms'])}"
        )
        if end is None and row["outcome"] == "unknown":
            # Only what is known is drawn.
            end = start if caught is None else caught
        copies = bool(step["adding"])
        until = end if caught is None else caught
        drawn.append(
            Span(start, until, "copy" if copies else "drop", title, f"step {step['step']}")
        )
        if copies and caught is not None:
            drawn.append(Span(caught, end, "drop", title))
    if not drawn and row["started_ms"] is not None:
        drawn.append(Span(row["started_ms"], row["ended_ms"], "whole", _name(row)))
    return drawn


def _steps(row: Row) -> str:
    taken, planned = show_value(row["steps"]), show_value(row["steps_planned"])
    return taken if taken == planned == "unknown" else f"{taken} of {planned}"


def _slowest(row: Row) -> str:
    if row["slowest"] is None:
        return "–"
    return f"{row['slowest']}: {show_span(row['slowest_ms'])}"


def _operations(results: Results) -> Chart | None:
    """Two bars for each move: its partitions as planned, and by outcome."""
    lanes = []
    for row in results.rows("operations")[:LANES_MAX]:
        planned = row["partitions_planned"] or 0
        counts = {kind: row.get(f"partitions_{kind}") or 0 for kind in OUTCOMES}
        counts["running"] = max(0, planned - sum(counts[kind] for kind in OUTCOMES[:4]))
        at, pieces = 0, []
        for kind, number in counts.items():
            if number:
                title = f"{number} {kind}"
                pieces.append(Span(at, at + number, _COLOURS.get(kind, kind), title, title))
                at += number
        name = row["name"] or f"move {row['move_id']}"
        note = f"{row['outcome']} after {show_span(row['duration_ms'])}"
        whole = Span(0, planned, "whole", "planned", "planned")
        lanes.append(Lane(f"{name}: planned", [whole], f"{row['partitions_planned']}"))
        lanes.append(Lane("actual", pieces, note))
    label = "Moves, planned against actual"
    return responsive(lambda width: counted(width, lanes, label=label)) if lanes else None


def topics(results: Results) -> View:
    """The topics, those that changed last first, and their events, the last one first."""
    rows = sorted(results.rows("topics"), key=lambda row: -(row["last_change_ms"] or 0))
    fields = [
        plain("topic", "topic"),
        Field("", lambda row: badge(_state(row))),
        time("created", "created_ms", results, without="before the log"),
        time("deleted", "deleted_ms", results, without="–"),
        count("partitions", "partitions"),
        count("grown", "grown"),
        count("configurations changed", "config_changes"),
        plain("id", "topic_id", "text"),
        *rests_on(results),
    ]
    events = [
        time("at", "at_ms", results),
        plain("topic", "topic"),
        plain("event", "event"),
        Field("", _what, "text"),
        Field("by", _by_whom),
        *rests_on(results),
    ]
    return {
        "table": table(rows, fields, name="topics"),
        "events": table(results.rows("topic_events")[::-1], events, name="topic_events"),
    }


def _state(row: Row) -> str:
    """The state of a topic at the end; a hole may hide that it was deleted."""
    if row["deleted_ms"] is not None:
        return "deleted"
    return "unknown" if row["hole"] else "exists"


def _what(row: Row) -> str:
    """The partitions after an event, or the new value of a configuration."""
    if row["config"] is None:
        return "" if row["partitions"] is None else numbered(row["partitions"], "partition")
    return row["config"] if row["value"] is None else f"{row['config']} = {row['value']}"


def _by_whom(row: Row) -> str:
    return "–" if row["move_id"] is None else f"move {row['move_id']} of {show_value(row['who'])}"


def brokers(results: Results) -> View:
    """The states of the brokers over time, their events, and the figures."""
    between = (results.since_ms, results.until_ms)
    lanes = _states(results)
    activity = _activity(results)
    label = "How much happened to each broker over time"
    fields = [
        plain("broker", "broker_id"),
        verdict("state", "state"),
        time("since", "state_since_ms", results),
        count("starts", "registrations"),
        count("fenced", "fencings"),
        span("fenced for", "fenced_ms"),
        count("left an ISR", "isr_shrinks"),
        count("came into one", "isr_expands"),
        count("moves in", "moves_in"),
        count("moves out", "moves_out"),
        *rests_on(results),
    ]
    return {
        "states": responsive(
            lambda width: spans(width, between, lanes, label="States of brokers over time")
        ),
        "activity": responsive(lambda width: heat(width, between, activity, label=label))
        if activity
        else None,
        "table": table(results.rows("brokers"), fields, name="brokers"),
    }


def _states(results: Results) -> list[Lane]:
    of: defaultdict[int, list[Span]] = defaultdict(list)
    for row in results.rows("broker_events"):
        if row["at_ms"] is not None and row["event"] != "unregistered":
            title = f"broker {row['broker_id']} {row['event']} at {show_time(row['at_ms'])}"
            kind = STATES.get(row["event"], "whole")
            # If its end is unknown only its beginning is drawn.
            until_ms = row["at_ms"] if row["until_ms"] is None else row["until_ms"]
            of[row["broker_id"]].append(Span(row["at_ms"], until_ms, kind, title))
    return [Lane(f"broker {id_}", of[id_]) for id_ in sorted(of)[:LANES_MAX]]


def _activity(results: Results) -> list[Heat]:
    """The number of events of each broker in each cell of the heat map."""
    cells = min(CELLS_MAX, max(1, -(-(results.until_ms - results.since_ms) // results.window_ms)))
    width_ms = max(1, -(-(results.until_ms - results.since_ms) // cells))
    sums: defaultdict[int, list[defaultdict[str, int]]] = defaultdict(
        lambda: [defaultdict(int) for _ in range(cells)]
    )
    for row in results.rows("broker_activity"):
        at = (row["window_start_ms"] - results.since_ms) // width_ms
        cell = sums[row["broker_id"]][min(cells - 1, max(0, at))]
        for name, _ in ACTIVITY:
            cell[name] += row[name] or 0
    return [
        Heat(
            f"broker {id_}",
            [float(sum(cell.values())) for cell in row],
            [_hint(cell, results.since_ms + place * width_ms) for place, cell in enumerate(row)],
        )
        for id_, row in sorted(sums.items())[:LANES_MAX]
    ]


def _hint(cell: dict[str, int], at_ms: int) -> str:
    counts = ", ".join(f"{cell[name]} {title}" for name, title in ACTIVITY if cell[name])
    return f"{show_time(at_ms)}: {counts}"


def problems(results: Results) -> View:
    """Everything that could not be read, its place and the reason; what is no fault comes last."""
    rows = sorted(results.rows("problems"), key=lambda row: row["kind"] in HARMLESS)
    fields = [
        plain("replica", "replica"),
        Field("kind", lambda row: Badge("grey" if row["kind"] in HARMLESS else "bad", row["kind"])),
        plain("what is wrong", "reason", "text"),
        plain("file", "path", "text"),
        Field("at byte", lambda row: "–" if row["position"] is None else row["position"], "number"),
    ]
    problems_ = table(rows, fields, name="problems")
    return {"table": problems_, "holes": holes(results)}


def holes(results: Results) -> TableView:
    """The holes: offsets that no copy has."""
    fields = [
        count("from offset", "start_offset"),
        Field("to offset", lambda row: show_count(row["end_offset"] - 1), "number"),
        count("records", "records"),
        time("after", "before_ms", results),
        time("before", "after_ms", results),
        Field(
            "epochs",
            lambda row: f"{show_value(row['epoch_before'])} – {show_value(row['epoch_after'])}",
        ),
        plain("what each replica has there", "facts", "text"),
    ]
    return table(results.rows("holes"), fields, name="holes")


def files(results: Results) -> View:
    """The log folders that were read."""
    fields = [
        plain("replica", "replica"),
        plain("folder", "path", "text"),
        Field("offsets", log_range, "number"),
        count("last epoch", "last_epoch"),
        size("size", "bytes"),
        count("segments", "segments"),
        Field("snapshots", lambda row: len(row["snapshots"] or ()), "number"),
        plain("append times", "has_append_times"),
    ]
    return {"table": table(results.rows("replicas"), fields, name="replicas")}

"""The parts of the page about what the log says: moves, brokers; and about the files themselves."""

from collections import defaultdict
from typing import Final

from lag.output.charts import Heat, Span, counted, heat, responsive, spans
from lag.output.charts import Row as Lane
from lag.output.scales import show_span, show_time
from lag.output.svg import Markup, el, join
from lag.output.tables import (
    Field,
    badge,
    bar_sign,
    chips,
    count,
    legend,
    plain,
    size,
    span,
    table,
    time,
)
from lag.results import Results, Row

LANES_MAX: Final = 40
"""How many moves a waterfall shows: those that took longest."""
CELLS_MAX: Final = 120
"""How many windows the map of heat has; more are put together."""

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


def moves(results: Results) -> Markup:
    """The steps of the longest moves, and every move as it was planned and as it went."""
    rows = results.rows("moves")
    if not rows:
        return el("p", "No partition was moved in this time.")
    return join([_waterfall(results), el("h3", "Planned against actual"), *_planned(results)])


def _waterfall(results: Results) -> Markup:
    steps: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in results.rows("move_steps"):
        steps[_key(row)].append(row)
    rows = results.rows("moves")
    longest = sorted(rows, key=lambda row: -(row["duration_ms"] or 0))[:LANES_MAX]
    chosen = sorted(longest, key=_in_order)
    lanes = [Lane(_name(row), _spans_of(row, steps[_key(row)]), _note(row)) for row in chosen]
    starts = [row["started_ms"] for row in chosen if row["started_ms"] is not None]
    ends = [results.until_ms if row["ended_ms"] is None else row["ended_ms"] for row in chosen]
    if not starts:
        return el("p", "When they took place is unknown.", class_="unknown")
    between = (min(starts), max(max(ends), min(starts) + 1))
    signs = (("bar copy", "catches up"), ("bar drop", "drops the old replicas"))
    parts = [
        legend([(bar_sign(kind), meaning) for kind, meaning in signs]),
        responsive(
            lambda width: spans(width, between, lanes, label="The steps of the longest moves")
        ),
    ]
    if len(rows) > len(chosen):
        left = len(rows) - len(chosen)
        parts.append(el("p", f"The {len(chosen)} longest; {left} more were faster.", class_="soft"))
    return join(parts)


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
    """Each step until its last replica has caught up, and from there to its end."""
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


def _planned(results: Results) -> list[Markup]:
    rows = results.rows("moves")
    fulfilled = sum(1 for row in rows if row["as_planned"])
    parts = [el("p", f"{fulfilled} of {len(rows)} reassignments ended with the planned replicas.")]
    operations = results.rows("operations")
    if operations:
        parts.append(_operations(results))
    order = {"stuck": 0, "running": 1, "cancelled": 2, "superseded": 3, "gone": 4}
    ranked = sorted(
        rows, key=lambda row: (order.get(row["outcome"], 5), -(row["duration_ms"] or 0))
    )
    fields = [
        Field("partition", _name),
        Field("outcome", lambda row: badge(row["outcome"])),
        Field("planned", lambda row: chips(row["from_replicas"] or (), row["planned"] or ())),
        Field("actual", lambda row: chips(row["from_replicas"] or (), row["actual"] or ())),
        Field("as planned", lambda row: "yes" if row["as_planned"] else "no"),
        Field("steps", lambda row: f"{row['steps']} of {row['steps_planned']}", "number"),
        time("started", "started_ms", results),
        span("took", "duration_ms"),
        Field("slowest replica", _slowest),
    ]
    parts.append(table(ranked, fields, name="moves"))
    return parts


def _slowest(row: Row) -> str:
    if row["slowest"] is None:
        return "–"
    return f"{row['slowest']}: {show_span(row['slowest_ms'])}"


def _operations(results: Results) -> Markup:
    """What was asked for, beside what became of it, a bar each as long as its partitions."""
    rows = results.rows("operations")[:LANES_MAX]
    kinds = ("completed", "cancelled", "superseded", "gone", "running", "refused")
    colours = {"superseded": "gone", "gone": "whole"}
    lanes = []
    for row in rows:
        counts = {kind: row.get(f"partitions_{kind}") or 0 for kind in kinds}
        done = sum(counts[kind] for kind in kinds[:4])
        counts["running"] = max(0, (row["partitions_planned"] or 0) - done)
        at, pieces = 0, []
        for kind, number in counts.items():
            if number:
                title = f"{number} {kind}"
                pieces.append(Span(at, at + number, colours.get(kind, kind), title, title))
                at += number
        name = row["name"] or f"move {row['move_id']}"
        note = f"{row['outcome']} after {show_span(row['duration_ms'])}"
        planned = Span(0, row["partitions_planned"] or 0, "whole", "planned", "planned")
        lanes.append(Lane(f"{name}: planned", [planned], f"{row['partitions_planned']}"))
        lanes.append(Lane("actual", pieces, note))
    signs = [(bar_sign(f"bar {colours.get(kind, kind)}"), kind) for kind in kinds]
    label = "Moves, planned against actual"
    return join([legend(signs), responsive(lambda width: counted(width, lanes, label=label))])


def brokers(results: Results) -> Markup:
    """When brokers were let in and fenced, how much happened to each, and the figures."""
    rows = results.rows("brokers")
    if not rows:
        return el("p", "The logs name no broker.")
    between = (results.since_ms, results.until_ms)
    lanes = _states(results)
    warm = _warmth(results)
    signs = (("up", "unfenced"), ("fenced", "fenced"), ("joining", "registered or stopping"))
    parts = [
        legend([(bar_sign(f"bar {kind}"), meaning) for kind, meaning in signs]),
        responsive(lambda width: spans(width, between, lanes, label="States of brokers over time")),
    ]
    if warm:
        label = "How much happened to each broker over time"
        parts += [
            el("h3", "What happened to them"),
            el(
                "p",
                "Registrations, fencings, changes of ISRs and moves together: the stronger "
                "the colour of a cell, the more; an empty one had none.",
                class_="soft",
            ),
            responsive(lambda width: heat(width, between, warm, label=label)),
        ]
    fields = [
        plain("broker", "broker_id"),
        Field("state", lambda row: badge(row["state"])),
        time("since", "state_since_ms", results),
        count("starts", "registrations"),
        count("fenced", "fencings"),
        span("fenced for", "fenced_ms"),
        count("left an ISR", "isr_shrinks"),
        count("came into one", "isr_expands"),
        count("moves in", "moves_in"),
        count("moves out", "moves_out"),
    ]
    parts.append(table(rows, fields, name="brokers"))
    return join(parts)


def _states(results: Results) -> list[Lane]:
    of: defaultdict[int, list[Span]] = defaultdict(list)
    for row in results.rows("broker_events"):
        if row["at_ms"] is not None and row["event"] != "unregistered":
            title = f"broker {row['broker_id']} {row['event']} at {show_time(row['at_ms'])}"
            kind = STATES.get(row["event"], "whole")
            of[row["broker_id"]].append(Span(row["at_ms"], row["until_ms"], kind, title))
    return [Lane(f"broker {id_}", of[id_]) for id_ in sorted(of)[:LANES_MAX]]


def _warmth(results: Results) -> list[Heat]:
    """How much happened to each broker in each cell of time."""
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
            [_told(cell, results.since_ms + place * width_ms) for place, cell in enumerate(row)],
        )
        for id_, row in sorted(sums.items())[:LANES_MAX]
    ]


def _told(cell: dict[str, int], at_ms: int) -> str:
    told = ", ".join(f"{cell[name]} {title}" for name, title in ACTIVITY if cell[name])
    return f"{show_time(at_ms)}: {told}"


def problems(results: Results) -> Markup:
    """Everything that could not be read, where it lies and why."""
    rows = results.rows("problems")
    if not rows:
        return el("p", "None: every byte of the logs was understood.")
    return table(
        rows,
        [
            plain("replica", "replica"),
            Field("kind", lambda row: el("span", row["kind"], class_="badge bad")),
            plain("what is wrong", "reason", "text"),
            plain("file", "path", "text"),
            Field(
                "at byte", lambda row: "–" if row["position"] is None else row["position"], "number"
            ),
        ],
        name="problems",
    )


def files(results: Results) -> Markup:
    """The folders that were read."""
    return table(
        results.rows("replicas"),
        [
            plain("replica", "replica"),
            plain("folder", "path", "text"),
            Field("offsets", lambda row: f"{row['log_start']} – {row['log_end']}", "number"),
            count("last epoch", "last_epoch"),
            size("size", "bytes"),
            count("segments", "segments"),
            Field("snapshots", lambda row: len(row["snapshots"] or ()), "number"),
            plain("append times", "has_append_times"),
        ],
        name="replicas",
    )

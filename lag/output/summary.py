"""A report as a few lines of text for a terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from lag.output.scales import columns
from lag.output.tables import show_value
from lag.results import SEVERITY, Results, Row
from lag.source.problems import ASSUMED, FOREIGN_FILE
from lag.units import numbered, show_clock, show_count, show_span, show_time

ROWS_MAX: Final = 40
"""The replicas that are named, the worst first."""
PROBLEMS_MAX: Final = 5
NOT_OK_MAX: Final = 5
CLOCKS_MAX: Final = 5
HOLES_MAX: Final = 5
FILES_MAX: Final = 3
_HARMLESS: Final = {
    FOREIGN_FILE: "Not of a log, and not read",
    ASSUMED: "Assumed to be of the same cluster",
}
_WRONG_CLOCKS: Final = ("ahead", "behind", "stepped")


def summary(results: Results) -> str:
    """One line per replica, and one each about leaders, clocks, moves and brokers."""
    order = {state: place for place, state in enumerate(SEVERITY)}

    def worst_first(row: Row) -> tuple[int, int, int]:
        """The sort key of a replica."""
        place = order.get(str(row["status"]), -1)
        return place, -(row["lag_ms"] or 0), -(row["records_behind"] or 0)

    rows = sorted(results.rows("status"), key=worst_first)
    lags = {row["replica"]: row for row in results.rows("replica_lag")}
    lines = [
        f"{show_time(results.since_ms)} to {show_time(results.until_ms)} UTC, "
        f"windows of {show_span(results.window_ms)}",
        "",
        columns(
            ("replica", "role", "status", "behind", "lag", "max", "max at", "facts"),
            [
                (
                    row["replica"],
                    show_value(row["role"]),
                    row["status"],
                    show_count(row["records_behind"]),
                    show_span(row["lag_ms"]),
                    *_worst(lags.get(row["replica"], {}), results),
                    row["facts"],
                )
                for row in rows[:ROWS_MAX]
            ],
        ),
    ]
    if len(rows) > ROWS_MAX:
        lines.append(f"and {len(rows) - ROWS_MAX} more")
    return "\n".join([*lines, "", *_sentences(results)])


def _worst(row: Row, results: Results) -> tuple[str, str]:
    """The greatest lag of a replica and its time; empty if there was none."""
    at_ms = row.get("worst_at_ms")
    show = show_clock if results.is_within_a_day else show_time
    return show_span(row.get("max_ms")), "" if at_ms is None else show(at_ms)


def _sentences(results: Results) -> Iterator[str]:
    yield from _holes(results)
    epochs = results.rows("leadership")
    if epochs:
        last = epochs[-1]
        gaps = [row["gap_ms"] for row in epochs if row["gap_ms"] is not None]
        longest = f", longest gap without a leader {show_span(max(gaps))}" if gaps else ""
        leader = show_value(last["leader"])
        yield f"Leaders: {numbered(len(epochs), 'epoch')}, last leader {leader}{longest}."
        wrong = [
            _clock(row)
            for row in results.rows("clocks")
            if row["relative_to"] == str(last["leader"]) and row["verdict"] in _WRONG_CLOCKS
        ]
        if wrong:
            yield f"Clocks: {'; '.join(wrong[:CLOCKS_MAX])}."
    moves = results.rows("moves")
    if moves:
        yield f"Moves: {_moves(moves)}."
    topics = results.rows("topics")
    if topics:
        made = sum(1 for row in topics if row["created_ms"] is not None)
        gone = sum(1 for row in topics if row["deleted_ms"] is not None)
        yield f"Topics: {len(topics)} in the log, {made} created, {gone} deleted."
    brokers = results.rows("brokers")
    if brokers:
        states = Counter(show_value(row["state"]) for row in brokers)
        at_end = ", ".join(f"{count} {state}" for state, count in states.most_common())
        yield f"Brokers at the end: {at_end}."
    for kind, what in _HARMLESS.items():
        paths = [row["path"] for row in results.rows("problems") if row["kind"] == kind]
        if paths:
            more = f" and {len(paths) - FILES_MAX} more" if len(paths) > FILES_MAX else ""
            yield f"{what}: {', '.join(paths[:FILES_MAX])}{more}."


def _moves(moves: Sequence[Row]) -> str:
    """The number of moves that ended as planned, and the longest time."""
    known = [row["duration_ms"] for row in moves if row["duration_ms"] is not None]
    unknown = len(moves) - len(known)
    if not known:
        return f"of {numbered(unknown, 'move')} it is unknown how long they took or how they ended"
    planned = sum(1 for row in moves if row["as_planned"])
    lost = f", of {unknown} it is unknown how long they took or how they ended" if unknown else ""
    slowest = show_span(max(known))
    return f"{planned} of {len(moves)} ended as planned{lost}, the slowest took {slowest}"


def _holes(results: Results) -> Iterator[str]:
    """The sentence about the holes."""
    rows = results.rows("holes")
    if not rows:
        return
    show = show_clock if results.is_within_a_day else show_time
    named = [
        f"{row['start_offset']}-{row['end_offset'] - 1} "
        f"({show(row['before_ms'])} to {show(row['after_ms'])})"
        for row in rows[:HOLES_MAX]
    ]
    more = f" and {len(rows) - HOLES_MAX} more" if len(rows) > HOLES_MAX else ""
    count = sum(row["records"] for row in rows)
    records = "1 record is" if count == 1 else f"{show_count(count)} records are"
    yield (
        f"Holes: {records} in no copy, at offsets {', '.join(named)}{more}. "
        "What rests on them is unknown, and names them."
    )


def _clock(row: Row) -> str:
    """The proven bounds of a clock that differs from the leader's."""
    of = f"that of {row['relative_to']}"
    if row["verdict"] == "stepped":
        return f"{row['replica']}'s or {of} was set meanwhile"
    bounds = [abs(each) for each in (row["at_least_ms"], row["at_most_ms"]) if each is not None]
    size = f"{show_span(min(bounds))} or more"
    if len(bounds) > 1:
        size = f"{show_span(min(bounds))} to {show_span(max(bounds))}"
    where = "ahead of" if row["verdict"] == "ahead" else "behind"
    return f"{row['replica']}'s is {size} {where} {of}"


def problems(results: Results) -> Iterator[str]:
    """The first faults of the files, and the number of the others."""
    rows = results.faults
    for row in rows[:PROBLEMS_MAX]:
        where = "" if row["position"] is None else f", byte {row['position']}"
        yield f"{row['path']}{where}: {row['reason']}"
    if len(rows) > PROBLEMS_MAX:
        more = numbered(len(rows) - PROBLEMS_MAX, "more problem")
        yield f"and {more}; the report has them all"


def not_ok(results: Results) -> Iterator[str]:
    """The first replicas that are not OK and the reason for each, and the number of the others."""
    rows = results.not_ok
    for row in rows[:NOT_OK_MAX]:
        yield f"replica {row['replica']} is {row['status']}: {row['facts']}"
    if len(rows) > NOT_OK_MAX:
        yield f"and not OK: {numbered(len(rows) - NOT_OK_MAX, 'more replica')}"

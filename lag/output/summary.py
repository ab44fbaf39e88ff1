"""A report as a few lines of text for a terminal."""

from collections.abc import Iterator
from typing import Final

from lag.output.scales import columns, show_clock, show_count, show_span, show_time
from lag.results import SEVERITY, Results, Row

ROWS_MAX: Final = 40
"""The replicas that are named, the worst first."""
PROBLEMS_MAX: Final = 5
CLOCKS_MAX: Final = 5
_WRONG_CLOCKS: Final = ("ahead", "behind", "stepped")


def summary(results: Results) -> str:
    """One line per replica, and one each about leaders, clocks, moves and brokers."""
    order = {state: place for place, state in enumerate(SEVERITY)}
    rows = sorted(results.rows("status"), key=lambda row: order.get(str(row["status"]), -1))
    lags = {row["replica"]: row for row in results.rows("replica_lag")}
    lines = [
        f"{show_time(results.since_ms)} to {show_time(results.until_ms)} UTC, "
        f"windows of {show_span(results.window_ms)}",
        "",
        columns(
            ("replica", "status", "behind", "lag", "max", "max at", "facts"),
            [
                (
                    row["replica"],
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
    epochs = results.rows("leadership")
    if epochs:
        last = epochs[-1]
        gaps = [row["gap_ms"] for row in epochs if row["gap_ms"] is not None]
        longest = f", longest gap without a leader {show_span(max(gaps))}" if gaps else ""
        yield f"Leaders: {len(epochs)} epochs, last leader {last['leader']}{longest}."
        wrong = [
            _clock(row)
            for row in results.rows("clocks")
            if row["relative_to"] == str(last["leader"]) and row["verdict"] in _WRONG_CLOCKS
        ]
        if wrong:
            yield f"Clocks: {'; '.join(wrong[:CLOCKS_MAX])}."
    moves = results.rows("moves")
    if moves:
        planned = sum(1 for row in moves if row["as_planned"])
        slowest = max((row["duration_ms"] or 0 for row in moves), default=0)
        yield (
            f"Moves: {planned} of {len(moves)} ended as planned, "
            f"the slowest took {show_span(slowest)}."
        )
    brokers = results.rows("brokers")
    if brokers:
        up = sum(1 for row in brokers if row["state"] == "unfenced")
        yield f"Brokers: {up} of {len(brokers)} are unfenced."


def _clock(row: Row) -> str:
    """The proven bounds of a clock that differs from the leader's."""
    of = f"that of {row['relative_to']}"
    if row["verdict"] == "stepped":
        return f"{row['replica']}'s or {of} was set meanwhile"
    bounds = [abs(each) for each in (row["at_least_ms"], row["at_most_ms"]) if each is not None]
    size = f"{min(bounds)} ms or more" if len(bounds) == 1 else f"{min(bounds)} to {max(bounds)} ms"
    where = "ahead of" if row["verdict"] == "ahead" else "behind"
    return f"{row['replica']}'s is {size} {where} {of}"


def problems(results: Results) -> Iterator[str]:
    """The first problems, and the number of the others."""
    rows = results.rows("problems")
    for row in rows[:PROBLEMS_MAX]:
        where = "" if row["position"] is None else f", byte {row['position']}"
        yield f"{row['path']}{where}: {row['reason']}"
    if len(rows) > PROBLEMS_MAX:
        yield f"and {len(rows) - PROBLEMS_MAX} more problems; the report has them all"

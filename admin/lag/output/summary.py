"""A report in a few lines of text, for a terminal."""

from collections.abc import Iterator
from typing import Final

from admin.cli.tables import columns
from admin.lag.output.page import SEVERITY
from admin.lag.output.scales import show_count, show_span, show_time
from admin.lag.results import Results

ROWS_MAX: Final = 40
"""How many replicas are named, the worst first."""
PROBLEMS_MAX: Final = 5


def summary(results: Results) -> str:
    """Each replica with its state, and a line about leaders, moves and brokers."""
    order = {state: place for place, state in enumerate(SEVERITY)}
    rows = sorted(results.rows("status"), key=lambda row: order.get(str(row["status"]), -1))
    lags = {row["replica"]: row for row in results.rows("replica_lag")}
    lines = [
        f"{show_time(results.since_ms)} to {show_time(results.until_ms)} UTC, "
        f"windows of {show_span(results.window_ms)}",
        "",
        columns(
            ("replica", "status", "behind", "lag", "max", "facts"),
            [
                (
                    row["replica"],
                    row["status"],
                    show_count(row["records_behind"]),
                    show_span(row["lag_ms"]),
                    show_span(lags.get(row["replica"], {}).get("max_ms")),
                    row["facts"],
                )
                for row in rows[:ROWS_MAX]
            ],
        ),
    ]
    if len(rows) > ROWS_MAX:
        lines.append(f"and {len(rows) - ROWS_MAX} more")
    return "\n".join([*lines, "", *_sentences(results)])


def _sentences(results: Results) -> Iterator[str]:
    epochs = results.rows("leadership")
    if epochs:
        last = epochs[-1]
        gaps = [row["gap_ms"] for row in epochs if row["gap_ms"] is not None]
        longest = f", the longest time without one {show_span(max(gaps))}" if gaps else ""
        yield f"Leaders: {len(epochs)} epochs, at last {last['leader']}{longest}."
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


def problems(results: Results) -> Iterator[str]:
    """What could not be read: the first few, and how many there are."""
    rows = results.rows("problems")
    for row in rows[:PROBLEMS_MAX]:
        where = "" if row["position"] is None else f", byte {row['position']}"
        yield f"{row['path']}{where}: {row['reason']}"
    if len(rows) > PROBLEMS_MAX:
        yield f"and {len(rows) - PROBLEMS_MAX} more problems; the report has them all"

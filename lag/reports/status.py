"""The status of each replica at the end of a report, by rules over its last windows, as in Burrow.

The first rule that matches decides. A log shows only what a replica appended: a dead replica and
one that had nothing to append look the same, and neither lags. Plain values, no Spark.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from lag.units import numbered, show_span

Row = Mapping[str, Any]


class Limits(NamedTuple):
    """The thresholds of the rules, in ms."""

    warn_ms: int = 1_000
    """A lag that is a warning."""
    stalled_ms: int = 2_000
    """Waiting for a record this long without an append: a follower's fetch timeout."""
    stopped_ms: int = 10_000
    """The same for a replica that is considered stopped; also a lag that is an error."""


LOOKED_AT: Final = 10
"""The last windows that decide whether a lag grows."""
GROWING_MIN: Final = 3
"""The least number of windows with a known lag for the lag to count as growing."""


class Figures(NamedTuple):
    """The figures that the rules use."""

    behind: int | None
    """None if what it held at the end of the report is unknown."""
    diverging: int
    lag_ms: int | None
    idle_ms: int | None
    """The time from its last append to the end; None if unknown."""
    lags: Sequence[int]
    """Its lag at the end of each of the last windows, where known."""
    limits: Limits
    lost: int = 0
    """The records before the end of its log that its files lack."""
    timed: bool = False
    """True if it has append times."""

    @property
    def silent_ms(self) -> int:
        """The time that it has both waited and appended nothing."""
        return min(self.idle_ms or 0, self.lag_ms or 0)

    @property
    def grew(self) -> bool:
        """True if its lag grew from window to window and was never 0."""
        lags = self.lags
        rises = all(later >= lag for lag, later in pairwise(lags))
        return len(lags) >= GROWING_MIN and rises and lags[-1] > lags[0] > 0


class Rule(NamedTuple):
    """One rule: its condition and the status that it gives."""

    name: str
    status: str
    meaning: str
    fires: Callable[[Figures], bool]


RULES: Final = (
    Rule(
        "unknown",
        "UNKNOWN",
        (
            "the logs do not tell what it held at the end of the report: it has no append times "
            "there, or no batch, or records in a hole that may not be committed"
        ),
        lambda it: it.behind is None,
    ),
    Rule(
        "caught_up",
        "OK",
        "it holds exactly the records of the quorum's log",
        lambda it: not it.behind and not it.diverging,
    ),
    Rule(
        "silent",
        "STOPPED",
        ("it has waited for `stopped_ms` or longer and appended nothing meanwhile"),
        lambda it: it.idle_ms is not None and it.silent_ms >= it.limits.stopped_ms,
    ),
    Rule(
        "diverging",
        "ERR",
        "its log holds records that are not in the quorum's log",
        lambda it: it.diverging > 0,
    ),
    Rule(
        "damaged",
        "ERR",
        "its files lack records before the end of its log: they are damaged, or gone",
        lambda it: it.lost > 0,
    ),
    Rule(
        "short_log",
        "STOPPED",
        ("it has no append times, and its log ends `stopped_ms` or more before the quorum's log"),
        lambda it: it.idle_ms is None and (it.lag_ms or 0) >= it.limits.stopped_ms,
    ),
    Rule(
        "nearly_there",
        "OK",
        ("it has no append times, and its log ends less than `stopped_ms` before the quorum's log"),
        lambda it: it.idle_ms is None,
    ),
    Rule(
        "no_progress",
        "STALLED",
        ("it has waited for `stalled_ms` or longer and appended nothing meanwhile"),
        lambda it: it.silent_ms >= it.limits.stalled_ms,
    ),
    Rule(
        "far_behind",
        "ERR",
        "it appends, and its lag is `stopped_ms` or more",
        lambda it: (it.lag_ms or 0) >= it.limits.stopped_ms,
    ),
    Rule(
        "falls_behind",
        "WARN",
        f"it appends, and its lag grew over the last {LOOKED_AT} windows and was never 0",
        lambda it: it.grew,
    ),
    Rule(
        "slow",
        "WARN",
        "it appends, and its lag is `warn_ms` or more",
        lambda it: (it.lag_ms or 0) >= it.limits.warn_ms,
    ),
    Rule("keeps_up", "OK", "it appends, and its lag is small and does not grow", lambda _: True),
)
"""The rules in the order in which they are tried."""


def status(
    replica_lag: Iterable[Row],
    replication_lag: Iterable[Row],
    end_ms: int,
    limits: Limits | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    is_cut: bool = False,
) -> list[dict[str, Any]]:
    """The report `status`, from the rows of two others.

    The report ends at `end_ms`, and before the logs do if `is_cut`; `roles` are those of the
    replicas then.
    """
    lags: dict[str, list[int | None]] = {}
    for row in replication_lag:
        lags.setdefault(row["replica"], []).append(row["lag_ms"])
    found = []
    for row in replica_lag:
        last = row["last_append_ms"]
        recent = lags.get(row["replica"], [])[-LOOKED_AT:]
        looked = Figures(
            behind=row["records_behind"],
            diverging=row["records_diverging"] or 0,
            lag_ms=row["lag_ms"],
            idle_ms=None if last is None else end_ms - last,
            lags=[lag for lag in recent if lag is not None],
            limits=Limits() if limits is None else limits,
            lost=row.get("records_lost") or 0,
            timed=bool(row.get("has_append_times")),
        )
        rule = next(rule for rule in RULES if rule.fires(looked))
        found.append(
            {
                "replica": row["replica"],
                "role": (roles or {}).get(row["replica"]),
                "status": rule.status,
                "rule": rule.name,
                "facts": _unknown(row, is_cut) if looked.behind is None else _facts(looked, rule),
                "since_ms": row["waits_since_ms"],
                "records_behind": looked.behind,
                "lag_ms": looked.lag_ms,
                "hole": row.get("hole"),
            }
        )
    return found


def _unknown(row: Row, is_cut: bool) -> str:
    """The reason that nothing is known of a replica at the end of the report."""
    if not is_cut and row.get("log_end") is None:
        return "no batch of its log could be read"
    if not is_cut:
        return "no copy tells whether its last records are committed"
    if not row["has_append_times"]:
        return "it has no append times, and the logs go on after the end of the report"
    return "when it appended what it held at the end of the report is unknown"


def _facts(it: Figures, rule: Rule) -> str:
    """A sentence with its missing records, its last append, and the trend of its lag."""
    assert it.behind is not None
    waited = f"for {show_span(it.lag_ms)}" if it.lag_ms else "appended at the end of the report"
    if it.lag_ms is None:
        waited = "the start of the wait is unknown"
    if it.lost:
        waited += f", {it.lost} of them before the end of its log"
    lacks = numbered(it.behind, "record")
    said = [f"it lacks {lacks}, {waited}" if it.behind else "it lacks no record"]
    if it.lost and it.lost == it.behind:
        said = [f"its files lack {lacks} before the end of its log: damaged, or gone"]
    if it.idle_ms is None:
        said.append("when it appended last is unknown" if it.timed else "it has no append times")
    else:
        said.append(f"it appended last {show_span(it.idle_ms)} before the end")
    if it.diverging:
        said.append(f"given up: {numbered(it.diverging, 'record')} of it")
    if rule.name == "falls_behind":
        before, now = show_span(it.lags[0]), show_span(it.lags[-1])
        said.append(f"its lag went from {before} to {now} in {len(it.lags)} windows")
    return "; ".join(said)


def as_markdown() -> str:
    """The rules as docs/lag.md has them; a test compares the two."""
    rows = [f"| `{rule.name}` | {rule.status} | {rule.meaning} |" for rule in RULES]
    return "\n".join(["| rule | status | fires when |", "| --- | --- | --- |", *rows]) + "\n"

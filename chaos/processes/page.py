"""The page of one or more runs: one HTML file without scripts, from the data of their reports.

The charts, and the elements and the style sheet of the page, are those of the lag reports. Every
value is escaped by the templates.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from chaos.linearizability.checker import Verdict
from chaos.processes.timeline import WINDOW_MS, percentile
from lag import output
from lag.output.charts import (
    NARROW_BELOW_PX,
    Chart,
    Picture,
    Row,
    Series,
    Span,
    gutter_of,
    lines,
    responsive,
    spans,
)
from lag.output.tables import Badge
from lag.units import show_span

POINTS_MAX: Final = 1_500
"""The points of a line; a longer run shows several windows in one."""

Data = Mapping[str, Any]


class PageUnavailable(Exception):
    """The page cannot be written; the message says what is missing."""


def write_page(path: Path, reports: Sequence[Data]) -> None:
    """Write the page of these reports, side by side; raises `PageUnavailable`."""
    path.write_text(page(reports), encoding="utf-8")


def page(reports: Sequence[Data]) -> str:
    """The whole page; raises `PageUnavailable`."""
    try:
        # Part of an extra: a run without a page needs nothing of it.
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise PageUnavailable(
            "the page needs Jinja2: pip install 'metaquorum[spark]', or use --json"
        ) from None
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(__package__), PackageLoader(output.__name__)]),
        autoescape=True,
        undefined=StrictUndefined,
    )
    kinds = sorted({each["kind"] for report in reports for each in report["rounds"]})
    html: str = templates.get_template("run_page.html").render(
        runs=[_run(report) for report in reports],
        verdicts=_verdicts(reports),
        recoveries=[
            *((kind, [_recovery(report, kind) for report in reports]) for kind in kinds),
            ("all", [_recovery(report, None) for report in reports]),
        ],
    )
    return f"{html}\n"


def _verdicts(reports: Sequence[Data]) -> list[tuple[str, list[object]]]:
    rows: dict[str, Callable[[Data], object]] = {
        "result": _result,
        "changes": lambda report: _verdict(report, "changes"),
        "changes and reads": lambda report: _verdict(report, "with_reads"),
        "acknowledged writes lost": _lost,
        "acknowledged": lambda report: f"{report['acknowledged']:,}",
        "without an answer": lambda report: f"{report['unknown']:,}",
        "recovery, p99": lambda report: show_span(report.get("recovery_p99_ms")),
        "faults": lambda report: str(len(report["rounds"])),
        "nodes": lambda report: f"{report['nodes']}, {report['network']}",
        "seed": lambda report: str(report["seed"]),
        "processor": lambda report: report["machine"].get("processor", "unknown"),
        "system": lambda report: report["machine"].get("system", "unknown"),
    }
    return [(title, [cell(report) for report in reports]) for title, cell in rows.items()]


def _result(report: Data) -> object:
    if report["problems"]:
        return Badge("bad", f"{len(report['problems'])} problems")
    return (
        Badge("warn", "passed, ended early") if report["interrupted"] else Badge("good", "passed")
    )


def _verdict(report: Data, which: str) -> object:
    judgement = report["judgement"]
    if judgement is None:
        return "unknown"
    tones = {Verdict.YES.value: "good", Verdict.NO.value: "bad"}
    return Badge(tones.get(judgement[which], "grey"), judgement[which])


def _lost(report: Data) -> object:
    lost = [each for each in report["problems"] if "are not in the log" in each]
    return Badge("bad", f"in {len(lost)} registers") if lost else Badge("good", "none")


def _recovery(report: Data, kind: str | None) -> str:
    rounds = report["rounds"]
    found = sorted(each["recovery_ms"] for each in rounds if kind in (None, each["kind"]))
    if not found:
        return "–"
    figures = (median(found), percentile(found, 99), found[-1])
    return f"{' / '.join(f'{each:,.0f}' for each in figures)}  ({len(found)})"


def _run(report: Data) -> Mapping[str, object]:
    rounds = [
        (
            *(each["number"], each["fault"], show_span(each["start_ms"])),
            show_span(each["end_ms"] - each["start_ms"]),
            *(show_span(each["recovery_ms"]), show_span(each["stall_ms"]), each["note"]),
        )
        for each in report["rounds"]
    ]
    return {
        "name": f"{report['target']} {report['version']}".strip(),
        "command": report["command"],
        "problems": report["problems"],
        "left_out": report["left_out"],
        "charts": [] if report["course"] is None else _charts(report),
        "rounds": rounds,
    }


def _charts(report: Data) -> list[tuple[str, Chart]]:
    course = report["course"]
    began = course["began_ms"]
    span = (began, began + course["duration_ms"])
    bands = [
        Span(began + each["start_ms"], began + each["end_ms"], "fault", each["fault"])
        for each in report["rounds"]
    ]
    commits = Series("commits/s", _rates(began, course["windows"]["commits"]), 0)
    latency = Series("p99", _latencies(began, course["windows"]["p99_ms"]), 1)
    rows = _rows(report)

    def over_time(px: int, series: Series, label: str, **how: Any) -> Picture:
        # On a narrow screen the names of the rows stand above their spans.
        if px >= NARROW_BELOW_PX:
            how["gutter"] = gutter_of(rows)
        return lines(px, span, [series], bands=bands, label=label, **how)

    def of_latency(px: int) -> Picture:
        label = "99th percentile of the latency, logarithmic"
        return over_time(px, latency, label, show=show_span, is_log=True)

    return [
        (
            "Faults and leaders",
            responsive(lambda px: spans(px, span, rows, label="faults by kind, and leaders")),
        ),
        (
            "Commits per second",
            responsive(lambda px: over_time(px, commits, "commits per second")),
        ),
        (f"Latency of commits, p99 of each {WINDOW_MS} ms", responsive(of_latency)),
    ]


def _rows(report: Data) -> list[Row]:
    """A row of spans for each kind of fault, and one for each node that led."""
    began = report["course"]["began_ms"]
    kinds: dict[str, list[Span]] = {}
    for each in report["rounds"]:
        kinds.setdefault(each["kind"], []).append(
            Span(began + each["start_ms"], began + each["end_ms"], "fault", each["fault"])
        )
    leaders: dict[int, list[Span]] = {}
    for place, each in enumerate(report["course"]["leaders"]):
        title = f"{each['leader']} leads epoch {each['epoch']}"
        kind = "lead" if place % 2 else "lead other"
        leaders.setdefault(each["leader"], []).append(
            Span(began + each["start_ms"], began + each["end_ms"], kind, title)
        )
    return [
        *(Row(kind, found) for kind, found in sorted(kinds.items())),
        *(Row(f"node {node} leads", found) for node, found in sorted(leaders.items())),
    ]


def _rates(began: int, commits: Sequence[int]) -> list[tuple[int, float | None]]:
    at_once = -(-len(commits) // POINTS_MAX)
    seconds = at_once * WINDOW_MS / 1_000
    return [
        (began + place * WINDOW_MS, sum(commits[place : place + at_once]) / seconds)
        for place in range(0, len(commits), at_once)
    ]


def _latencies(began: int, p99_ms: Sequence[float | None]) -> list[tuple[int, float | None]]:
    at_once = -(-len(p99_ms) // POINTS_MAX)
    found: list[tuple[int, float | None]] = []
    for place in range(0, len(p99_ms), at_once):
        known = [each for each in p99_ms[place : place + at_once] if each is not None]
        found.append((began + place * WINDOW_MS, max(known, default=None)))
    return found

"""docs/metrics.md, the dashboard and the alerts name the metrics and rules that there are."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import promql_parser
import pytest

from admin.monitoring.health_rules import Rule
from admin.monitoring.metric_table import METRICS, Kind, as_markdown
from tests.support import tree

PAGE: Final = (tree.ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
ALERTS: Final = (tree.ROOT / "monitoring" / "prometheus-alerts.yml").read_text(encoding="utf-8")
DASHBOARD: Final[Any] = json.loads(
    (tree.ROOT / "monitoring" / "grafana-dashboard.json").read_text(encoding="utf-8")
)
GRAFANA_INTERVAL: Final = "$__rate_interval"
OF_PROMETHEUS: Final = {"up"}
"""Metrics that Prometheus itself makes."""


def test_the_page_has_the_table_of_the_code() -> None:
    _, _, after = PAGE.partition("<!-- metrics -->\n")
    table, end, _ = after.partition("\n<!-- /metrics -->")
    assert end
    assert table == as_markdown()


def test_the_page_lists_every_rule_of_health() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \| (?:error|warning)", PAGE, re.MULTILINE) == list(Rule)


def panels() -> Iterator[Any]:
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            yield panel


EXPRESSIONS: Final = [
    *re.findall(r"^ +expr: (.+)$", ALERTS, re.MULTILINE),
    *(target["expr"] for panel in panels() for target in panel["targets"]),
]


def selectors(node: Any) -> Iterator[Any]:
    """Every selector in a parsed expression."""
    match node:
        case promql_parser.VectorSelector():
            yield node
        case promql_parser.MatrixSelector():
            yield from selectors(node.vector_selector)
        case promql_parser.BinaryExpr():
            yield from selectors(node.lhs)
            yield from selectors(node.rhs)
        case promql_parser.Call():
            for each in node.args:
                yield from selectors(each)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            return
        case _:
            yield from selectors(node.expr)


def series() -> set[str]:
    """The names of all series: a histogram has several."""
    found = set(OF_PROMETHEUS)
    for name, row in METRICS.items():
        suffixes = ("_bucket", "_sum", "_count") if row.kind is Kind.HISTOGRAM else ("",)
        found |= {f"{name}{each}" for each in suffixes}
    return found


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_parses_and_names_metrics_and_labels_that_there_are(text: str) -> None:
    parsed = promql_parser.parse(text.replace(GRAFANA_INTERVAL, "5m"))
    names = [each.name for each in selectors(parsed)]
    assert names
    assert set(names) <= series()
    labels = {label for name in names for label in of_histogram(name)}
    grouped = re.findall(r"(?:by|on) \(([^)]*)\)", text)
    for label in (each.strip() for group in grouped for each in group.split(",")):
        assert label in {*labels, "instance", "job", "le"}, text


def of_histogram(name: str) -> tuple[str, ...]:
    """The labels of the metric that a series belongs to."""
    row = METRICS.get(name) or METRICS.get(re.sub("_(bucket|sum|count)$", "", name))
    return () if row is None else row.labels


def test_every_alert_has_an_expression_a_severity_and_a_command() -> None:
    alerts = ALERTS.split("      - alert: ")[1:]
    assert len(alerts) >= 20
    for each in alerts:
        for part in ("expr: ", "severity: ", "summary: ", "command: "):
            assert each.count(part) == 1, each


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells

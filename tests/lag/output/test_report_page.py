"""The page of a report: complete, escaped, to scale, and with unknown values marked."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any, Final
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from lag.output.charts import (
    NARROW_PX,
    WIDE_PX,
    Heat,
    Picture,
    Row,
    Series,
    Shape,
    Span,
    heat,
    lines,
    spans,
)
from lag.output.page import SECTIONS, draw, page
from lag.output.summary import problems, summary
from lag.output.tables import ROWS_MAX
from lag.results import Results
from tests.lag.sample_report import HOSTILE, KILLED_AT, WINDOW_MS, sample

FETCHING: Final = {"src", "srcset", "data", "action", "formaction", "poster", "background"}


class Reader(HTMLParser):
    """The content as a browser sees it: elements, fetched resources, text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.fetched: list[str] = []
        self.handlers: list[str] = []
        self.data: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name.startswith("on"):
                self.handlers.append(name)
            if name in FETCHING or (name in ("href", "xlink:href") and not value.startswith("#")):
                self.fetched.append(value)

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        self.data.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def tree(html: str) -> ElementTree.Element:
    """The page as XML, which it is as well: nothing is left open, nothing unescaped."""
    return ElementTree.fromstring(html.removeprefix("<!doctype html>\n"))


def section(html: str, key: str) -> ElementTree.Element:
    found = tree(html).find(f".//section[@id='{key}']")
    assert found is not None
    return found


def words(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def test_names_out_of_a_log_are_text_wherever_they_stand() -> None:
    html = page(sample(topic=HOSTILE, replica=HOSTILE))
    seen = read(html)
    assert not seen.tags & {"script", "b", "iframe", "img", "object"} - {"b"}
    assert "<script" not in html
    assert seen.handlers == []
    assert HOSTILE in "".join(seen.data)
    assert words(section(html, "status")).count(HOSTILE) == 1


def test_the_page_needs_nothing_from_elsewhere() -> None:
    html = page(sample())
    assert read(html).fetched == []
    style = "".join(tree(html).find("head/style").itertext())  # type: ignore[union-attr]
    assert "url(" not in style
    assert "@import" not in style


def test_attributes_cannot_be_left_by_a_quote() -> None:
    shape = Shape("text", {"class": 'x" onclick="y'}, "a\x00b<i>")
    drawn = draw(Picture(1, 1, 'z" onload="w', [shape]))
    assert '<text class="x&#34; onclick=&#34;y">a�b&lt;i&gt;</text>' in drawn
    assert 'aria-label="z&#34; onload=&#34;w"' in drawn


def test_every_part_is_there_even_if_nothing_is_known() -> None:
    empty = replace(sample(), tables={})
    found = tree(page(empty))
    assert [part.get("id") for part in found.iter("section")] == [key for key, _, _ in SECTIONS]


def test_unknown_values_are_called_unknown_and_not_zero() -> None:
    html = page(sample(replica="4"))
    status = section(html, "status").findall(".//tr")
    row = next(row for row in status if words(row).startswith("4 "))
    assert words(row).endswith("1 unknown")
    assert "Unknown for 4:" in words(section(html, "lag"))


def test_a_long_table_says_how_many_rows_it_leaves_out() -> None:
    few = sample()
    problem = few.rows("problems")[0]
    many = replace(few, tables={**few.tables, "problems": [problem] * (ROWS_MAX + 7)})
    part = section(page(many), "problems")
    assert len(part.findall(".//tbody/tr")) == ROWS_MAX
    assert "And 7 more" in words(part)


def test_a_file_that_is_not_of_a_log_is_listed_and_no_fault() -> None:
    results = sample()
    fault, foreign = results.rows("problems")
    assert results.faults == [fault]
    assert list(problems(results)) == [f"{fault['path']}, byte 8192: {fault['reason']}"]
    assert f"Not of a log, and not read: {foreign['path']}." in summary(results)
    only = replace(results, tables={**results.tables, "problems": [foreign]})
    assert (only.faults, list(problems(only))) == ([], [])
    html = page(only)
    assert "0 problems in the files" in words(tree(html))
    badge = section(html, "problems").find(".//tbody//span")
    assert badge is not None
    assert (badge.text, badge.get("class")) == ("foreign_file", "badge grey")


def test_elections_and_moves_are_marked_in_the_chart_of_lag() -> None:
    chart = section(page(sample()), "lag").find(".//div[@class='wide']/svg")
    assert chart is not None
    titles = [title.text or "" for title in chart.iter("title")]
    assert any(title.startswith("epoch 3: 3 was elected at") for title in titles)
    assert any(title.startswith("moves from") for title in titles)
    marks = [line for line in chart.iter("line") if line.get("class") == "mark"]
    assert len(marks) == 2
    share = (float(marks[1].get("x1", "0")) - float(marks[0].get("x1", "0"))) / (WIDE_PX - 70)
    assert share == pytest.approx((KILLED_AT + 0.4) / 120, abs=0.01)


def test_a_gap_in_what_is_known_is_a_gap_in_the_line() -> None:
    points = [(0, 1.0), (10, 2.0), (20, None), (30, 4.0), (40, 5.0), (50, None), (60, 1.0)]
    drawn = draw(lines(WIDE_PX, (0, 60), [Series("a", points, 0)], label="x"))
    assert drawn.count("<polyline") == 2
    assert drawn.count("<circle") == 1


def test_a_quiet_window_is_drawn_as_zero() -> None:
    results = sample()
    busy, quiet, last = (dict(row) for row in results.rows("commits")[:3])
    quiet.update({"records": 0, "batches": 0, "records_per_s": 0.0})
    few = replace(results, tables={**results.tables, "commits": [busy, quiet, last]})
    chart = section(page(few), "commits").find(".//div[@class='wide']/svg")
    assert chart is not None
    (line,) = chart.iter("polyline")
    heights = [float(point.split(",")[1]) for point in line.get("points", "").split()]
    assert len(heights) == 3
    assert heights[1] == max(
        float(each.get("y1", "0"))
        for each in chart.iter("line")
        if "grid" in (each.get("class") or "")
    )


def test_a_line_is_as_high_as_its_value() -> None:
    rising = [Series("a", [(0, 0.0), (5, 50.0), (10, 100.0)], 0)]
    drawn = draw(lines(WIDE_PX, (0, 10), rising, label="x"))
    found = re.search(r'points="([^"]+)"', drawn)
    assert found is not None
    (_, low), (_, middle), (_, high) = (map(float, p.split(",")) for p in found[1].split())
    assert low - middle == pytest.approx(middle - high, abs=0.2)
    assert low > high


@pytest.mark.parametrize("width", [WIDE_PX, NARROW_PX])
def test_nothing_is_drawn_outside_of_the_picture(width: int) -> None:
    rows = [
        Row(
            "a name that is rather long, really",
            [Span(-50, None, "up", "x"), Span(90, 400, "up", "y")],
        )
    ]
    for drawn in (
        spans(width, (0, 100), rows, label="x"),
        heat(width, (0, 100), [Heat("b", [1.0] * 100, ["t"] * 100)], label="x"),
        lines(width, (0, 100), [Series("c", [(-5, 1.0), (300, 3.0)], 0)], label="x"),
    ):
        picture = ElementTree.fromstring(draw(drawn))
        for rect in picture.iter("rect"):
            left, size = float(rect.get("x", "0")), float(rect.get("width", "0"))
            assert left >= 0
            assert left + size <= width
        for line in picture.iter("polyline"):
            assert all(0 <= float(p.split(",")[0]) <= width for p in line.get("points", "").split())


def test_the_stronger_a_cell_the_more_there_was_and_nothing_is_blank() -> None:
    drawn = ElementTree.fromstring(
        draw(heat(WIDE_PX, (0, 4), [Heat("b", [0.0, 1.0, 100.0, None], [""] * 4)], label="x"))
    )
    cells = [r.get("class") for r in drawn.iter("rect") if "heat" in (r.get("class") or "")]
    assert cells == ["heat h0", "heat h4"]


def test_planned_and_actual_replicas_stand_side_by_side() -> None:
    part = section(page(sample(topic="orders")), "moves")
    row = next(row for row in part.findall(".//tr") if words(row).startswith("orders-4 "))
    planned, actual = row[2], row[3]
    kinds = {chip.text: chip.get("class") for chip in planned.iter("span")}
    assert kinds == {"103": "chip", "101": "chip", "104": "chip added", "102": "chip removed"}
    assert [chip.text for chip in actual.iter("span")] == ["101", "102", "103"]
    assert "4 of 6 reassignments ended with the planned replicas" in words(part)


def test_the_steps_of_a_move_are_a_waterfall() -> None:
    part = section(page(sample(topic="orders")), "moves")
    chart = part.find("div[@class='wide']/svg")
    assert chart is not None
    titles = [
        title.text
        for title in chart.iter("title")
        if (title.text or "").startswith("orders-1, step")
    ]
    assert len(titles) == 4, "two steps, each with catching up and dropping"
    bars = [g for g in chart.iter("g") if (g[0].text or "").startswith("orders-1, step")]
    ends = [float(g[1].get("x", "0")) for g in bars]
    assert ends == sorted(ends)


def test_what_happened_to_topics_is_told_and_by_whom_where_that_is_known() -> None:
    part = section(page(sample(topic="orders")), "topics")
    first, second = part.findall(".//table")
    rows = [[words(cell) for cell in row] for row in first.findall(".//tbody/tr")]
    assert [row[:2] for row in rows] == [["old", "deleted"], ["orders", "exists"]]
    assert rows[0][2] == "before the log"
    events = [[words(cell) for cell in row] for row in second.findall(".//tbody/tr")]
    assert [row[1:] for row in events] == [
        ["old", "deleted", "3 partitions", "–"],
        ["orders", "config_set", "leader.replication.throttled.replicas", "move 1 of anna"],
        ["orders", "config_set", "retention.ms = 60000", "–"],
        ["orders", "grown", "6 partitions", "–"],
        ["orders", "created", "4 partitions", "–"],
    ]
    assert "Topics: 2 in the log, 1 created, 1 deleted." in summary(sample())


def test_windows_stand_at_their_times() -> None:
    """The replica that stood still from window 20 to 27 is behind there, and nowhere else."""
    results: Results = sample()
    rows = [r for r in results.rows("replication_lag") if r["replica"] == "2"]
    high = [r["window_start_ms"] for r in rows if (r["max_ms"] or 0) >= WINDOW_MS]
    assert (high[0] - results.since_ms) // WINDOW_MS == 20

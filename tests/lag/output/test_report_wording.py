"""The words of a report: units as people read them, plurals, and nothing known as unknown."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from lag.output.page import page
from lag.output.quorum_sections import lag
from lag.output.summary import problems, summary
from lag.reports.status import status
from lag.results import Results, Rows
from tests.lag.sample_report import sample

SECOND = 1_000


def changed(results: Results, **tables: Rows) -> Results:
    """The report with other rows in these tables."""
    return replace(results, tables={**results.tables, **tables})


def section(html: str, key: str) -> ElementTree.Element:
    found = ElementTree.fromstring(html.removeprefix("<!doctype html>\n")).find(
        f".//section[@id='{key}']"
    )
    assert found is not None
    return found


def words(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def voters(**lasted: int) -> tuple[list[str], list[str]]:
    """The colours of the bars of an assignment with these times, and the cells of its row."""
    nothing = dict.fromkeys(
        ("survived_2_ms", "survived_1_ms", "survived_0_ms", "no_majority_ms", "unknown_ms"), 0
    )
    row = {**sample().rows("voters")[0], **nothing, **lasted}
    part = section(page(changed(sample(), voters=[row])), "voters")
    chart = part.find(".//div[@class='wide']/svg")
    assert chart is not None
    bars = [each.get("class") or "" for each in chart.iter("rect")]
    (cells,) = part.findall(".//tbody/tr")
    return [each for each in bars if each.startswith("bar")], [words(cell) for cell in cells]


def test_failures_that_nobody_knows_to_be_survivable_are_unknown() -> None:
    bars, cells = voters(unknown_ms=60 * SECOND)
    assert bars == ["bar unclear"]
    assert cells[-5:] == ["unknown"] * 4 + ["1 min"]


def test_a_bar_has_the_colour_of_what_lasted_longest() -> None:
    bars, cells = voters(survived_1_ms=40 * SECOND, unknown_ms=20 * SECOND)
    assert bars == ["bar one"]
    assert cells[-5:] == ["0 ms", "40 s", "0 ms", "0 ms", "20 s"]
    assert voters(survived_1_ms=1, no_majority_ms=9)[0] == ["bar lost"]


def test_one_is_not_many() -> None:
    results = sample()
    one = changed(
        results, status=[results.rows("status")[0]], problems=[results.rows("problems")[0]]
    )
    html = page(one)
    cards = words(ElementTree.fromstring(html.removeprefix("<!doctype html>\n")).find(".//header"))  # type: ignore[arg-type]
    assert "1 STOPPED replica " in cards
    assert "1 problem in the files" in cards
    assert "STOPPED replicas" not in cards
    single = changed(results, leadership=[results.rows("leadership")[0]])
    assert "Leaders: 1 epoch, last leader 1." in summary(single)
    many = changed(results, problems=[results.rows("problems")[0]] * 6)
    assert list(problems(many))[-1] == "and 1 more problem; the report has them all"


def test_the_worst_replica_is_named_first() -> None:
    rows = [dict(row) for row in sample().rows("status")][:3]
    for row, lag_ms, behind in zip(rows, (0, None, 7_500), (2, 0, 16), strict=True):
        row |= {"status": "OK", "lag_ms": lag_ms, "records_behind": behind}
    names = [row["replica"] for row in rows]
    lines = summary(changed(sample(), status=rows)).splitlines()[3:6]
    assert [line.split()[0] for line in lines] == [names[2], names[0], names[1]]


def test_an_unknown_lag_has_its_own_cause() -> None:
    results = sample()
    lags = [{**row, "max_ms": None} for row in results.rows("replica_lag")]
    copies = [
        {**row, "has_append_times": place > 0} for place, row in enumerate(results.rows("replicas"))
    ]
    view = lag(changed(results, replica_lag=lags, replicas=copies))
    names = [row["replica"] for row in copies]
    assert view["untimed"] == names[0]
    assert view["hidden"] == ", ".join(names[1:])


def test_brokers_are_counted_by_their_state() -> None:
    rows = [dict(row) for row in sample().rows("brokers")]
    assert "Brokers at the end: 4 unfenced." in summary(sample())
    for row in rows:
        row["state"] = "fenced"
    rows[0]["state"] = None
    assert "Brokers at the end: 3 fenced, 1 unknown." in summary(changed(sample(), brokers=rows))


def test_moves_of_which_nothing_is_known_took_no_known_time() -> None:
    rows = [
        {**row, "duration_ms": None, "as_planned": None, "steps_planned": None}
        for row in sample().rows("moves")
    ]
    results = changed(sample(topic="orders"), moves=rows)
    unknown = f"of {len(rows)} moves it is unknown how long they took or how they ended"
    assert f"Moves: {unknown}." in summary(results)
    html = ElementTree.fromstring(page(results).removeprefix("<!doctype html>\n"))
    assert "unknown moves ended as planned" in words(html)
    (first, *_) = section(page(results), "moves").findall(".//tbody/tr")
    assert words(first[4]) == "unknown"
    assert words(first[5]).endswith("of unknown")


def test_long_times_are_not_told_in_milliseconds() -> None:
    row = {
        "replica": "2", "records_behind": 1, "records_diverging": 1, "lag_ms": 197_703_373,
        "last_append_ms": 0, "waits_since_ms": 0, "has_append_times": True,
    }  # fmt: skip
    (found,) = status([row], [], 197_703_373)
    assert found["facts"] == (
        "it lacks 1 record, for 2.3 d; it appended last 2.3 d before the end; "
        "given up: 1 record of it"
    )


def test_a_voter_can_be_told_from_an_observer() -> None:
    roles = [words(row[1]) for row in section(page(sample()), "status").findall(".//tbody/tr")]
    assert roles == ["voter", "voter", "voter", "unknown"]
    (line,) = [each for each in summary(sample()).splitlines() if each.startswith("3 ")]
    assert line.split()[:3] == ["3", "voter", "OK"]

"""The report that a run writes."""

from array import array
from pathlib import Path

import pytest

from bench.faults import RunFailed
from bench.machine import percentile
from bench.report import Row, Section, table


def row(*, leader: float = 0.2, client: float = 0.1, others: float = 0.0) -> Row:
    return Row(
        outstanding=16,
        commits_per_second=1_000.0,
        p50_ms=1.5,
        p99_ms=4.25,
        leader=leader,
        followers=0.3,
        client=client,
        others=others,
        cores=2,
    )


def test_processor_time_is_told_per_commit_of_the_leader_and_of_one_follower() -> None:
    assert row().leader_us == pytest.approx(200)
    assert row().follower_us == pytest.approx(150)


@pytest.mark.parametrize(
    ("measured", "limit"),
    [
        (row(), "waiting: disk and round trips"),
        (row(leader=0.95), "the leader's thread"),
        (row(client=0.95), "the client's thread"),
        (row(leader=0.95, others=0.5), "all cores are busy"),
    ],
)
def test_the_limit_of_a_run_is_derived_from_processor_time(measured: Row, limit: str) -> None:
    assert measured.limit == limit
    assert table([measured]).splitlines()[-1].endswith(f"| {limit} |")


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = array("d", range(100, 0, -1))
    assert [percentile(values, each) for each in (0, 50, 99, 100)] == [1, 51, 100, 100]
    assert percentile(array("d", [7.0]), 99) == 7.0


def test_the_section_of_a_document_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    document = tmp_path / "figures.md"
    document.write_text("before\n<!-- x -->\nold\n<!-- /x -->\nafter\n", encoding="utf-8")
    section = Section(document, "x")
    section.write("first")
    section.write_run("make bench", {"Cores": "2"}, table([row()]))
    written = document.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- x -->\n\n`make bench`\n\n- Cores: 2\n\n| outstanding |")
    assert written.endswith("\n<!-- /x -->\nafter\n")
    assert "old" not in written
    assert "first" not in written


@pytest.mark.parametrize("text", ["", "<!-- x -->\n", "<!-- /x -->\n", "<!-- x -->\n" * 2])
def test_a_document_without_the_section_is_refused(tmp_path: Path, text: str) -> None:
    document = tmp_path / "figures.md"
    document.write_text(text, encoding="utf-8")
    with pytest.raises(RunFailed, match="each once"):
        Section(document, "x")

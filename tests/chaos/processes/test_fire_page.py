"""The page of runs, side by side."""

from dataclasses import replace

import pytest

from chaos.processes.judge import Judgement
from chaos.processes.report import Course, Report, Round
from chaos.processes.timeline import Leadership, Windows

pytest.importorskip("jinja2", reason="the page needs the extra `spark`")
from chaos.processes.page import page

REPORT = Report(
    seed=7,
    nodes=3,
    network="namespaces",
    settings={},
    rounds=[
        Round(
            number=1,
            kind="kill-leader",
            fault="kill-leader 2",
            recovery_ms=140.0,
            stall_ms=200.0,
            start_ms=1_000,
            end_ms=1_900,
            note="<b>bold</b>",
        )
    ],
    acknowledged=4_402,
    unknown=3,
    committed=12,
    log_bytes=900,
    disks=3,
    problems=[],
    version="0.1.0",
    command="python -m chaos.processes --seed 7",
    judgement=Judgement(
        operations=10,
        reads=2,
        objects=3,
        changes="linearizable",
        with_reads="linearizable",
        undecided=0,
        findings=[],
    ),
    course=Course(
        began_ms=1_700_000_000_000,
        duration_ms=3_000,
        windows=Windows(commits=[5, 0, 7] * 10, p99_ms=[3.0, None, 9.5] * 10),
        leaders=[Leadership(start_ms=0, end_ms=1_000, leader=2, epoch=4)],
    ),
)


def test_a_page_shows_faults_commits_latency_leaders_and_the_command() -> None:
    html = page([REPORT.as_data()])
    assert "kill-leader 2" in html
    assert "2 leads epoch 4" in html
    assert "140 / 140 / 140" in html
    assert "python -m chaos.processes --seed 7" in html
    assert html.count("<svg") == 6


def test_what_a_node_said_cannot_become_an_element() -> None:
    html = page([REPORT.as_data()])
    assert "<b>bold</b>" not in html
    assert "&lt;b&gt;bold" in html


def test_two_runs_stand_side_by_side() -> None:
    broken = ["3 writes of a were acknowledged and are not in the log, the first is 3"]
    other = replace(REPORT, target="Apache Kafka", version="4.3.1", problems=broken)
    html = page([REPORT.as_data(), other.as_data()])
    verdicts = html[html.index('id="verdicts"') : html.index('id="recovery"')]
    assert "metaquorum 0.1.0" in verdicts
    assert "Apache Kafka 4.3.1" in verdicts
    assert "passed" in verdicts
    assert "1 problems" in verdicts
    assert "in 1 registers" in verdicts

"""The demo of `make run`, once, by real processes."""

import re
from pathlib import Path

import pytest

from admin.tools.demo.run import REPORT_SECONDS_MAX
from tests.process.local_process import STOP_SECONDS, started

pytestmark = pytest.mark.process


@pytest.mark.parametrize("security", [(), ("--secure",)], ids=["open", "secure"])
def test_the_demo_moves_everything_and_loses_nothing(
    tmp_path: Path, security: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if security:
        # Spark takes as long as all the rest, and TLS does not change the logs.
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    story: tuple[str | Path, ...] = (
        *("demo", "--once", "--dir", tmp_path / "demo", "--seconds", "60s"),
        *security,
    )
    done = started(*story, seconds=60 + STOP_SECONDS + REPORT_SECONDS_MAX)
    assert done.code == 0, f"{done.out}\n{done.err}"
    for sentence in (
        r"\n5\. Kill the active controller: controller-(\d), process \d+, SIGKILL, [\d.]+ m?s into",
        r"controller \d answers as the active one in epoch \d+, \d+ ms after the kill",
        r"Reassignment of partition orders-5 is completed\.",
        r"\nlost: +0\n".replace(r"\n", r"\n +", 1),
        r"duplicated: +0\n",
    ):
        assert re.search(sentence, done.out), sentence
    assert done.err == ""
    page = tmp_path / "demo" / "lag-report" / "index.html"
    report = re.search(
        r"A lag report of this run\n +(?s:.*)(there is none: .*|the page: .*)\n", done.out
    )
    assert report is not None, done.out
    # Where Spark cannot run, it is said why.
    assert page.is_file() == (report[1] == f"the page: {page}")
    assert not (tmp_path / "demo" / "cluster.json").exists()

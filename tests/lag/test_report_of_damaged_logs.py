"""Damaged logs: a report of the readable parts, problems for the rest, and the exit code."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.lag.copied_logs import KRAFT, SEGMENT, copy_of
from tests.lag.unprivileged_process import barred
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

COMMAND_SECONDS_MAX: Final = 600
LOG: Final = "__cluster_metadata-0"


def report(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """`metaquorum lag report`, to its end, by somebody who may not read everything."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    from admin.tools.kafka_runtime import Unavailable, find_java

    try:
        find_java()
    except Unavailable as unavailable:
        pytest.skip(str(unavailable))
    command = [sys.executable, "-m", "admin.cli.main", "lag", "report", *map(str, arguments)]
    return subprocess.run(
        [*barred(), *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )


def segment(node: Path) -> Path:
    return node / LOG / SEGMENT


def flip(path: Path, *positions: int) -> None:
    """Change a bit of each of these bytes."""
    content = bytearray(path.read_bytes())
    for position in positions:
        content[position] ^= 4
    path.write_bytes(content)


def swap(path: Path) -> int:
    """Divide a segment into two, each under the name of the other; where the second one begins."""
    content, position, base = path.read_bytes(), 0, 0
    while position < len(content) // 2:
        base, length = struct.unpack_from(">qi", content, position)
        position += 12 + length
    (base,) = struct.unpack_from(">q", content, position)
    path.write_bytes(content[position:])
    path.with_name(f"{base:020}.log").write_bytes(content[:position])
    return int(base)


def test_readable_parts_are_reported_and_the_rest_are_problems(tmp_path: Path) -> None:
    logs, size = tmp_path / "logs", (KRAFT / SEGMENT).stat().st_size
    nodes = {number: copy_of(logs, number) for number in (1, 2, 4, 5, 6)}
    nodes[3] = copy_of(logs, 3, without_bytes=500)
    flip(segment(nodes[2]), size // 3, size * 2 // 3)
    second = swap(segment(nodes[4]))
    segment(nodes[5]).chmod(0)
    (nodes[6] / LOG).chmod(0)
    (logs / "empty").mkdir()
    (nodes[1] / LOG / "notes.txt").write_text("no log")
    done = report(logs, "--format", "json", "--out", tmp_path / "out")
    (nodes[6] / LOG).chmod(0o700)
    assert done.returncode == 3, done.stderr
    made = json.loads((tmp_path / "out" / "report.json").read_bytes())["tables"]
    assert kinds(made["problems"], logs) == {
        ("empty", "no_log"),
        ("controller-1", "foreign_file"),
        ("controller-2", "bad_crc"),
        ("controller-3", "torn_tail"),
        ("controller-4", "misplaced"),
        ("controller-4", "duplicate"),
        ("controller-5", "unreadable"),
        ("controller-6", "unreadable"),
    }
    known = {row["replica"]: row["log_end"] for row in made["replica_lag"]}
    assert [known[name] for name in "1245"] == [546, 546, 546, None]
    assert second < known["3"] < 546
    assert [row["epoch"] for row in made["leadership"]] == [1, 3]
    said = done.stderr.splitlines()
    assert len(said) == 6
    assert said[-1].endswith("more problems; the report has them all")
    assert "Written: " in done.stdout


def kinds(problems: list[dict[str, Any]], logs: Path) -> set[tuple[str, str]]:
    """The kinds of problems by folder."""
    return {(Path(row["path"]).relative_to(logs).parts[0], row["kind"]) for row in problems}


def test_logs_that_cannot_be_read_are_explained_in_one_sentence(tmp_path: Path) -> None:
    for name in ("empty", "photos", "barred"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos" / "me.jpg").write_text("no log")
    copy_of(tmp_path / "barred", 1).chmod(0)
    named = [tmp_path / name for name in ("empty", "photos", "barred")]
    done = report(*named, "--out", tmp_path / "out")
    (tmp_path / "barred" / "controller-1").chmod(0o700)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: there is no log to read: ")
    for folder, why in (
        (tmp_path / "empty", "no segment (*.log) is in it"),
        (tmp_path / "photos", "no segment (*.log) is in it"),
        (tmp_path / "barred" / "controller-1", "it cannot be read: Permission denied"),
    ):
        assert f"{folder}: {why}" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_the_text_of_a_dump_beside_sound_logs_is_listed_and_no_fault(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    dump = copy_of(logs, 1) / LOG / "00000000000000000000.log.txt"
    dump.write_text("Dumping 00000000000000000000.log\n")
    copy_of(logs, 2)
    done = report(logs, "--check", "--format", "json", "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Not of a log, and not read: {dump}." in done.stdout
    made = json.loads((tmp_path / "out" / "report.json").read_bytes())["tables"]
    assert kinds(made["problems"], logs) == {("controller-1", "foreign_file")}


@pytest.mark.long
def test_a_check_of_which_nothing_is_known_fails_and_says_why(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    copy_of(logs, 1)
    copy_of(logs, 2)
    ends = ("--until", "2026-11-21T04:50:00Z")
    done = report(logs, *ends, "--check", "--format", "json", "--out", tmp_path / "out")
    assert done.returncode == 3
    why = "it has no append times, and the logs go on after the end of the report"
    assert done.stderr.splitlines() == [f"replica {name} is UNKNOWN: {why}" for name in "12"]

"""Invalid uses of `metaquorum lag`: one sentence, exit code 2, no Spark."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from admin.cli import lag
from admin.cli.main import group
from lag.request import ReportRequest
from lag.source.invalid_input import InvalidInput
from lag.source.moments import parse_time_ms
from tests.lag.copied_logs import copy_of

ROOT: Final = Path(__file__).resolve().parents[2]


def refusal(*arguments: object) -> str:
    """The last line on stderr of a command that ends with the exit code of usage."""
    done = CliRunner().invoke(group, ["lag", *map(str, arguments)])
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Name a LOGDIR, or an --archive."),
        (("HERE", "--since", "yesterday"), "'yesterday' is not a time: write 2026-11-22T14:30:00Z"),
        (
            ("HERE", "--since", "2026-11-22T14:30:00Z", "--until", "2026-11-22T14:00:00Z"),
            "--since 2026-11-22T14:30:00.000+00:00 is not before --until 2026-11-22T14:00:00",
        ),
        (
            ("HERE", "--since", "1795433961000", "--until", "1795433961000"),
            "a report begins before it ends",
        ),
        (("HERE", "--window", "soon"), "'soon' is not a time, like 500ms or 5s"),
        (("HERE", "--window", "0s"), "--window 0ms is too short: the minimum is 10ms"),
        (
            ("HERE", "--since", "0", "--until", "2000000000000", "--window", "1s"),
            "--window 1s divides the report into 2000000000 windows, more than 20000: use 1667min",
        ),
        (("HERE", "--format", "pdf"), "'pdf' is not one of 'html', 'parquet', 'csv', 'json'."),
        (("HERE/nothing",), "nothing: it does not exist: name the folder of a log, such as"),
        (("HERE/text",), "text: it is a file: name its folder, HERE"),
        (("HERE", "--out", "HERE/text"), "'HERE/text' is a file."),
    ],
)
def test_a_report_asked_for_wrongly(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "text").write_text("no log")
    there = [argument.replace("HERE", str(tmp_path)) for argument in arguments]
    assert message.replace("HERE", str(tmp_path)) in refusal("report", *there)


def test_watching_what_is_not_there(tmp_path: Path) -> None:
    assert "does not exist: name the folder" in refusal("watch", tmp_path / "none")
    assert "--every 0ms is too short" in refusal("watch", tmp_path, "--every", "0ms")
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is not None:
        said = f"there is no log to read: {tmp_path}: no segment (*.log) is in it"
        assert said in refusal("watch", tmp_path)


def test_logs_of_two_clusters_are_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or newer")
    here, there = copy_of(tmp_path / "a", 1), copy_of(tmp_path / "b", 1)
    meta = there / "meta.properties"
    meta.write_text(meta.read_text().replace("4L6g3nShT-eMCtK--X86sw", "0kUSEHmpTxOsjIQ2VJ7y9A"))
    for command in ("report", "watch"):
        said = refusal(command, here, there)
        assert said.startswith("Error: these are the logs of 2 clusters, which are never compared")
        assert f"4L6g3nShT-eMCtK--X86sw ({here}" in said
        assert f"0kUSEHmpTxOsjIQ2VJ7y9A ({there}" in said
        assert "choose it by its id (--cluster" in said
        assert "no log is of the cluster Z; there" in refusal(command, here, "--cluster", "Z")


@pytest.mark.parametrize(
    ("java", "message"),
    [
        (None, "has no bin/java: install Java 17 or newer"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is Java 11: install Java 17 or"),
        ("exit 1", "cannot be run: install Java 17 or newer"),
    ],
)
def test_without_java_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str | None, message: str
) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "logs").mkdir()
    if java is not None:
        program = tmp_path / "bin" / "java"
        program.write_text(f"#!/bin/sh\n{java}\n")
        program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for command in ("report", "watch"):
        said = refusal(command, tmp_path / "logs")
        assert said.startswith("Error: Spark cannot be started: ")
        assert message in said


@pytest.mark.parametrize("home", ["", "nowhere"])
def test_another_spark_has_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    (tmp_path / "logs").mkdir()
    monkeypatch.setenv("SPARK_HOME", home and str(tmp_path / home))
    named = f"SPARK_HOME is {tmp_path / home if home else 'empty'}, and has no bin/spark-submit"
    for command in ("report", "watch"):
        assert named in refusal(command, tmp_path / "logs")


def test_without_the_extra_one_sentence_says_how_to_install_it(tmp_path: Path) -> None:
    """In a process that finds no pyspark, as where the extra is not installed."""
    hidden = (
        "import sys; sys.modules.update(jinja2=None, pyarrow=None, pyspark=None); "
        "from admin.cli.main import metaquorum; metaquorum()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, "lag", "report", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Error: lag reports need jinja2, pyarrow and pyspark, which are not installed: "
        f"{sys.executable} -m pip install 'jinja2>=3.1' 'pyarrow>=26.0' 'pyspark>=4.3'"
    ]


def test_the_help_needs_no_spark() -> None:
    for part in ("report", "watch"):
        assert CliRunner().invoke(group, ["lag", part, "--help"]).exit_code == 0


def test_formats_of_the_command_are_those_that_can_be_written() -> None:
    pytest.importorskip("pyarrow", reason="the extra spark is not installed")
    from lag.output.files import FORMATS

    assert lag.FORMATS == FORMATS


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert parse_time_ms("1970-01-01T00:00:01") == 1_000
    assert parse_time_ms("1970-01-01T01:00:01.250+01:00") == 1_250
    assert parse_time_ms("1795236570697") == 1_795_236_570_697
    with pytest.raises(InvalidInput, match="'22nd of March' is not a time: write 2026-11-22T14"):
        parse_time_ms("22nd of March")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "1795433961",
            "is before 1973 (in seconds it is 2026-11-23T11:39:21+00:00: write 17954339",
        ),
        ("5", "5 milliseconds since 1970 is before 1973: write 2026-11-22T14:30:00Z"),
        ("1795433961000000", "is beyond the year 5000: write 2026-11-22T14:30:00Z"),
        ("9" * 40, "is beyond the year 5000"),
    ],
)
def test_a_number_that_is_not_in_milliseconds_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_time_ms(text)
    assert message in str(error.value)
    assert message in refusal("report", tmp_path, "--since", text)
    pytest.importorskip("pyarrow", reason="the extra spark is not installed")
    from lag.source.options import options_of

    for name in ("since", "until"):
        with pytest.raises(InvalidInput, match=f"the option {name} is '{text}': {text} millis"):
            options_of({"path": "/x", name: text})
    assert parse_time_ms("0") == 0


def test_a_window_alone_is_checked_once_the_time_is_known() -> None:
    assert ReportRequest(paths=("/x",), window_ms=10).window_ms == 10


def test_an_output_folder_that_cannot_be_made_is_refused_before_anything_is_read(
    tmp_path: Path,
) -> None:
    """It was refused after the report, which may have taken minutes."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "report"
    said = f"Error: {out} cannot be written: {tmp_path / 'file'} is a file; name another --out"
    assert refusal("report", tmp_path / "logs", "--out", out) == said
    if os.getuid() != 0:
        (tmp_path / "others").mkdir(mode=0o500)
        closed = tmp_path / "others" / "report"
        assert f"no right to write into {tmp_path / 'others'}" in refusal(
            "report", tmp_path / "logs", "--out", closed
        )

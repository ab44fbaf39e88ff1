"""Spark's settings follow the size of the logs, on every master."""

import signal
import subprocess
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from lag.session import PART_BYTES, SMALL_BYTES, end, settings, sizes, zip_packages

SMALL, LARGE = 200_000, 100 * PART_BYTES
CLUSTER = "spark://host:7077"


@pytest.mark.parametrize("master", ["local[2]", CLUSTER, "yarn"])
def test_small_logs_are_not_divided_into_200_parts(tmp_path: Path, master: str) -> None:
    small = settings(master, tmp_path, SMALL)
    assert small["spark.sql.shuffle.partitions"] == "1"
    assert small["spark.sql.adaptive.enabled"] == "false"
    assert small["spark.sql.codegen.wholeStage"] == "false"
    assert small["spark.sql.codegen.factoryMode"] == "NO_CODEGEN"
    assert "TieredStopAtLevel=1" in small["spark.executor.extraJavaOptions"]
    assert "TieredStopAtLevel=1" in small["spark.driver.extraJavaOptions"]


def test_large_logs_are_divided_by_their_size_on_a_cluster(tmp_path: Path) -> None:
    large = settings(CLUSTER, tmp_path, LARGE)
    assert large["spark.sql.shuffle.partitions"] == "100"
    for name in ("adaptive.enabled", "codegen.wholeStage", "codegen.factoryMode"):
        assert f"spark.sql.{name}" not in large
    huge = settings(CLUSTER, tmp_path, 1 << 50)
    assert huge["spark.sql.shuffle.partitions"] == "20000"
    assert "spark.sql.shuffle.partitions" not in settings(CLUSTER, tmp_path)


def test_large_logs_are_divided_by_the_cores_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    parts = {
        input_bytes: sizes("local[*]", input_bytes)["spark.sql.shuffle.partitions"]
        for input_bytes in (0, SMALL_BYTES, LARGE, 100 << 30, None)
    }
    assert list(parts.values()) == ["1", "8", "8", "100", "8"]


def test_settings_of_the_user_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = "--conf spark.sql.shuffle.partitions=7 --conf spark.driver.memory=4g pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", given)
    assert "spark.sql.shuffle.partitions" not in settings(CLUSTER, tmp_path, SMALL)
    assert "spark.sql.codegen.wholeStage" in settings(CLUSTER, tmp_path, SMALL)


def test_workers_of_a_cluster_get_bytecode_that_needs_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zip_packages(tmp_path / "ours.zip")
    without = tmp_path / "bytecode.zip"
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(without, "w") as archive:
        names = whole.namelist()
        for name in names:
            if name.endswith(".pyc"):
                archive.writestr(f"zipped/{name}", whole.read(name))
        archive.writestr("zipped/__init__.pyc", whole.read("lag/__init__.pyc"))
    assert {f"{name}c" for name in names if name.endswith(".py")} <= set(names)
    monkeypatch.syspath_prepend(str(without))
    assert import_module("zipped.lag.units").show_span(1_500) == "1.5 s"


def test_a_java_that_does_not_end_in_time_is_killed() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as waiting:
        end(waiting, 0)
        assert waiting.poll() == -signal.SIGKILL
    with subprocess.Popen(["true"]) as ended:
        end(ended, 60)
        assert ended.poll() == 0

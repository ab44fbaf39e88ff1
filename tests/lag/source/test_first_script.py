"""A first script with the data source, where something is missing: one sentence says what to do."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, Final

import pytest

from tests.lag.copied_logs import copy_of
from tests.support.tree import ROOT

SCRIPT: Final = """
from pyspark.sql import SparkSession
from lag.source.data_source import QuorumLogSource
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(QuorumLogSource)
print(spark.read.format("quorumlog").load({path!r}).count())
"""
SECONDS_MAX: Final = 300


def run(script: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """A script in a process that finds our packages and, if not said otherwise, the libraries."""
    ours = {name: value for name, value in os.environ.items() if "PYSPARK" not in name}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**ours, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )


@pytest.mark.long
@pytest.mark.process
def test_workers_without_the_libraries_are_told_from_the_driver(tmp_path: Path) -> None:
    """As in a virtual environment that is not activated: workers run the python3 of the PATH."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer")
    venv.create(tmp_path / "bare", symlinks=True)
    bare = tmp_path / "bare" / "bin"
    environ = {"PATH": f"{bare}{os.pathsep}{os.environ['PATH']}"}
    script = SCRIPT.format(path=str(copy_of(tmp_path, 1)))
    done = run(script, **environ)
    assert done.returncode == 1
    (said,) = (line for line in done.stderr.splitlines() if "Spark's workers" in line)
    assert f"the Python of Spark's workers, {bare / 'python3'}, has no package " in said
    assert f"that of the driver is {sys.executable}. Before the session starts, set os.env" in said
    # The only traceback is that of the script itself.
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert "ModuleNotFoundError" not in done.stderr
    remedy = 'import os, sys\nos.environ["PYSPARK_PYTHON"] = sys.executable\n'
    assert run(remedy + script, **environ).stdout == "467\n"


def test_an_import_without_the_libraries_says_how_to_install_them() -> None:
    hidden = "import sys; sys.modules.update(pyarrow=None, pyspark=None)\n"
    done = run(hidden + "from lag.source.data_source import QuorumLogSource")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: lag reports need pyarrow and pyspark, which are not installed: "
        f"{sys.executable} -m pip install 'pyarrow>=26.0' 'pyspark>=4.3'"
    )
    assert done.stderr.count("Traceback (most recent call last)") == 1


def test_a_wrong_option_is_a_sentence_and_no_traceback_of_a_worker(
    quorumlog: Any, tmp_path: Path
) -> None:
    def said(**options: str) -> str:
        with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as error:
            quorumlog.read.format("quorumlog").options(**options).load(str(tmp_path)).collect()
        return str(error.value)

    first = said(table="lags").splitlines()[0]
    assert "ValueError: the option table is 'lags'; it can be batches, records, epochs," in first
    for options in ({"since": "yesterday"}, {"columns": "lag"}, {"colour": "blue"}, {}):
        assert "Traceback" not in said(**options)
    assert f"ValueError: {tmp_path}: no segment (*.log) is in it" in said()


@pytest.fixture
def quorumlog(spark: Any) -> Any:
    """The session, with the source registered."""
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    return spark

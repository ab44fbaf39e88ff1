"""A Spark session for the tests of the lag reports: one for all of them, since it takes seconds.

What can be tested without Spark is; these are skipped where pyspark or Java is absent.
"""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from lag.session import sizes
from lag.source import files
from tests.support import real_cluster
from tests.support.s3_server import S3Server, s3_server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two cores of this machine, without its web pages, set for small logs."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer")
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.setenv(name, sys.executable)
        # Ours as a separate process finds it: workers import the data source from there.
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("metaquorum tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder / "local"))
            .config(map=sizes("local[2]", 0) | {"spark.sql.shuffle.partitions": "2"})
            # Without it, to stop a query may take for ever.
            .config("spark.sql.streaming.stopTimeout", "60s")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def plain(spark: Any) -> Iterator[Any]:
    """The session without any shuffle, as it is fastest for small tables."""
    from tests.lag.twins.report_and_twin import UNDIVIDED, with_settings

    with with_settings(spark, UNDIVIDED) as session:
        yield session


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server that speaks S3, which clients find by the environment."""
    with s3_server() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environ.items():
            patch.setenv(name, value)
        # A proxy of the machine must not be asked for it.
        for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
            patch.delenv(name)
        # File systems that an earlier test connected are those of another server.
        files.connected.cache_clear()
        yield started


@pytest.fixture(scope="session")
def kafkas_report(spark: Any) -> Any:
    """The reports of the real cluster, and their time: made once, for they take seconds."""
    folder = str(real_cluster.available(real_cluster.CLUSTER))
    from lag.reports.logs import Logs
    from lag.source.data_source import QuorumLogSource
    from tests.lag.twins.report_and_twin import READ, UNDIVIDED, collected, with_settings

    spark.dataSource.register(QuorumLogSource)

    def table(name: str) -> Any:
        reader = spark.read.format("quorumlog").option("table", name).option("json", "few")
        return reader.load(folder)

    with with_settings(spark, UNDIVIDED):
        return collected(Logs(**{name: table(name) for name in READ}))

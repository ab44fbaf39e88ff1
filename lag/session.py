"""The Spark session of a command: quiet, bounded, and removed without a trace.

`--master` is passed to Spark unchanged. Local workers import our code from where it is; those of a
cluster receive a zip of our packages. Spark's own output goes to a file, whose last line is quoted
in case of a failure. Everything that Spark writes to the local disk is in one folder, which has a
size limit and is removed at the end.
"""

import importlib.util
import logging
import marshal
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lag.extra import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).parents[__name__.count(".")].resolve()
"""The folder from which our packages are imported."""
ABOVE: Final = __name__.split(".")[:-2]
"""The package that contains ours, `metaquorum` once they are installed; empty in the tree."""
PACKAGES: Final = ("admin", "broker", "lag", "quorum", "statemachine")
"""The packages that a worker imports to read logs."""
SCRATCH_BYTES_MAX: Final = 16 << 30
"""The default limit of the scratch folder."""
SCRATCH_VARIABLE: Final = "METAQUORUM_LAG_SCRATCH_MAX"
SMALL_BYTES: Final = 32 << 20
"""Logs that are smaller together are processed faster than Spark compiles its queries."""
PART_BYTES_MIN: Final = 4 << 20
"""The least bytes of logs for each part of a shuffle on this machine,"""
PART_BYTES_MAX: Final = 1 << 30
"""and the most: what is shuffled of them is a tenth."""
PART_BYTES: Final = 64 << 20
"""The same on a cluster, where the number of cores is not known beforehand."""
PARTS_MAX: Final = 20_000
"""Spark's driver has to know each part."""
LOOK_EVERY_SECONDS: Final = 1.0
END_SECONDS_MAX: Final = 20

_SHORT_LIVED: Final = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"
"""Options for a short-lived Java process: only the quick compiler.

Workers do the work per record, and the optimizing compiler took as long as all tasks.
"""

_LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


class NoSpark(Exception):
    """Spark cannot be started; the message says what is missing and what to do."""


class SparkFailed(Exception):
    """Spark was started and failed; the message quotes it."""


def check() -> None:
    """Raise `NoSpark` unless Spark's Python packages are installed and SPARK_HOME is usable."""
    lacks = missing()
    if lacks is not None:
        raise NoSpark(lacks)
    home = os.environ.get("SPARK_HOME")
    if home is not None and not (Path(home) / "bin" / "spark-submit").is_file():
        raise NoSpark(
            f"Spark cannot be started: SPARK_HOME is {home or 'empty'}, and has no "
            "bin/spark-submit: unset it, for the Spark that is installed with metaquorum, or name "
            "the folder of another one"
        )


@contextmanager
def spark_session(
    master: str,
    *,
    name: str = "metaquorum lag",
    scratch_bytes_max: int = SCRATCH_BYTES_MAX,
    input_bytes: int | None = None,
) -> Iterator["SparkSession"]:
    """A session on `master` with the data source registered, for the duration of the context.

    `input_bytes` is the size of the logs, if known. Raises `NoSpark` and `SparkFailed`. A process
    can have one at a time.
    """
    check()
    scratch = Path(tempfile.mkdtemp(prefix="metaquorum-lag-"))
    try:
        with (
            _signals(),
            _quiet(),
            _gateway(master, name, scratch, input_bytes) as (
                conf,
                gateway,
            ),
        ):
            spark = _start(conf, gateway, scratch)
            _own_interrupts()
            try:
                _equip(spark, master, scratch)
                with _Guard(spark, scratch, scratch_bytes_max):
                    yield spark
            finally:
                # A dead Java process cannot execute `stop`.
                with suppress(Exception):
                    spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _signals() -> Iterator[None]:
    """End the command and its children on SIGTERM as on Ctrl-C; restore the handlers afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals_taken(take: Callable[[int], None]) -> Iterator[None]:
    """Call `take` on Ctrl-C and SIGTERM while the context lasts, and interrupt no call to Spark."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda it, _: take(it)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _own_interrupts() -> None:
    """Disable Spark's handler of Ctrl-C, which would call Java in the middle of another call."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence py4j, which logs each error that it also raises."""
    logger = logging.getLogger("py4j")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def is_local(master: str) -> bool:
    """True if the workers run on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def settings(master: str, scratch: Path, input_bytes: int | None = None) -> dict[str, str]:
    """Spark's settings for logs of this size, without master and application name."""
    values = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(scratch / "blocks"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()} "
            f"-Dderby.system.home={scratch / 'derby'}"
        ),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A row may be a pack of thousands of records, so the number of rows does not bound a batch.
        "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
        # Without it Spark refuses a data source with `pushFilters`.
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.stopTimeout": "10s",
        "spark.sql.streaming.checkpointLocation": str(scratch / "checkpoints"),
        # A stream may run for days; Spark keeps only its last steps.
        "spark.sql.streaming.minBatchesToRetain": "2",
        # Cached data is read only a few times, so compression would cost more than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }
    is_small = input_bytes is not None and input_bytes < SMALL_BYTES
    if is_local(master):
        # No other machine connects to us.
        values["spark.driver.bindAddress"] = values["spark.driver.host"] = "127.0.0.1"
    if is_local(master) or is_small:
        values["spark.driver.extraJavaOptions"] += f" {_SHORT_LIVED}"
    given = given_settings()
    sized = sizes(master, input_bytes).items()
    return {**values, **{key: value for key, value in sized if key not in given}}


def sizes(master: str, input_bytes: int | None) -> dict[str, str]:
    """The settings that depend on the size of the logs; `input_bytes` is None if it is unknown."""
    cores, small = os.cpu_count() or 2, {}
    if input_bytes is not None and input_bytes < SMALL_BYTES:
        small = {
            # Compiling a query, or any expression in it, takes longer than its few rows.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.executor.extraJavaOptions": _SHORT_LIVED,
        }
    # Planning again between stages costs more than it saves, unless the logs are large.
    if is_local(master) or small:
        small["spark.sql.adaptive.enabled"] = "false"
    # By default Spark divides everything into 200 parts.
    if is_local(master):
        parts = cores if input_bytes is None else min(cores, -(-input_bytes // PART_BYTES_MIN))
        most = -(-(input_bytes or 0) // PART_BYTES_MAX)
        return {**small, "spark.sql.shuffle.partitions": str(max(1, parts, most))}
    if input_bytes is not None:
        parts = min(PARTS_MAX, -(-input_bytes // PART_BYTES))
        small["spark.sql.shuffle.partitions"] = str(max(1, parts))
    return small


def given_settings() -> set[str]:
    """The names of the settings in PYSPARK_SUBMIT_ARGS, which override those by size."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return {
        word.partition("=")[0] for before, word in pairwise(words) if before in ("--conf", "-c")
    }


def zip_packages(target: Path) -> Path:
    """Write the code of our packages into `target`, for the workers of a cluster.

    Beside each source is its bytecode, because a worker would compile it anew in every process.
    """
    above = ROOT.joinpath(*ABOVE)
    paths = list(above.glob("*.py")) if ABOVE else []
    for package in PACKAGES:
        paths += sorted((above / package).rglob("*.py"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in paths:
            name = path.relative_to(ROOT)
            archive.write(path, str(name))
            archive.writestr(str(name.with_suffix(".pyc")), _bytecode(path))
    return target


def _bytecode(path: Path) -> bytes:
    """The content of a `.pyc` that is valid wherever it is (PEP 552: by hash, unchecked)."""
    code = SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    head = importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little")
    return head + importlib.util.source_hash(path.read_bytes()) + marshal.dumps(code)


@contextmanager
def _gateway(
    master: str, name: str, scratch: Path, input_bytes: int | None
) -> Iterator[tuple[Any, Any]]:
    """Start Spark's Java process, without a session; its output goes to a file."""
    from pyspark import SparkConf, java_gateway
    from pyspark.errors import PySparkException

    launch: Any = java_gateway.launch_gateway
    (scratch / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    conf = SparkConf().setMaster(master).setAppName(name)
    for key, value in settings(master, scratch, input_bytes).items():
        conf.set(key, value)
    with _environment(master, scratch), (scratch / "spark.log").open("wb") as output:
        try:
            gateway = launch(conf, {"stdout": output, "stderr": output})
        except PySparkException:
            raise SparkFailed(f"Spark did not start: {last_words(scratch)}") from None
        try:
            yield conf, gateway
        finally:
            gateway.shutdown()
            if gateway.proc is not None:
                gateway.proc.stdin.close()
                end(gateway.proc, END_SECONDS_MAX)


def end(java: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until Java has ended; kill it after `seconds`: nothing that it holds is needed."""
    try:
        java.wait(seconds)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


@contextmanager
def _environment(master: str, scratch: Path) -> Iterator[None]:
    """Set the Python of the workers, and where local workers find our code and Spark's."""
    before = dict(os.environ)
    if is_local(master) and "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(_home_without_zips(scratch / "spark"))
    if is_local(master) or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    try:
        yield
    finally:
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_HOME"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


def _home_without_zips(home: Path) -> Path:
    """A Spark home like that of the installed package, without its zips of Python code.

    Spark's Python processes prefer the code in those zips, which has no bytecode cache. A report
    waits for five processes in sequence, and each would spend half a second on compilation.
    """
    import pyspark

    installed = Path(pyspark.__file__).parent
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(installed / name)
    return home


def _start(conf: Any, gateway: Any, scratch: Path) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except (Py4JError, TypeError, AttributeError) as error:
        # A master that does not answer leaves an incomplete context, hence the other types.
        reason = first_sentence(error) if isinstance(error, Py4JError) else last_words(scratch)
        raise SparkFailed(f"Spark did not start on {conf.get('spark.master')}: {reason}") from None


def _equip(spark: "SparkSession", master: str, scratch: Path) -> None:
    from lag.source.data_source import QuorumLogSource

    if not is_local(master):
        spark.sparkContext.addPyFile(str(zip_packages(scratch / "metaquorum.zip")))
    spark.dataSource.register(QuorumLogSource)
    # If Java closes the connection first, py4j would print a traceback at the end.
    accumulators: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if accumulators is not None:
        accumulators.handle_error = lambda *_: None


@contextmanager
def spark_failures() -> Iterator[None]:
    """Convert Spark's exceptions to `SparkFailed`."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"Spark gave up: {first_sentence(error)}") from None


def first_sentence(error: BaseException) -> str:
    """The message of a Java error without its stack."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java.toString()) if java is not None else str(error)
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return line[:400]


def last_words(scratch: Path) -> str:
    """The last line that Spark's process wrote."""
    with (scratch / "spark.log").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4_096))
        written = file.read().decode(errors="replace").splitlines()
    lines = [line.strip() for line in written if line.strip() and not line.startswith("\tat ")]
    return lines[-1][:400] if lines else "no output"


def bytes_in(folder: Path) -> int:
    """The size of all files below `folder`; files that disappear meanwhile do not count."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                # Spark may have removed the file meanwhile.
                continue
    return total


class _Guard:
    """A thread that watches the scratch folder and cancels all jobs if it grows too large."""

    def __init__(self, spark: "SparkSession", scratch: Path, bytes_max: int) -> None:
        self._spark = spark
        self._scratch = scratch
        self._bytes_max = bytes_max
        self._over = threading.Event()
        self._exceeded = False
        self._thread = threading.Thread(target=self._poll, name="lag scratch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._over.set()
        self._thread.join()
        if self._exceeded:
            raise SparkFailed(
                f"Spark needs more than {self._bytes_max} bytes in {self._scratch.parent}: "
                f"read fewer logs or a shorter time (--since, --until), or allow more "
                f"({SCRATCH_VARIABLE}=64GiB)"
            ) from None

    def _poll(self) -> None:
        while not self._over.wait(LOOK_EVERY_SECONDS):
            if bytes_in(self._scratch) > self._bytes_max:
                self._exceeded = True
                self._spark.sparkContext.cancelAllJobs()

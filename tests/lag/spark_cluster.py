"""A Spark cluster of processes on loopback, a master and workers, out of the pyspark package."""

import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_SECONDS_MAX: Final = 120
END_SECONDS_MAX: Final = 20
_DEPLOY: Final = "org.apache.spark.deploy"
_MASTER_IS_AT: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_HAS_JOINED: Final = re.compile(r"Successfully registered with master")


@contextmanager
def standalone_cluster(
    folder: Path, environ: Mapping[str, str], *, workers: int, cores: int = 1
) -> Iterator[str]:
    """The URL of the master of a cluster whose workers have joined; ended by their pids."""
    with ExitStack() as stack:
        master = stack.enter_context(
            _part(folder, environ, "master.Master", "--port", "0", "--webui-port", "0")
        )
        url = master.until(_MASTER_IS_AT)[1]
        joining = [
            stack.enter_context(
                _part(
                    folder, environ, "worker.Worker", "--cores", str(cores), "--memory", "1g",
                    "--work-dir", str(folder / f"worker-{number}"), "--webui-port", "0", url,
                )
            )
            for number in range(workers)
        ]  # fmt: skip
        for worker in joining:
            worker.until(_HAS_JOINED)
        yield url


class _Part:
    """A process of the cluster, and what it says."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name="spark's log")
        self._reader.start()

    def _read(self) -> None:
        """All of its log, for a pipe that is full would hold it up."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, wanted: re.Pattern[str]) -> re.Match[str]:
        """The line of its log that says so; fails with all of the log if it ends before."""
        seen = []
        while (line := self._lines.get(timeout=START_SECONDS_MAX)) is not None:
            seen.append(line)
            found = wanted.search(line)
            if found is not None:
                return found
        raise AssertionError("".join(seen))

    def end(self) -> None:
        """End it and all that it has started; a worker ends its executors if it can."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS_MAX)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reader.join()


@contextmanager
def _part(folder: Path, environ: Mapping[str, str], role: str, *arguments: str) -> Iterator[_Part]:
    with subprocess.Popen(
        [str(SPARK_CLASS), f"{_DEPLOY}.{role}", "--host", "127.0.0.1", *arguments],
        cwd=folder,
        env={
            **environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A group of its own, to which the executors belong that a worker starts.
        start_new_session=True,
    ) as process:
        part = _Part(process)
        try:
            yield part
        finally:
            part.end()

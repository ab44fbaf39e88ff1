"""`metaquorum lag watch` as a user starts it, in a process group of its own: a terminal's Ctrl-C
reaches everything in it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.tree import ROOT

SECONDS_MAX: Final = 280.0
"""The time after which it is killed. It takes twenty seconds, and minutes if others run Spark."""


class WatchingProcess:
    """The command, while it runs; stdout is no terminal, so that every table comes in lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def until(self, replica: str, log_end: int) -> list[str]:
        """Read tables until the log of this replica ends there; its row."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            cells = line.split()
            if cells[:1] == [replica] and cells[3] == str(log_end):
                return cells
        raise AssertionError(f"it ended: {self._process.communicate()[1]}")

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; the exit code, and what is on stderr."""
        os.killpg(self._process.pid, signal.SIGINT)
        _, err = self._process.communicate()
        return self._process.returncode, err

    def java_left(self) -> list[str]:
        """The Java processes in its group."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pgid=,comm="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 1) for line in listed.stdout.splitlines()]
        return [name for group, name in rows if group == str(self._process.pid) and "java" in name]


@contextmanager
def watching(*arguments: str | Path) -> Iterator[WatchingProcess]:
    """Begin to watch; whatever is left at the end is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "admin.cli.main", "lag", "watch", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    guard = threading.Timer(SECONDS_MAX, kill)
    guard.start()
    try:
        yield WatchingProcess(process)
    finally:
        guard.cancel()
        kill()
        process.communicate()

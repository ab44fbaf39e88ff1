"""`metaquorum` as a user starts it, for tests: commands that end, and a cluster that stays."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, Final

from tests.fork_server.client import ForkServer
from tests.support.tree import ROOT

COMMAND_SECONDS: Final = 60
STOP_SECONDS: Final = 30
UP: Final = "All are up"

# What the commands of tests import as they run; of what is missing here, each imports its own.
IMPORTED: Final = (
    *("asyncio", "admin.cli.main", "admin.client.admin_client", "admin.plan_file"),
    *("admin.client.producer", "admin.client.consumer", "admin.client.routed_admin"),
    *("admin.capabilities.brokers", "admin.capabilities.moves", "admin.capabilities.plans"),
    *("admin.cli.brokers", "admin.cli.moves", "admin.cli.plans", "admin.cli.quorum"),
    *("admin.cli.quorum_text", "admin.cli.reassign_actions", "admin.cli.reassign_partitions"),
    "admin.cli.records",
    "admin.cli.topics",
)
_idle: Final[LifoQueue[ForkServer]] = LifoQueue()
"""As many as commands have run at once; each runs one at a time."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str


def metaquorum(*arguments: str | Path, stdin: bytes = b"") -> Done:
    """Run a command to its end, in a process of its own: a fork of one that has imported it."""
    try:
        forks = _idle.get_nowait()
    except Empty:
        forks = ForkServer(*IMPORTED)
    ended = forks.run("admin.cli.main:metaquorum", *map(str, arguments), stdin=stdin)
    _idle.put(forks)
    return Done(ended.code, ended.out.decode(), ended.err.decode())


def no_more_commands() -> None:
    """End the processes that commands are forked from."""
    while not _idle.empty():
        _idle.get().close()


def started(*arguments: str | Path, seconds: int = COMMAND_SECONDS) -> Done:
    """Run a command to its end as a user does, in a Python of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "admin.cli.main", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


class LocalProcess:
    """`metaquorum local` in the foreground of its own process, which is up."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self.folder = folder

    @property
    def cluster(self) -> dict[str, Any]:
        """The contents of cluster.json now."""
        text = (self.folder / "cluster.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    @property
    def servers(self) -> str:
        return ",".join(broker["kafka"] for broker in self.cluster["brokers"])

    @property
    def controllers(self) -> str:
        return ",".join(controller["kafka"] for controller in self.cluster["controllers"])

    def pid(self, id: int) -> int:
        nodes: Sequence[dict[str, Any]] = self.cluster["controllers"] + self.cluster["brokers"]
        (pid,) = [node["pid"] for node in nodes if node["id"] == id]
        return int(pid)

    def nodes(self) -> dict[str, int | None]:
        """The process of every node by its name; None for one that does not run."""
        kinds = {"controller": self.cluster["controllers"], "broker": self.cluster["brokers"]}
        return {f"{kind}-{each['id']}": each["pid"] for kind in kinds for each in kinds[kind]}

    def wait(self) -> int:
        """The exit code of a cluster that has been told to stop."""
        return self._process.wait(timeout=STOP_SECONDS)

    def line(self, *, containing: str) -> str:
        """The next line on stderr that contains this; fails when there is none any more."""
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if containing in line:
                return line.rstrip("\n")
        raise AssertionError(f"{containing!r} was not said, but:\n{''.join(said)}")

    def close_terminal(self) -> None:
        """Let nobody listen any more to what it says."""
        assert self._process.stderr is not None
        self._process.stderr.close()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self._process.send_signal(how)
        if self._process.stderr is not None and not self._process.stderr.closed:
            self._process.communicate(timeout=STOP_SECONDS)
        return self._process.wait(timeout=STOP_SECONDS)


@contextmanager
def local(folder: Path, *arguments: str) -> Iterator[LocalProcess]:
    """A cluster that is up; stopped at the end if the test has not done so."""
    process = subprocess.Popen(
        [sys.executable, "-m", "admin.cli.main", "local", "--dir", str(folder), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    running = LocalProcess(process, folder)
    try:
        running.line(containing=UP)
        yield running
    finally:
        if process.poll() is None:
            running.stop()
        if process.stderr is not None:
            process.stderr.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

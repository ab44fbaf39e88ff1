"""A terminal with a shell in which the commands of a page are typed, for a cluster on free ports.

In the page the cluster is the one that `metaquorum local --dir /tmp/mq` makes: its folder and its
ports are replaced in both directions.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Final

from tests.process.local_process import started
from tests.support.tree import ROOT

SECONDS_MAX: Final = 120
"""The time limit of one command; it ends only what hangs."""
PROGRAMS: Final = ("metaquorum", "metadata-quorum", "reassign-partitions")
SHOWN_FOLDER: Final = "/tmp/mq"
SHOWN_PORT: Final = 19_000
PORTS_SPANNED: Final = 201
START: Final = "metaquorum local --dir"

_END: Final = "the command has ended"
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:(\d+)")


class Terminal:
    """A shell in `folder`; use it as a context, which stops what was started in it."""

    def __init__(self, folder: Path) -> None:
        self._cluster = folder / "mq"
        programs, home = folder / "bin", folder / "home"
        programs.mkdir()
        home.mkdir()
        for name in PROGRAMS:
            _write_program(programs / name, name.replace("-", "_"))
        kept = {name: value for name, value in os.environ.items() if "METAQUORUM" not in name}
        self._environment = {
            **kept,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "COLUMNS": "200",
        }
        self._folder = home

    def __enter__(self) -> "Terminal":
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.communicate()
        if (self._cluster / "cluster.json").exists():
            started("local", "stop", "--dir", self._cluster)

    def answer(self, command: str) -> str:
        """Type the command, and return what it prints, to stdout or stderr."""
        watchdog = Timer(SECONDS_MAX, self._shell.kill)
        watchdog.start()
        try:
            return self._answer(command)
        finally:
            watchdog.cancel()

    def _answer(self, command: str) -> str:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        # With a stdin of its own, so that no command reads the next one.
        typed = f"{{ {self._real(command)}\n}} </dev/null\nprintf '\\n{_END}\\n'\n"
        self._shell.stdin.write(typed)
        self._shell.stdin.flush()
        said: list[str] = []
        for line in self._shell.stdout:
            if line == f"{_END}\n":
                return self._shown("".join(said))
            said.append(line)
        raise AssertionError(
            f"the shell ended, or was ended, while {command!r} ran; it said:\n{''.join(said)}"
        )

    def _base_port(self) -> int:
        """The port from which those of the cluster are counted; that of pages before its start."""
        try:
            plan = json.loads((self._cluster / "local.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return SHOWN_PORT
        first = plan["controllers"][0]
        return int(first["kafka"].rpartition(":")[2]) - int(first["id"])

    def _real(self, command: str) -> str:
        if command.startswith(START):
            command += " --base-port 0"
        moved = _moved(command, SHOWN_PORT, self._base_port())
        return moved.replace(SHOWN_FOLDER, str(self._cluster))

    def _shown(self, text: str) -> str:
        text = text.replace(str(self._cluster), SHOWN_FOLDER)
        return _moved(text, self._base_port(), SHOWN_PORT)


def _write_program(path: Path, function: str) -> None:
    """Write an entry point as an installation has it, for the tree that is tested."""
    path.write_text(
        f"#!{sys.executable}\nfrom admin.cli.main import {function}\n\n{function}()\n",
        encoding="utf-8",
    )
    path.chmod(0o755)


def _moved(text: str, base: int, other: int) -> str:
    """The text with the addresses of a cluster whose ports are counted from `other`."""

    def address(found: re.Match[str]) -> str:
        offset = int(found[1]) - base
        return f"127.0.0.1:{other + offset}" if 0 < offset < PORTS_SPANNED else found[0]

    return _ADDRESS.sub(address, text)

"""Run programs in forks of one warm process, which has imported what all of them need.

Each program gets a process of its own, as on a user's machine, without the half second of
processor time that Python needs to start and import; the suite runs some hundred of them.
The pipe carries one JSON list a line: `[stdin, program, *arguments]` there and `[exit code, stdout,
stderr]` back, with bytes as `ENCODING`.
"""

import json
import subprocess
import sys
from typing import NamedTuple

from tests.fork_server.server import ENCODING
from tests.support.tree import ROOT


class Ended(NamedTuple):
    """The result of a program."""

    code: int
    """The exit code; below 0 the signal that ended the process."""
    out: bytes
    err: bytes

    @property
    def last_line(self) -> str:
        """The last line on stdout that is not empty."""
        return self.out.decode().rstrip().rpartition("\n")[2]

    @property
    def said(self) -> str:
        """All output, for the message of a failed test."""
        return f"{self.out.decode(errors='replace')}\n{self.err.decode(errors='replace')}"


class ForkServer:
    """A process that forks for each program and waits until it has ended."""

    def __init__(self, *imported: str) -> None:
        """Start it; it imports the modules `imported` once, for all programs."""
        command = [sys.executable, "-m", "tests.fork_server.server", *imported]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, program: str, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run a module, as `python -m` does, or `module:function`, as an installed program does."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(json.dumps([stdin.decode(ENCODING), program, *arguments]) + "\n")
        asked.flush()
        line = answered.readline()
        assert line, f"the fork server has ended at {program} {arguments}"
        code, *said = json.loads(line)
        return Ended(code, *(each.encode(ENCODING) for each in said))

    def close(self) -> None:
        """Close the pipe, which ends the process."""
        self._process.communicate()

"""Programs of ours, each in a fork of one process that has imported what all of them need.

A process of its own for each, as at a user's, without the half of a second of processor time that
Python takes to start and to import; the suite runs some hundred of them.
"""

import json
import subprocess
import sys
from typing import NamedTuple

from tests.forks.pipes import BYTES_AS
from tests.support.tree import ROOT


class Ended(NamedTuple):
    """How a program ended."""

    code: int
    """Its exit code; below 0 the signal that ended it."""
    out: bytes
    err: bytes

    @property
    def last_line(self) -> str:
        """Of what it said on stdout, the last line that is not empty."""
        return self.out.decode().rstrip().rpartition("\n")[2]

    @property
    def said(self) -> str:
        """All that it said, for who reads of a test that failed."""
        return f"{self.out.decode(errors='replace')}\n{self.err.decode(errors='replace')}"


class Forks:
    """A process that forks for each program it is given, and waits until that has ended."""

    def __init__(self, *imported: str) -> None:
        """`imported` are the modules that it imports once, for all programs."""
        command = [sys.executable, "-m", "tests.forks.forking", *imported]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, program: str, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run a module, as `python -m` does, or `module:function`, as an installed program does."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(json.dumps([stdin.decode(BYTES_AS), program, *arguments]) + "\n")
        asked.flush()
        line = answered.readline()
        assert line, f"the process that forks has ended at {program} {arguments}"
        code, *said = json.loads(line)
        return Ended(code, *(each.encode(BYTES_AS) for each in said))

    def close(self) -> None:
        """Nobody asks it any more, and so it ends."""
        self._process.communicate()

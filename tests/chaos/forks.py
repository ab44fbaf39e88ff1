"""Programs of ours, each in a fork of one process that has imported what they need and is not ours.

Python, pytest and hypothesis take half of the time of a program that runs a mutant, and there are
more than a hundred of them. Nothing of the product is imported before the fork: each plants its
fault in a product that has not been started yet.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.support.tree import ROOT


class Ended(NamedTuple):
    """How a program ended."""

    code: int
    """As a shell has it of a process: below 0 for a signal."""
    said: str
    """On stdout and stderr, as they came."""

    @property
    def last_line(self) -> str:
        """The last line that says something, or nothing."""
        return self.said.rstrip().rpartition("\n")[2]


class Forks:
    """A process that forks for each program it is given."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, module: str, *arguments: str) -> Ended:
        """`python -m module arguments`, to its end."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(json.dumps([module, *arguments]) + "\n")
        asked.flush()
        line = answered.readline()
        assert line, f"the process that forks has ended at {module} {arguments}"
        return Ended(*json.loads(line))


@contextmanager
def forks() -> Iterator[Forks]:
    """The process, until the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.forking"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        # It ends when nobody can ask it any more.
        yield Forks(process)

"""`python -m tests.chaos.forking`: the process behind `tests.support.forks`.

It reads a program a line, as a JSON list of module and arguments, and answers each with a line
that says how it ended. It has one thread and runs one program at a time.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
from typing import Final

import pytest

PRODUCT: Final = ("quorum", "statemachine", "broker", "admin", "chaos")
NEEDED: Final = (
    *("asyncio", "concurrent.futures", "gzip", "http.client", "logging", "subprocess", "uuid"),
    *("crc32c", "hypothesis.strategies", "hypothesis.stateful", "kio.schema", "kio.serial"),
    *("msgspec", "orjson", "pyroaring"),
)
SECONDS_MAX: Final = 600
"""Of one program; the slowest mutant takes a few."""


def prepare() -> None:
    """Import what programs need, but nothing of the product.

    Pytest wants to be the first who imports its plugins, to rewrite their assertions; it does so
    when it looks for tests, of which there are none in this folder.
    """
    nothing_found = pytest.main(["-q", "-p", "no:cacheprovider", "tests/support"])
    assert nothing_found == pytest.ExitCode.NO_TESTS_COLLECTED, nothing_found
    for name in NEEDED:
        importlib.import_module(name)
    ours = [name for name in sys.modules if name.partition(".")[0] in PRODUCT]
    assert not ours, f"imported before any fault could be planted: {ours}"


def become(module: str, *arguments: str) -> None:
    """Run the program in this process; how it ends is how the process ends."""
    signal.alarm(SECONDS_MAX)
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    """See the module."""
    answers = os.fdopen(os.dup(1), "w")
    with open(os.devnull) as nothing:
        asked = os.fdopen(os.dup(0))
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # What pytest says here is no answer.
    prepare()
    for line in asked:
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if not child:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                become(*json.loads(line))
                return
            _, status = os.waitpid(child, 0)
            said.seek(0)
            code = os.waitstatus_to_exitcode(status)
            answers.write(json.dumps([code, said.read().decode(errors="replace")]) + "\n")
            answers.flush()


main()

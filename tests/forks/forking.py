"""`python -m tests.forks.forking MODULE...`: the process behind `tests.forks.forked`.

It imports the modules, reads a program a line, and answers each with a line that says how it ended.
It has one thread, and runs one program at a time.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
from contextlib import suppress
from typing import IO, Final

from tests.forks.pipes import BYTES_AS

SECONDS_MAX: Final = 300
"""Of one program; then it is ended, by SIGALRM."""


def become(program: str, *arguments: str) -> None:
    """Run the program in this process; how it ends is how the process ends."""
    signal.alarm(SECONDS_MAX)
    module, _, function = program.partition(":")
    sys.argv = [program, *arguments]
    if function:
        getattr(importlib.import_module(module), function)()
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    """See the module."""
    # The pipes are taken out of the way: what is imported may say something.
    asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in sys.argv[1:]:
        importlib.import_module(name)
    # What is imported stays: no collection in a fork needs to look at it, nor copies its pages.
    gc.collect()
    gc.freeze()
    for line in asked:
        given, *program = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                for number, end in enumerate((reading, out.fileno(), err.fileno())):
                    os.dup2(end, number)
                os.close(writing)
                become(*program)
                return
            os.close(reading)
            # It may end without having read all.
            with suppress(BrokenPipeError), os.fdopen(writing, "wb") as stdin:
                stdin.write(given.encode(BYTES_AS))
            _, status = os.waitpid(child, 0)
            said = [_all_of(file) for file in (out, err)]
            code = os.waitstatus_to_exitcode(status)
            answers.write(json.dumps([code, *said]) + "\n")
            answers.flush()


def _all_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(BYTES_AS)


main()

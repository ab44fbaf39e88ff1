"""`python -m tests.fork_server.server MODULE...`: the process behind `ForkServer`.

It imports the modules, reads one program a line, and answers each with a line that has its result.
It has one thread and runs one program at a time. It imports nothing of the tests: a program may be
pytest, which must be the first to import them.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from typing import IO, Final, NoReturn

ENCODING: Final = "latin-1"
"""The encoding of bytes in a line: one character for each."""
SECONDS_MAX: Final = 300
"""The time of one program; SIGALRM ends it then."""


def become(program: str, *arguments: str) -> None:
    """Run the program in this process, which ends as the program does."""
    signal.alarm(SECONDS_MAX)
    module, _, function = program.partition(":")
    sys.argv = [program, *arguments]
    if function:
        getattr(importlib.import_module(module), function)()
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def exit_code(*program: str) -> int:
    """Run the program in this process and return its exit code, as the interpreter would."""
    try:
        become(*program)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)  # noqa: T201
        return 1
    except BaseException:  # noqa: BLE001 - the process ends here, whatever it is
        traceback.print_exc()
        return 1
    return 0


def finish(code: int) -> NoReturn:
    """End the process as the interpreter does, but leave its memory to the system.

    Without this, to take hundreds of modules apart takes a quarter of the time of a program.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code & 0xFF)


def main() -> None:
    """Serve programs until stdin ends."""
    # Imported modules may print: keep the pipes apart from stdin and stdout.
    asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in sys.argv[1:]:
        importlib.import_module(name)
    # Imported modules stay: a collection in a fork need not look at them and copy their pages.
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
                finish(exit_code(*program))
            os.close(reading)
            # It may end without having read all.
            with suppress(BrokenPipeError), os.fdopen(writing, "wb") as stdin:
                stdin.write(given.encode(ENCODING))
            _, status = os.waitpid(child, 0)
            said = [_all_of(file) for file in (out, err)]
            code = os.waitstatus_to_exitcode(status)
            answers.write(json.dumps([code, *said]) + "\n")
            answers.flush()


def _all_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(ENCODING)


if __name__ == "__main__":
    main()

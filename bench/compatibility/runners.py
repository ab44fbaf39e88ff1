"""Ways to carry out a call within a time limit: as a process, and in this process by a library."""

import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bench.compatibility.model import Act, Case, Failed

CALL_SECONDS_MAX: Final = 60
SHOWN_CHARACTERS_MAX: Final = 1_500


@dataclass(frozen=True, slots=True)
class Words:
    """A command line without its program, and its standard input."""

    words: Sequence[str]
    stdin: str = ""
    wrapper: Sequence[str] = ()
    """The program that runs the program, with its options."""


def run(command: Sequence[str], stdin: str = "", environ: Mapping[str, str] | None = None) -> str:
    """The output of a process; raises `Failed` with it if the process failed."""
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS_MAX,
            check=False,
            env=environ,
        )
    except subprocess.TimeoutExpired as expired:
        said = b"".join(filter(None, (expired.stdout, expired.stderr))).decode(errors="replace")
        raise Failed(f"no end after {CALL_SECONDS_MAX} s: {_short(said)}") from None
    if done.returncode:
        raise Failed(f"exit code {done.returncode}: {_short(done.stderr + done.stdout)}")
    return done.stdout + done.stderr


def within_limit(work: Callable[[], Any], on_expiry: Callable[[], object] = lambda: None) -> Any:
    """The result of `work`, which runs in a thread; raises `Failed` if it fails or takes too long.

    A thread that takes too long is left to itself, after `on_expiry`.
    """
    results: list[Any] = []
    failures: list[Exception] = []

    def target() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001 - a client's; it becomes the answer
            failures.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(CALL_SECONDS_MAX)
    if thread.is_alive():
        on_expiry()
        raise Failed(f"no answer after {CALL_SECONDS_MAX} s")
    if failures:
        (error,) = failures
        raise Failed(_short(f"{type(error).__name__}: {error}")) from error
    return results[0]


@contextmanager
def in_process(_: object = None) -> Iterator[Callable[[Case, Act], str]]:
    """Acts that are functions of a library."""
    yield lambda case, act: str(within_limit(lambda: act(case)))


def _short(text: str) -> str:
    return " ".join(text.split())[:SHOWN_CHARACTERS_MAX]

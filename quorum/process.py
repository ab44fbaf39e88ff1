"""The process of a node: its event loop, logging, signals and exit code."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from quorum import log_levels, process_log
from quorum.allocator import give_back_freed_memory
from quorum.core.committed_history import CommittedHistoryLost
from quorum.log.errors import StorageError
from quorum.log_events import LogEvent
from quorum.ports import LogFailure
from quorum.process_log import LINE_CHARACTERS_MAX, LogConfig, LogFormat
from quorum.transport import audit_log
from quorum.transport.address import Address
from quorum.transport.descriptors import DESCRIPTORS_FEW, raise_limit
from quorum.transport.refusal_log import printable
from quorum.transport.security.tls import TlsUnusable

logger = logging.getLogger("process")

SWITCH_SECONDS: Final = 0.0005


class StartError(Exception):
    """The node cannot start; the message names the cause and the remedy."""


@contextmanager
def binding(setting: str, address: Address) -> Iterator[None]:
    """Raise `StartError`, with the setting of the address, if it cannot be bound."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"cannot listen at {address} ({setting}): {error.strerror or error}; "
            "end what listens there, or choose another port"
        ) from error


def run_process(
    node: Callable[[], Coroutine[Any, Any, None]],
    *failures: type[Exception],
    log: LogConfig | None = None,
) -> int:
    """Run a node; return the exit code of the process.

    An error at the start, of the storage, or of one of `failures` is printed and ends the process.
    Any other is a fault of the program: it is logged with its traceback. The last lines, one for
    each error, begin with `Error: ` in both cases; in JSON they are of the event `node-failed`.
    """
    if not __debug__:
        # The assertions guard safety, and `python -O` removes them.
        sys.stderr.write("metaquorum does not run under python -O: its assertions must hold\n")
        return 1
    give_back_freed_memory()
    log = log or LogConfig()
    handler = process_log.handler(log.format)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    log_levels.begin(log.levels)
    descriptors = raise_limit()
    if descriptors < DESCRIPTORS_FEW:
        logger.warning(
            "this process may have %d file descriptors (ulimit -n), fewer than %d: connections "
            "beyond what they allow are closed",
            descriptors,
            DESCRIPTORS_FEW,
            extra=LogEvent.DESCRIPTORS_FEW.extra,
        )
    # One JSON object a line, without a prefix.
    audit_lines = logging.StreamHandler(sys.stderr)
    audit_lines.setFormatter(logging.Formatter("%(message)s"))
    audit_log.logger.addHandler(audit_lines)
    audit_log.logger.propagate = False
    told: tuple[type[Exception], ...] = (
        StartError,
        StorageError,
        LogFailure,
        CommittedHistoryLost,
        TlsUnusable,
        *failures,
    )
    # A thread that computes, such as one that decodes a large request, keeps the interpreter's lock
    # for this long each time the loop has let it go for a system call; by default for 5 ms.
    sys.setswitchinterval(SWITCH_SECONDS)
    failed = False
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(node())
    except* told as group:
        failed = True
        for error in leaves(group):
            _write_error(str(error), log.format)
    except* Exception as group:
        failed = True
        logger.critical(
            "an unexpected error ends the process", exc_info=group, extra=LogEvent.NODE_FAILED.extra
        )
        for error in leaves(group):
            what = f"{type(error).__name__}: {error}"
            _write_error(printable(what, LINE_CHARACTERS_MAX), log.format)
    handler.close()
    return int(failed)


def _write_error(what: str, form: LogFormat) -> None:
    """Write one of the last lines of a process that fails."""
    if form is LogFormat.TEXT:
        sys.stderr.write(f"Error: {what}\n")
    else:
        logger.critical("%s", what, extra=LogEvent.NODE_FAILED.extra)


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions of a group and of the groups in it; any other error is its own leaf."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for each in error.exceptions:
        yield from leaves(each)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop if it is installed (the extra `fast`), else None for asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop

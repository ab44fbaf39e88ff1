"""The log of a node's process: printable lines, and a bounded number of them.

Any part of a message or of an error may have come from the network. `RefusalLog` bounds what peers
cause that are refused; this is the bound of everything else.
"""

import logging
from types import TracebackType
from typing import Final

from quorum.transport.refusal_log import printable

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LINE_CHARACTERS_MAX: Final = 4_000
WINDOW_SECONDS: Final = 10.0
LINES_MAX: Final = 500
"""Lines of one place of the code within the window."""
TRACES_MAX: Final = 1
"""Stack traces of one place within the window, for an error that was raised at one place."""

_Place = tuple[str, int]


class PrintableFormatter(logging.Formatter):
    """Write a message as one line, and escape the characters that a terminal obeys."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record), LINE_CHARACTERS_MAX)

    def formatException(self, ei: "logging._SysExcInfoType") -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(printable(each, LINE_CHARACTERS_MAX) for each in lines)


class RateLimit(logging.Filter):
    """Leave out what one place of the code logs beyond its bound; the next line says how much."""

    def __init__(self) -> None:
        super().__init__()
        # The end of the window, the lines in it, and those left out since the last one.
        self._said: dict[tuple[_Place, _Place | None], tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[2] if record.exc_info else None
        key = (record.pathname, record.lineno), _origin(raised)
        lines_max = LINES_MAX if raised is None else TRACES_MAX
        end, lines, left_out = self._said.get(key, (0.0, 0, 0))
        if record.created >= end:
            end, lines = record.created + WINDOW_SECONDS, 0
        if lines >= lines_max:
            self._said[key] = end, lines, left_out + 1
            return False
        self._said[key] = end, lines + 1, 0
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} more like it were left out)"
            record.args = None
        return True


def _origin(raised: TracebackType | None) -> _Place | None:
    """Return the place that raised an error."""
    if raised is None:
        return None
    while raised.tb_next is not None:
        raised = raised.tb_next
    return raised.tb_frame.f_code.co_filename, raised.tb_lineno


def handler() -> logging.Handler:
    """Return the handler of a process: it writes to standard error."""
    found = logging.StreamHandler()
    found.setFormatter(PrintableFormatter(FORMAT))
    found.addFilter(RateLimit())
    return found

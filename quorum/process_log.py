"""The log of a node's process: printable lines or JSON, and a bounded number of them.

Any part of a message or of an error may have come from the network. `RefusalLog` bounds what peers
cause that are refused; this is the bound of everything else. The newest lines stay in memory, for
`metaquorum support-bundle`.
"""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Final

import msgspec

from quorum.log_events import LogEvent
from quorum.transport.refusal_log import printable

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LINE_CHARACTERS_MAX: Final = 4_000
WINDOW_SECONDS: Final = 10.0
LINES_MAX: Final = 500
"""Lines of one event within the window; of one place of the code, if it names no event."""
TRACES_MAX: Final = 1
"""Stack traces of one place within the window, for an error that was raised at one place."""
SUMMARY_SECONDS: Final = 1.0
"""The time between two looks for windows that are over, and left lines out."""
REMEMBERED_LINES_MAX: Final = 2_000
"""Lines that stay in memory, some hundred KiB."""

_Place = tuple[str, int]
_Key = tuple[str | _Place, _Place | None]


class LogFormat(StrEnum):
    """The form of the lines."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The log of a process when it starts."""

    format: LogFormat = LogFormat.TEXT
    levels: Mapping[str, int] = field(default_factory=dict)
    """The level of each logger, by name; `root` is that of all others, INFO by default."""


class PrintableFormatter(logging.Formatter):
    """Write a message as one line, and escape the characters that a terminal obeys."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = printable(super().formatMessage(record), LINE_CHARACTERS_MAX)
        event = event_of(record)
        return f"{line} [{event}]" if event else line

    def formatException(self, ei: "logging._SysExcInfoType") -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(printable(each, LINE_CHARACTERS_MAX) for each in lines)


class JsonFormatter(logging.Formatter):
    """Write a message as one JSON object; a stack trace is the array `trace` of its lines."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "event": event_of(record),
            "message": printable(record.getMessage(), LINE_CHARACTERS_MAX),
        }
        if record.exc_info:
            trace = self.formatException(record.exc_info).split("\n")
            line["trace"] = [printable(each, LINE_CHARACTERS_MAX) for each in trace]
        return msgspec.json.encode(line).decode(errors="replace")


def event_of(record: logging.LogRecord) -> str | None:
    """Return the name of a message's event (`LogEvent`), or None for one that names none."""
    found: str | None = getattr(record, "event", None)
    return found


class RateLimit(logging.Filter):
    """Leave out what one event logs beyond its bound; the next line says how much."""

    def __init__(self) -> None:
        super().__init__()
        # The end of the window, the lines in it, and those left out since the last one.
        self._said: dict[_Key, tuple[float, int, int]] = {}
        self._looked_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[2] if record.exc_info else None
        key = event_of(record) or (record.pathname, record.lineno), _origin(raised)
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

    def summaries(self, now: float, *, is_last: bool = False) -> list[logging.LogRecord]:
        """Return a message for each event whose window is over and which left lines out.

        A flood may end without another line that says so. `is_last`: the process ends.
        """
        if not is_last and now < self._looked_at + SUMMARY_SECONDS:
            return []
        self._looked_at = now
        found = []
        for key, (end, lines, left_out) in list(self._said.items()):
            if now < end and not is_last:
                continue
            if not left_out:
                del self._said[key]
                continue
            self._said[key] = end, lines, 0
            found.append(_summary(key[0], left_out))
        return found


def _summary(what: str | _Place, left_out: int) -> logging.LogRecord:
    name = what if isinstance(what, str) else f"the line at {what[0]}:{what[1]}"
    words = "%d more lines of %s were left out"
    record = logging.LogRecord("process", logging.WARNING, "", 0, words, (left_out, name), None)
    record.event = LogEvent.LINES_LEFT_OUT.event
    return record


def _origin(raised: TracebackType | None) -> _Place | None:
    """Return the place that raised an error."""
    if raised is None:
        return None
    while raised.tb_next is not None:
        raised = raised.tb_next
    return raised.tb_frame.f_code.co_filename, raised.tb_lineno


class ProcessHandler(logging.StreamHandler[Any]):
    """Writes to standard error, and keeps the newest lines."""

    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._rate = RateLimit()
        self.setFormatter(JsonFormatter() if form is LogFormat.JSON else PrintableFormatter(FORMAT))
        self.addFilter(self._rate)

    def emit(self, record: logging.LogRecord) -> None:
        for each in self._rate.summaries(record.created):
            self._write(each)
        self._write(record)

    def close(self) -> None:
        """Say how much was left out of floods that lasted until the end."""
        for each in self._rate.summaries(0.0, is_last=True):
            self._write(each)
        super().close()

    def _write(self, record: logging.LogRecord) -> None:
        RECENT.append(self.format(record))
        super().emit(record)


RECENT: Final[deque[str]] = deque(maxlen=REMEMBERED_LINES_MAX)
"""The newest lines of this process, whatever their form."""


def handler(form: LogFormat = LogFormat.TEXT) -> ProcessHandler:
    """Return the handler of a process."""
    return ProcessHandler(form)

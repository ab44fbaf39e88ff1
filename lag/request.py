"""A request for a report, checked before Spark starts.

Each error names the invalid value and a valid one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

WINDOW_MS_MIN: Final = 10
"""The shortest window: append times are whole milliseconds."""
WINDOWS_MAX: Final = 20_000
"""The most windows of a report: more can neither be drawn nor read."""

TIME_IS: Final = "write 2026-11-22T14:30:00Z (UTC without a zone), or milliseconds since 1970"


class InvalidRequest(ValueError):
    """An invalid request; the message says why, and what would be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """One request."""

    paths: tuple[str, ...]
    since_ms: int | None = None
    until_ms: int | None = None
    window_ms: int | None = None

    def __post_init__(self) -> None:
        if None not in (self.since_ms, self.until_ms) and self.since_ms >= self.until_ms:  # type: ignore[operator]
            raise InvalidRequest(
                f"--since {as_iso(self.since_ms)} is not before --until {as_iso(self.until_ms)}: "
                "the time of a report begins before it ends"
            )
        if self.window_ms is not None and self.window_ms < WINDOW_MS_MIN:
            raise InvalidRequest(
                f"--window {self.window_ms}ms is too short: the minimum is {WINDOW_MS_MIN}ms"
            )
        if self.window_ms is not None and self.since_ms is not None and self.until_ms is not None:
            check_windows(self.since_ms, self.until_ms, self.window_ms)


def check_windows(since_ms: int, until_ms: int, window_ms: int) -> None:
    """Raise `InvalidRequest` if the range has more than `WINDOWS_MAX` windows."""
    windows = -(-(until_ms - since_ms) // window_ms)
    if windows > WINDOWS_MAX:
        right_ms = -(-(until_ms - since_ms) // WINDOWS_MAX)
        raise InvalidRequest(
            f"--window {window_ms}ms divides the report into {windows} windows, more than "
            f"{WINDOWS_MAX}: use {right_ms}ms or more, or a shorter time (--since, --until)"
        )


def parse_time_ms(text: str) -> int:
    """Parse a time to milliseconds since 1970; raises `InvalidRequest`."""
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{text!r} is not a time: {TIME_IS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return int(moment.timestamp() * 1_000)
    except (OverflowError, ValueError):
        raise InvalidRequest(f"{text!r} is out of range: {TIME_IS}") from None


def as_iso(at_ms: int | None) -> str:
    """Format a moment so that it can be typed."""
    if at_ms is None:
        return "none"
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def folders(named: Sequence[str]) -> tuple[str, ...]:
    """The named folders, each once; raises `InvalidRequest` for a path that is not a folder."""
    for name in named:
        path = Path(name)
        try:
            if path.is_dir():
                continue
            is_there = path.exists()
        except OSError as error:
            raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from None
        if is_there:
            raise InvalidRequest(f"{name} is a file: name the folder of a log, or one above it")
        raise InvalidRequest(
            f"{name} does not exist: name the folder of a log, such as .../__cluster_metadata-0, "
            "or one above it"
        )
    # The working directory of a worker may differ from ours.
    return tuple(dict.fromkeys(str(Path(name).absolute()) for name in named))

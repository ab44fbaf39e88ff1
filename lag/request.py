"""A request for a report, checked before Spark starts.

Each error names the invalid value and a valid one.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lag.source.invalid_input import InvalidInput

WINDOW_MS_MIN: Final = 10
"""The shortest window: append times are whole milliseconds."""
WINDOWS_MAX: Final = 20_000
"""The most windows of a report: more can neither be drawn nor read."""


class InvalidRequest(InvalidInput):
    """An invalid request; the message says why, and what would be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """One request."""

    paths: tuple[str, ...]
    archive: str | None = None
    """The path of an archive with what is no longer in the logs."""
    cluster: str | None = None
    """The id of the cluster to report on; None if there is only one."""
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
            f"--window {as_duration(window_ms)} divides the report into {windows} windows, more "
            f"than {WINDOWS_MAX}: use {as_duration(right_ms)} or more, or a shorter time "
            "(--since, --until)"
        )


def as_duration(at_least_ms: int) -> str:
    """Format a duration so that it can be typed: a longer one in whole seconds or minutes, up."""
    for unit, unit_ms in (("min", 60_000), ("s", 1_000)):
        if at_least_ms >= 2 * unit_ms or at_least_ms == unit_ms:
            return f"{-(-at_least_ms // unit_ms)}{unit}"
    return f"{at_least_ms}ms"


def as_iso(at_ms: int | None) -> str:
    """Format a moment so that it can be typed."""
    if at_ms is None:
        return "none"
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")

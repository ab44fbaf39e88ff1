"""The log of refused peers: address, reason and count, bounded in lines and memory.

A refused peer often retries at once and for hours: the first refusal of a host for a reason is
logged, the others are counted until `QUIET_MS` is over. As long as it goes on, that time doubles
with each line, up to `QUIET_MS_MAX`. What a peer has sent may be part of a
reason, so only printable characters are logged, and not many.
"""

import logging
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from quorum.log_events import LogEvent

logger = logging.getLogger("quorum")

QUIET_MS: Final = 10_000
"""The time for which the same line is not repeated at first."""
QUIET_MS_MAX: Final = 3_600_000
"""The same for a refusal that goes on."""
KEYS_MAX: Final = 256
"""Different lines within that time; further ones share one line."""

TEXT_CHARACTERS_MAX: Final = 400
"""Of a reason; what goes beyond is cut off."""


def printable(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return `text` cut to `characters_max`, without characters that a terminal obeys."""
    if len(text) > characters_max:
        text = f"{text[:characters_max]}..."
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


class Line(NamedTuple):
    """A line that may be written."""

    repeated: int
    """The lines like it that were held back since the last one."""
    is_of_others: bool
    """True if it stands for everything that differs from the first `KEYS_MAX` lines."""


class _Count(NamedTuple):
    """The lines of one key."""

    since_ms: int
    """When its present time began,"""
    quiet_ms: int
    """and how long it lasts."""
    lines: int
    """The lines written in it."""
    held_back: int
    """Those held back since the last line."""


class Repetitions:
    """Bounds the lines that others cause: a few of each key in `QUIET_MS`; the rest is counted.

    With a longer `quiet_ms_max`, the time of a key that goes on doubles up to that.
    """

    def __init__(self, clock_ms: Callable[[], int], *, quiet_ms_max: int = QUIET_MS) -> None:
        self._clock_ms = clock_ms
        self._quiet_ms_max = quiet_ms_max
        self._counts: dict[Hashable, _Count] = {}

    def line(self, key: Hashable, lines_max: int = 1) -> Line | None:
        """Return the line of this key that may be written now, or None if it is only counted."""
        now_ms = self._clock_ms()
        if key not in self._counts and not self._has_room(now_ms):
            key = None
        count = self._counts.get(key) or _Count(now_ms, QUIET_MS, 0, 0)
        if not _is_within(count.since_ms, count.quiet_ms, now_ms):
            longer_ms = min(2 * count.quiet_ms, self._quiet_ms_max)
            quiet_ms = longer_ms if count.held_back else QUIET_MS
            count = count._replace(since_ms=now_ms, quiet_ms=quiet_ms, lines=0)
        if count.lines >= lines_max:
            self._counts[key] = count._replace(held_back=count.held_back + 1)
            return None
        self._counts[key] = count._replace(lines=count.lines + 1, held_back=0)
        return Line(count.held_back, key is None)

    def _has_room(self, now_ms: int) -> bool:
        if len(self._counts) >= KEYS_MAX:
            # A key that goes on makes room as well: what is new is said first.
            self._counts = {
                key: count
                for key, count in self._counts.items()
                if _is_within(count.since_ms, QUIET_MS, now_ms)
            }
        return len(self._counts) < KEYS_MAX


def _is_within(since_ms: int, quiet_ms: int, now_ms: int) -> bool:
    # A wall clock may be put back.
    return 0 <= now_ms - since_ms < quiet_ms


class RefusalLog:
    """The refusals of one listener; `clock_ms` returns monotonic milliseconds."""

    def __init__(self, name: str, clock_ms: Callable[[], int]) -> None:
        self._name = name
        self._repetitions = Repetitions(clock_ms, quiet_ms_max=QUIET_MS_MAX)

    def cut_off(self, peer: str, reason: str) -> None:
        """Log that the connection from `peer`, as host:port, is closed for `reason`."""
        self._say(peer, reason, f"closed the connection from {peer}: {reason}")

    def refused(self, peer: str, request: str, reason: str) -> None:
        """Log that a request from `peer`, as host:port, is refused for `reason`."""
        self._say(peer, reason, f"{request} {reason}")

    def failed(self, peer: str, request: str) -> None:
        """Log the error that a request from `peer` has raised; called while it is handled."""
        # The stack says where, but not as often as a peer likes.
        self._say(peer, "failed", f"{request} failed; closing the connection", is_ours=True)

    def invalid_response(self, peer: str, reason: str) -> None:
        """Log an invalid response from `peer`, which is ignored."""
        self._say(peer, reason, f"ignored an invalid response from {peer}: {reason}")

    def _say(self, peer: str, reason: str, text: str, *, is_ours: bool = False) -> None:
        line = self._repetitions.line((peer.rpartition(":")[0] or peer, printable(reason)))
        if line is None:
            return
        if line.is_of_others:
            text += "; too many different refusals to log them all"
        more = f" (repeated {line.repeated} times since the last line)" if line.repeated else ""
        level = logging.ERROR if is_ours else logging.WARNING
        event = LogEvent.REQUEST_FAILED if is_ours else LogEvent.PEER_REFUSED
        logger.log(
            level,
            "%s: %s%s",
            self._name,
            printable(text),
            more,
            exc_info=is_ours or None,
            extra=event.extra,
        )

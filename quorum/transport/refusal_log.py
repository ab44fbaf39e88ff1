"""The log of refused peers: address, reason and count, bounded in lines and memory.

A refused peer often retries at once and for hours: the first refusal of a host for a reason is
logged, the others are counted until `QUIET_MS` is over. What a peer has sent may be part of a
reason, so only printable characters are logged, and not many.
"""

import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

QUIET_MS: Final = 10_000
"""The time for which the same line is not repeated."""
REASONS_MAX: Final = 256
"""Different lines within that time; further ones share one line."""

TEXT_CHARACTERS_MAX: Final = 400
"""Of a reason; what goes beyond is cut off."""

_OTHERS: Final = ("", "")


def printable(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return `text` cut to `characters_max`, without characters that a terminal obeys."""
    if len(text) > characters_max:
        text = f"{text[:characters_max]}..."
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


class RefusalLog:
    """The refusals of one listener; `clock_ms` returns monotonic milliseconds."""

    def __init__(self, name: str, clock_ms: Callable[[], int]) -> None:
        self._name = name
        self._clock_ms = clock_ms
        # The time of each line, and the number of repetitions since.
        self._said: dict[tuple[str, str], tuple[int, int]] = {}

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
        now_ms = self._clock_ms()
        key = (peer.rpartition(":")[0] or peer, printable(reason))
        if key not in self._said and not self._has_room(now_ms):
            key = _OTHERS
        said_ms, held_back = self._said.get(key, (now_ms - QUIET_MS, 0))
        if now_ms - said_ms < QUIET_MS:
            self._said[key] = (said_ms, held_back + 1)
            return
        self._said[key] = (now_ms, 0)
        more = f" (repeated {held_back} times since the last line)" if held_back else ""
        if key == _OTHERS:
            text += "; too many different refusals to log them all"
        level = logging.ERROR if is_ours else logging.WARNING
        logger.log(level, "%s: %s%s", self._name, printable(text), more, exc_info=is_ours or None)

    def _has_room(self, now_ms: int) -> bool:
        if len(self._said) >= REASONS_MAX:
            self._said = {
                key: said for key, said in self._said.items() if now_ms - said[0] < QUIET_MS
            }
        return len(self._said) < REASONS_MAX

"""The log of refused peers: address, reason and count, bounded in lines and memory.

A refused peer often retries at once and for hours: the first refusal of a host for a reason is
logged, the others are counted until `QUIET_MS` is over.
"""

import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

QUIET_MS: Final = 10_000
"""The time for which the same line is not repeated."""
REASONS_MAX: Final = 256
"""Different complaints within that time; what goes beyond is summed up in one line."""

_OTHERS: Final = ("", "")


class RefusalLog:
    """The complaints of one listener; `clock_ms` gives monotonic milliseconds."""

    def __init__(self, name: str, clock_ms: Callable[[], int]) -> None:
        self._name = name
        self._clock_ms = clock_ms
        # When each was last logged, and how often it has been held back since.
        self._said: dict[tuple[str, str], tuple[int, int]] = {}

    def cut_off(self, peer: str, reason: str) -> None:
        """The connection of `peer`, written host:port, is closed because of `reason`."""
        self._say(peer, reason, f"closed the connection of {peer}: {reason}")

    def refused(self, peer: str, request: str, reason: str) -> None:
        """A request of `peer`, written host:port, is answered with a refusal for `reason`."""
        self._say(peer, reason, f"{request} {reason}")

    def invalid_response(self, peer: str, reason: str) -> None:
        """Log that the answer of `peer` is invalid, and counts as none."""
        self._say(peer, reason, f"an answer of {peer} is not used: {reason}")

    def _say(self, peer: str, reason: str, text: str) -> None:
        now_ms = self._clock_ms()
        key = (peer.rpartition(":")[0] or peer, reason)
        if key not in self._said and not self._has_room(now_ms):
            key = _OTHERS
        said_ms, held_back = self._said.get(key, (now_ms - QUIET_MS, 0))
        if now_ms - said_ms < QUIET_MS:
            self._said[key] = (said_ms, held_back + 1)
            return
        self._said[key] = (now_ms, 0)
        more = f" ({held_back} times more since it was last said)" if held_back else ""
        if key == _OTHERS:
            text += "; so many are refused for so many reasons that not all are said"
        logger.warning("%s: %s%s", self._name, text, more)

    def _has_room(self, now_ms: int) -> bool:
        if len(self._said) >= REASONS_MAX:
            self._said = {
                key: said for key, said in self._said.items() if now_ms - said[0] < QUIET_MS
            }
        return len(self._said) < REASONS_MAX

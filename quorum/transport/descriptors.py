"""The file descriptors of the process: its limit, those in use, and the share of connections."""

import os
import resource
from typing import Final

DESCRIPTORS_FEW: Final = 8_192
"""With fewer, a full listener and the files of a large node do not fit at the same time."""
LOOK_SECONDS: Final = 1.0
"""How long a count of the descriptors in use holds, apart from the connections themselves."""

_MANY: Final = 1 << 30
_FOLDER: Final = "/dev/fd"


def raise_limit() -> int:
    """Raise the limit of this process as far as it may by itself; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return _number(hard)


class DescriptorShare:
    """The descriptors that connections may use: all but those in other use, and a reserve.

    The reserve is at most half of the limit.
    """

    def __init__(self, reserved: int) -> None:
        limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.total = limit - min(reserved, limit // 2)
        self._others = 0
        self._looked_seconds: float | None = None

    def has_room(self, connections: int, now_seconds: float) -> bool:
        """Return True if so many connections fit, of which all are open."""
        if self._looked_seconds is None or now_seconds >= self._looked_seconds + LOOK_SECONDS:
            self._looked_seconds = now_seconds
            in_use = _in_use()
            if in_use is not None:
                self._others = max(0, in_use - connections)
        return connections + self._others <= self.total


def _in_use() -> int | None:
    try:
        return len(os.listdir(_FOLDER)) - 1
    except OSError:
        return None  # There is no such folder here, or not even a descriptor to read it with.


def _number(limit: int) -> int:
    return _MANY if limit in (resource.RLIM_INFINITY, -1) else limit

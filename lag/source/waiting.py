"""Waiting for the end of a log that somebody else is writing, perhaps on another machine.

Nothing tells when a file has grown, so it is looked at again after a moment: the one place here
that pauses.
"""

import os
import time
from collections.abc import Callable
from typing import Final

_LOOK_MS: Final = 20


def grown_within(where: int | str, settle_ms: int) -> Callable[[int], bool]:
    """Whether a file is larger than it was, asked again and again for so long altogether; one that
    is named and not there yet has no bytes."""
    left_ms = settle_ms

    def has_grown(size: int) -> bool:
        nonlocal left_ms
        while True:
            if _size(where) > size:
                return True
            if left_ms <= 0:
                return False
            time.sleep(min(left_ms, _LOOK_MS) / 1_000)  # noqa: TID251
            left_ms -= _LOOK_MS

    return has_grown


def _size(where: int | str) -> int:
    try:
        return os.stat(where).st_size
    except FileNotFoundError:
        return 0

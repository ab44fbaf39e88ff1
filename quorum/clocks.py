"""The two clocks of the machine, read only by composition roots; other code gets a `ports.Clock`.

No other module may read a clock, so this one stays apart.
"""

import time


def wall_ms() -> int:
    """Return the wall-clock time in milliseconds since 1970; it may jump."""
    return time.time_ns() // 1_000_000  # noqa: TID251


def monotonic_ms() -> int:
    """Return monotonic milliseconds since an arbitrary moment."""
    return time.monotonic_ns() // 1_000_000  # noqa: TID251

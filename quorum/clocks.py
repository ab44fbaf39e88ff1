"""The two clocks of the machine, for the programs that people start; the rest is given its time."""

import time


def wall_ms() -> int:
    """Milliseconds since 1970, as the machine has them; they may jump."""
    return time.time_ns() // 1_000_000  # noqa: TID251


def monotonic_ms() -> int:
    """Milliseconds that only rise, from no particular moment."""
    return time.monotonic_ns() // 1_000_000  # noqa: TID251

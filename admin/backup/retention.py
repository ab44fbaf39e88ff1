"""Decide which backups are kept. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of `metaquorum backup`; without one, everything is kept."""

    count: int | None = None
    """`--keep`: the newest ones that are kept."""
    age_ms: int | None = None
    """`--keep-for`: older ones are not kept."""


def expired(taken_ms: Sequence[tuple[str, int]], retention: Retention, *, now_ms: int) -> list[str]:
    """The ids of the backups that need not be kept, of these with their times, the oldest first.

    A backup goes if either limit says so, but never the newest one.
    """
    gone: list[str] = []
    newest_first = list(reversed(taken_ms))
    for place, (id_, taken) in enumerate(newest_first):
        is_surplus = retention.count is not None and place >= retention.count
        is_old = retention.age_ms is not None and now_ms - taken > retention.age_ms
        if place > 0 and (is_surplus or is_old):
            gone.append(id_)
    return gone[::-1]

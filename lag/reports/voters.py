"""The voters over time, and the failures that the quorum could have survived.

A voter keeps up at a sample if its lag is less than a follower's fetch timeout. Voters that keep up
beyond a majority may fail. If voters with unknown lag make a difference, the answer is unknown.
Plain values, no Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lag.reports.scope import Scope

KEEPS_UP_MS: Final = 2_000
_FOREVER: Final = 2**62
_COLUMNS: Final = ("no_majority_ms", "survived_0_ms", "survived_1_ms", "survived_2_ms")
_UNKNOWN: Final = "unknown_ms"


class Seat(NamedTuple):
    """A voter whose folder was read, and the offsets at which it votes."""

    replica: str
    seat: int
    """The number of the voter in its assignment, from 1."""
    voters: int
    """The number of voters in the assignment."""
    from_offset: int
    to_offset: int
    """Exclusive."""


def in_order(assignments: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The assignments of the quorum's log, each once."""
    by_offset = {row["offset"]: row for row in assignments}
    return [by_offset[offset] for offset in sorted(by_offset)]


def seats(
    assignments: Sequence[Mapping[str, Any]], replicas: Iterable[Mapping[str, Any]]
) -> list[list[Seat]]:
    """The seats of each assignment whose replica was read.

    The first assignment counts from the start of the log. A voter with a directory id is that
    directory only; without one it is the node's first folder by name.
    """
    folders = sorted(replicas, key=lambda row: str(row["replica"]))
    found = []
    for number, row in enumerate(assignments):
        begins = row["offset"] if number else 0
        is_last = number + 1 == len(assignments)
        ends = _FOREVER if is_last else assignments[number + 1]["offset"]
        names = [_folder_of(voter, folders) for voter in row["current"]]
        found.append(
            [
                Seat(name, seat, len(names), begins, ends)
                for seat, name in enumerate(names, 1)
                if name is not None
            ]
        )
    return found


def _folder_of(voter: str, folders: Iterable[Mapping[str, Any]]) -> str | None:
    node, _, directory = voter.partition("@")
    for row in folders:
        known = row.get("directory_id")
        if str(row["node_id"]) == node and (not directory or known in (None, directory)):
            return str(row["replica"])
    return None


def voters(
    assignments: Sequence[Mapping[str, Any]],
    seats_: Sequence[Sequence[Seat]],
    lags: Mapping[str, Sequence[int | None]],
    scope: Scope,
) -> list[dict[str, Any]]:
    """The report `voters`; `lags` are those of each replica at each sample."""
    found = []
    for number, row in enumerate(assignments):
        at_ms = row["append_ms"]
        is_last = number + 1 == len(assignments)
        until_ms = max(scope.end_ms, at_ms) if is_last else assignments[number + 1]["append_ms"]
        own = [lags.get(seat.replica, ()) for seat in seats_[number]]
        found.append(
            {
                **{name: row[name] for name in ("offset", "epoch", "current", "target", "kind")},
                "at_ms": at_ms,
                "until_ms": until_ms,
                "duration_ms": until_ms - at_ms,
                "tolerates": (len(row["current"]) - 1) // 2,
                **_survived(own, len(row["current"]), at_ms, until_ms, scope),
            }
        )
    return found


def _survived(
    lags: Sequence[Sequence[int | None]], voters_: int, at_ms: int, until_ms: int, scope: Scope
) -> dict[str, int]:
    """The time per number of survivable failures; a sample stands for the time before it."""
    found = dict.fromkeys((*_COLUMNS, _UNKNOWN), 0)
    begins = max(at_ms, scope.start_ms)
    for number in range(1, scope.samples + 1):
        ends = min(until_ms, scope.sample_at(number))
        lasts_ms = ends - max(begins, scope.sample_at(number - 1))
        if lasts_ms > 0:
            found[_answer([each[number - 1] for each in lags if each], voters_)] += lasts_ms
    return found


def _answer(lags: Sequence[int | None], voters_: int) -> str:
    """The column in which a moment counts."""
    known = [lag for lag in lags if lag is not None]
    up = sum(lag < KEEPS_UP_MS for lag in known)
    majority = voters_ // 2 + 1
    least = _column(up - majority)
    return least if least == _column(up + voters_ - len(known) - majority) else _UNKNOWN


def _column(spare: int) -> str:
    """The column for a number of voters to spare."""
    return _COLUMNS[max(0, min(spare + 1, 3))]

"""The voters over time, and the failures that the quorum could have survived.

A voter keeps up at a sample if its lag is less than a follower's fetch timeout. Voters that keep up
beyond a majority may fail. If voters with unknown lag make a difference, the answer is unknown.
Plain values, no Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lag.reports.holes import NONE, Holes, known_until, names
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
    assignments: Sequence[Mapping[str, Any]],
    replicas: Iterable[Mapping[str, Any]],
    holes: Holes = NONE,
    elected: Iterable[tuple[int, Sequence[int] | None]] = (),
) -> list[list[Seat]]:
    """The seats of each assignment whose replica was read.

    The first assignment counts from the start of the log. A voter with a directory id is that
    directory only; without one it is the node's first folder by name. A hole may hide another
    assignment: behind it one counts again only from an election with the same voters. `elected`
    are the offsets of elections, with their voters.
    """
    folders = sorted(replicas, key=lambda row: str(row["replica"]))
    elections = list(elected)
    found = []
    for number, row in enumerate(assignments):
        begins = row["offset"] if number or holes.before(row["offset"]) else 0
        is_last = number + 1 == len(assignments)
        ends = _FOREVER if is_last else assignments[number + 1]["offset"]
        ids = {int(voter.partition("@")[0]) for voter in row["current"]}
        same = {at: set(voters_ or ()) == ids for at, voters_ in elections}
        names = [_folder_of(voter, folders) for voter in row["current"]]
        found.append(
            [
                Seat(name, seat, len(names), first, end)
                for first, end in known_until(begins, ends, holes, same)
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


def roles(
    replicas: Iterable[Mapping[str, Any]],
    seats_: Iterable[Seat] | None,
    elected_by: Iterable[int] | None,
) -> dict[str, str]:
    """For each replica voter or observer: by the seats of the last assignment, or, if the log has
    none, by the voters that the last leader wrote."""
    if seats_ is None and elected_by is None:
        return {}
    folders = sorted(replicas, key=lambda row: str(row["replica"]))
    if seats_ is not None:
        sit = {seat.replica for seat in seats_}
    else:
        sit = {_folder_of(str(node), folders) or "" for node in elected_by or ()}
    return {
        row["replica"]: "voter" if row["replica"] in sit else "observer"
        for row in folders
        if row["node_id"] is not None
    }


def voters(
    assigned: Sequence[tuple[Mapping[str, Any], Sequence[Seat]]],
    lags: Mapping[str, Sequence[int | None]],
    scope: Scope,
    holes: Holes = NONE,
) -> list[dict[str, Any]]:
    """The report `voters`, from the assignments with their seats; `lags` are those of each replica
    at each sample.

    If a hole may hide the end of an assignment, what follows from its end is unknown.
    """
    found = []
    for number, (row, seats_) in enumerate(assigned):
        at_ms = row["append_ms"]
        is_last = number + 1 == len(assigned)
        until_ms = max(scope.end_ms, at_ms) if is_last else assigned[number + 1][0]["append_ms"]
        until = _FOREVER if is_last else assigned[number + 1][0]["offset"]
        hidden = holes.between(row["offset"], until)
        own = [lags.get(name, ()) for name in dict.fromkeys(seat.replica for seat in seats_)]
        of_end = {
            "until_ms": until_ms,
            "duration_ms": until_ms - at_ms,
            **_survived(own, len(row["current"]), at_ms, until_ms, scope),
        }
        found.append(
            {
                **{name: row[name] for name in ("offset", "epoch", "current", "target", "kind")},
                "at_ms": at_ms,
                "tolerates": (len(row["current"]) - 1) // 2,
                **(dict.fromkeys(of_end) if hidden else of_end),
                "hole": names(hidden),
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

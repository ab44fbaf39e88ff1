"""Holes of the quorum's log, as the reports ask about them.

Whatever a hole may have changed is unknown afterwards, until the log says it again. A report then
has no value there, and names the holes it rests on. Plain values, no Spark.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lag.reports import offset_ranges
from lag.reports.clocks import Bounds
from lag.reports.quorum_log import Hole, QuorumLog
from lag.reports.scope import Scope

CLOCKS_MS_MIN: Final = 5_000
"""The difference between leaders' clocks that is allowed for, if the logs prove no greater one."""
_EVER_MS: Final = 1 << 62

Row = dict[str, Any]


class Holes(NamedTuple):
    """All holes, in order."""

    holes: Sequence[Hole] = ()
    clocks_ms: int = CLOCKS_MS_MIN
    """The greatest difference between leaders' clocks."""

    def __bool__(self) -> bool:
        return bool(self.holes)

    def by(self, end: int) -> "Holes":
        """The holes whose records may be part of a report that ends at the offset `end`.

        What was lost just behind the last record may have been appended by then.
        """
        return self._replace(holes=[hole for hole in self.holes if hole.first <= end])

    def between(self, first: int, end: int) -> list[Hole]:
        """The holes that touch the offsets [`first`, `end`)."""
        return [hole for hole in self.holes if hole.first < end and first < hole.end]

    def before(self, offset: int) -> list[Hole]:
        """The holes before this record."""
        return [hole for hole in self.holes if hole.first < offset]

    def after(self, offset: int) -> list[Hole]:
        """The holes after this record."""
        return [hole for hole in self.holes if hole.first > offset]

    def times(self, hole: Hole) -> tuple[int, int]:
        """The least and the greatest append time that a lost record can have.

        One leader's clock appended all of them, unless the hole may hide an election.
        """
        known = [each for each in (hole.before_ms, hole.after_ms) if each is not None]
        least, most = min(known, default=-_EVER_MS), max(known, default=_EVER_MS)
        if hole.epoch_before != hole.epoch_after:
            least, most = least - self.clocks_ms, most + self.clocks_ms
        return (
            -_EVER_MS if hole.before_ms is None else least,
            _EVER_MS if hole.after_ms is None else most,
        )

    def of_windows(self, scope: Scope) -> dict[int, list[Hole]]:
        """The windows that lost records may belong to, each with its holes."""
        found: dict[int, list[Hole]] = {}
        for hole in self.holes:
            least, most = self.times(hole)
            first = max(0, scope.window_at(max(least, scope.start_ms)))
            last = min(scope.windows - 1, scope.window_at(min(most, scope.end_ms)))
            for window in range(first, last + 1):
                found.setdefault(window, []).append(hole)
        return found


NONE: Final = Holes()


def names(holes: Iterable[Hole]) -> str | None:
    """Name holes by their offsets, first and last; None for none."""
    return ", ".join(name(hole) for hole in dict.fromkeys(holes)) or None


def name(hole: Hole) -> str:
    """Name a hole by its first and its last offset."""
    return f"{hole.first}-{hole.end - 1}"


def holes_of(log: QuorumLog, bounds: Iterable[Bounds]) -> Holes:
    """The holes of the log."""
    known = [
        abs(bound)
        for each in bounds
        for bound in (each.at_least_ms, each.at_most_ms)
        if bound is not None
    ]
    return Holes(log.holes, max([CLOCKS_MS_MIN, *known]))


def holes(found: Holes, log: QuorumLog) -> list[Row]:
    """The report `holes`."""
    return [
        {
            "start_offset": hole.first,
            "end_offset": hole.end,
            "records": hole.end - hole.first,
            "before_ms": hole.before_ms,
            "after_ms": hole.after_ms,
            "epoch_before": hole.epoch_before,
            "epoch_after": hole.epoch_after,
            "facts": "; ".join(_facts(hole, log)),
        }
        for hole in found.holes
    ]


def _facts(hole: Hole, log: QuorumLog) -> Iterator[str]:
    """The content of each replica in place of the hole."""
    kinds: dict[str, list[str]] = {}
    for replica in sorted(log.shared):
        kinds.setdefault(_kind(replica, hole, log), []).append(replica)
    for kind, replicas in sorted(kinds.items()):
        yield f"{', '.join(replicas)}: {kind}"


def _kind(replica: str, hole: Hole, log: QuorumLog) -> str:
    if replica in log.undecided and log.shared[replica] < hole.end:
        return "its records there may not be committed"
    if any(low < hole.end and hole.first < high for low, high in log.lost[replica]):
        return "damaged or missing"
    if any(
        run.replica == replica and run.first < hole.end and hole.first < run.end
        for run in log.unread
    ):
        return "damaged"
    return "ends before it" if log.shared[replica] <= hole.first else "begins after it"


def blanked(rows: Iterable[Row], scope: Scope, found: Holes, columns: Sequence[str]) -> list[Row]:
    """Rows of windows without the values that a hole may have changed, and with its name."""
    of_windows = found.of_windows(scope)
    made = []
    for row in rows:
        touched = of_windows.get(scope.window_at(row["window_end_ms"]), [])
        made.append({**row, **(dict.fromkeys(columns) if touched else {}), "hole": names(touched)})
    return made


def known_until(
    first: int, end: int, found: Holes, confirmed: Mapping[int, bool]
) -> Iterator[offset_ranges.Range]:
    """The offsets of [`first`, `end`) at which something is still known that was so at `first`.

    A hole may have changed it. `confirmed` has the offsets at which the log says whether it is
    still so.
    """
    for hole in found.between(first, end):
        if first < hole.first:
            yield first, hole.first
        first = min(
            (at for at, is_so in confirmed.items() if is_so and hole.end <= at < end), default=end
        )
    if first < end:
        yield first, end

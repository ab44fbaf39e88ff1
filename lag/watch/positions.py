"""The positions of all replicas while their logs grow: pure, fed by a stream.

Each micro-batch supplies the log end of each replica, and the first offset that the leader appended
in each tenth of a second. Lag is defined as in the reports, with the present as its end, by the
clock of the watching machine.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

GRAIN_MS: Final = 100
"""The precision of the leader's append times."""
REMEMBERED_MAX: Final = 100_000
"""The number of append times that are kept. Before the oldest one, a lag is at least its age."""
WARN_MS: Final = 1_000
STALLED_MS: Final = 2_000
STOPPED_MS: Final = 10_000
RATE_MS: Final = 5_000
"""The period of the rate of records."""


@dataclass(frozen=True, slots=True)
class Position:
    """One replica, now."""

    replica: str
    epoch: int
    """Epoch of its last record."""
    log_end: int
    """Offset after its last record."""
    behind: int
    """Records that it lacks."""
    lag_ms: int | None
    """Time since the leader appended the first record that it lacks; 0 if it lacks none, None if
    the batches have no times."""
    appended_ms: int | None
    """Time of its last append, by its own clock; by the leader's without an index."""
    records_per_s: float
    """Records appended per second, lately."""
    status: str


@dataclass(slots=True)
class _Replica:
    epoch: int = -1
    log_end: int = 0
    appended_ms: int | None = None
    came: tuple[tuple[int, int], ...] = ()
    """Recent arrivals: time in ms and number of records."""
    records: int = 0


class Positions:
    """All replicas of the stream."""

    def __init__(self) -> None:
        self._replicas: dict[str, _Replica] = {}
        self._times_ms: list[int] = []
        self._offsets: list[int] = []

    def take(self, ends: Iterable[Mapping[str, Any]], now_ms: int) -> None:
        """Add the rows of a micro-batch that was read at `now_ms`: `replica`, `log_end`, `epoch`,
        `appended_ms`, `records`, and `cut_to`, the offset from which earlier rows are void, or
        None."""
        for row in ends:
            replica = self._replicas.setdefault(str(row["replica"]), _Replica())
            if row["cut_to"] is not None:
                replica.log_end = min(replica.log_end, row["cut_to"])
            if row["log_end"] is not None and row["epoch"] >= replica.epoch:
                replica.log_end = max(replica.log_end, row["log_end"])
                replica.epoch = row["epoch"]
                replica.appended_ms = row["appended_ms"]
            replica.records += row["records"] or 0
            recent = (each for each in replica.came if now_ms - each[0] <= RATE_MS)
            replica.came = (*recent, (now_ms, row["records"] or 0))

    def learn(self, appended: Iterable[tuple[int, int]]) -> None:
        """Add pairs of a leader's append time in ms and the first offset appended then."""
        come = list(appended)
        if not come:
            return
        # Entries older than the new ones stay in place; usually that is nearly all of them.
        kept = bisect_left(self._times_ms, min(at_ms for at_ms, _ in come))
        known = dict(zip(self._times_ms[kept:], self._offsets[kept:], strict=True))
        for at_ms, offset in come:
            known[at_ms] = min(offset, known.get(at_ms, offset))
        del self._times_ms[kept:], self._offsets[kept:]
        # Offsets rise with time, unless a leader's clock was behind that of the previous leader.
        highest = self._offsets[-1] if self._offsets else -1
        for at_ms in sorted(known):
            highest = max(highest, known[at_ms])
            self._times_ms.append(at_ms)
            self._offsets.append(highest)
        del self._times_ms[:-REMEMBERED_MAX], self._offsets[:-REMEMBERED_MAX]

    def at(self, now_ms: int) -> list[Position]:
        """The position of every replica at this time, by name."""
        end = max((replica.log_end for replica in self._replicas.values()), default=0)
        return [
            self._standing(name, replica, end, now_ms)
            for name, replica in sorted(self._replicas.items(), key=_by_number)
        ]

    def _standing(self, name: str, replica: _Replica, end: int, now_ms: int) -> Position:
        behind = max(0, end - replica.log_end)
        lag_ms = self._waits_ms(replica.log_end, now_ms) if behind else 0
        idle_ms = None if replica.appended_ms is None else now_ms - replica.appended_ms
        recent = [count for at_ms, count in replica.came if now_ms - at_ms <= RATE_MS]
        return Position(
            replica=name,
            epoch=replica.epoch,
            log_end=replica.log_end,
            behind=behind,
            lag_ms=lag_ms,
            appended_ms=replica.appended_ms,
            records_per_s=sum(recent) * 1_000 / RATE_MS,
            status=status(behind, lag_ms, idle_ms),
        )

    def _waits_ms(self, offset: int, now_ms: int) -> int | None:
        """Time since the leader appended the record at `offset`."""
        place = bisect_right(self._offsets, offset) - 1
        return max(0, now_ms - self._times_ms[max(0, place)]) if self._times_ms else None


def status(behind: int, lag_ms: int | None, idle_ms: int | None) -> str:
    """The status of a replica by the limits of the report `status`, without its past windows."""
    if lag_ms is None:
        return "UNKNOWN"
    if not behind or lag_ms < WARN_MS:
        return "OK"
    waits_ms = lag_ms if idle_ms is None else min(lag_ms, idle_ms)
    if waits_ms >= STOPPED_MS:
        return "STOPPED"
    if waits_ms >= STALLED_MS:
        return "STALLED"
    return "ERR" if lag_ms >= STOPPED_MS else "WARN"


def _by_number(entry: tuple[str, _Replica]) -> tuple[int, str]:
    name = entry[0]
    return (int(name) if name.isdecimal() else 1 << 62, name)

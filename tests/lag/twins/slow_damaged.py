"""The twins' account of damaged logs: the log that is left, and what follows from its holes.

What the files hold is known from how they were made (`tests.lag.damage`), not from a reader.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final

from quorum.log.append_times import UNKNOWN
from quorum.records.batch import header_at
from quorum.records.decode import decode
from tests.lag.damage import DamagedCopies
from tests.lag.small_quorum import Made
from tests.lag.twins import slow_reading
from tests.lag.twins.slow_holes import FOREVER_MS, SlowHoles
from tests.lag.twins.slow_lag import SlowLog
from tests.lag.twins.slow_quorum import RESTARTED_MS, SlowQuorum, SlowTime
from tests.lag.twins.slow_reading import SlowHeld, SlowHole, SlowReplica

Row = dict[str, Any]
Key = tuple[int, int]
Range = tuple[int, int]


def replicas(damaged: DamagedCopies) -> list[SlowReplica]:
    """The rest of each copy, and what it lost."""
    found = []
    for name in sorted(damaged.files, key=str):
        parts: dict[bool, list[SlowHeld]] = {True: [], False: []}
        for batch, is_intact, has_index in damaged.batches(name):
            parts[is_intact].append(_held(batch, has_index=has_index))
        directory = damaged.copies[name].meta.get("directory.id")
        indexed = [_held(batch, has_index=True) for batch in damaged.indexed(name)]
        end = max((each.end for each in parts[True]), default=FOREVER_MS)
        behind = [batch for batch in damaged.reached(name) if batch.offset >= end]
        tail = [_held(batch, has_index=False) for batch in behind]
        found.append(
            SlowReplica(str(name), name, directory, parts[True], parts[False], indexed, tail)
        )
    return [each for each in found if each.batches or each.indexed]


def unread(damaged: DamagedCopies) -> frozenset[tuple[str, int]]:
    """The replicas whose files have damaged batches, each with their epochs."""
    return frozenset(
        (str(name), batch.epoch)
        for name in damaged.files
        for intact in [damaged.intact(name)]
        for batch in damaged.reached(name)
        if batch not in intact
    )


def _held(batch: Made, *, has_index: bool) -> SlowHeld:
    at_ms = batch.entry[0]
    return SlowHeld(
        batch.offset,
        batch.end,
        batch.epoch,
        header_at(batch.data).max_timestamp_ms,
        at_ms if has_index and at_ms != UNKNOWN else None,
        list(decode(batch.data)),
    )


def provable(logs: Sequence[SlowReplica]) -> set[Key]:
    """The offsets and epochs of all batches that are the quorum's, batch by batch.

    A log that has a batch of an epoch at some offset and another that has a later one of the same
    epoch come from the same leader, and are equal up to the first of the two.
    """
    left = [each.batches for each in logs if each.batches]
    best = max(left, key=lambda each: (each[-1].epoch, each[-1].end))
    known = {(batch.offset, batch.epoch) for batch in best}
    copies = [(*each.batches, *each.tail) for each in logs]
    while True:
        before = len(known)
        last: dict[int, int] = {}
        for offset, epoch in known:
            last[epoch] = max(offset, last.get(epoch, 0))
        for copy in copies:
            shared = [at for at, it in enumerate(copy) if last.get(it.epoch, -1) >= it.offset]
            known.update((each.offset, each.epoch) for each in copy[: max(shared, default=-1) + 1])
        if len(known) == before:
            return known


SAMPLES_MS: Final = 100
"""The distance of samples in the reports."""


class DamagedLog(SlowLog):
    """The batches that are left, and the holes between them."""

    def __init__(
        self, batches: Any, holes: SlowHoles, elections: Mapping[str | None, Sequence[Range]]
    ) -> None:
        super().__init__(batches)
        object.__setattr__(self, "holes", holes)
        object.__setattr__(self, "elections", elections)

    def lacks(self, replica: str, t_ms: int) -> tuple[int, int] | None:
        """As of a sound log, unless one of the two logs ended in a hole."""
        holes: SlowHoles = self.holes  # type: ignore[attr-defined]
        ends = (self.end_of(replica, t_ms) or 0, self.leader_end(t_ms) or 0)
        if any(hole.first <= end < hole.end for hole in holes.holes for end in ends):
            return None
        end, awaited = ends[0], [each for each in self.batches if each.offset == ends[0]]
        if end < ends[1] and not awaited:
            return None
        if self._may_be_ahead(replica, t_ms):
            return None
        return super().lacks(replica, t_ms)

    def _may_be_ahead(self, replica: str, t_ms: int) -> bool:
        """True if one of the two logs may have held lost records of another leader by then.

        By that leader's clock they may be older than the records before them.
        """
        holes: SlowHoles = self.holes  # type: ignore[attr-defined]
        elections: Mapping[str | None, Sequence[Range]] = self.elections  # type: ignore[attr-defined]
        later_ms = t_ms - -holes.clocks_ms // SAMPLES_MS * SAMPLES_MS
        return any(
            (end_of(later_ms) or 0) >= first and (end_of(t_ms) or 0) <= end
            for name, end_of in ((replica, partial(self.end_of, replica)), (None, self.leader_end))
            for first, end in elections.get(name, ())
        )


@dataclass(frozen=True)
class DamagedQuorum(SlowQuorum):
    """The logs that are left."""

    end: int = 0
    """The end of the quorum's log, whether its last batches are left or not."""

    @cached_property
    def log(self) -> list[SlowHeld]:
        known = provable(self.logs)
        left = (each for log in self.logs for each in log.batches if _key(each) in known)
        found = {each.offset: each for each in left}
        return [found[offset] for offset in sorted(found)]

    @cached_property
    def holes(self) -> SlowHoles:
        found = []
        for before, after in pairwise([None, *self.log, None]):
            first = 0 if before is None else before.end
            end = self.end if after is None else after.offset
            if first < end:
                epochs = {None if each is None else each.epoch for each in (before, after)}
                times = [None if each is None else each.at_ms for each in (before, after)]
                found.append(SlowHole(first, end, times[0], times[1], len(epochs) > 1))
        known = [abs(each) for each in self.most.values()]
        return SlowHoles(found, max([5_000, *known]))

    def seen(self, replica: SlowReplica) -> Sequence[SlowHeld]:
        """The rest of a copy, and what it lost as far as another copy has it."""
        return sorted((*replica.batches, *self.once(replica)), key=lambda each: each.offset)

    def shared(self, replica: SlowReplica) -> list[SlowHeld]:
        """The same, as far as it is in the quorum's log."""
        known = {_key(each) for each in self.log}
        return [each for each in self.seen(replica) if _key(each) in known]

    def once(self, replica: SlowReplica) -> list[SlowHeld]:
        """The batches that it lost before the end of its log, as far as they are left elsewhere."""
        known = {_key(each) for each in self.log}
        end = self._shared_end(replica)
        return [each for each in replica.lost if each.offset < end and _key(each) in known]

    def _shared_end(self, replica: SlowReplica) -> int:
        """The offset up to which its log is the quorum's, by its files, or by its indexes.

        A batch beyond the end of its epoch comes from the same leader: all before that end is
        shared.
        """
        last = {each.epoch: each.end for each in self.log}
        held = replica.indexed or (*replica.batches, *replica.tail)
        return max((min(each.end, last.get(each.epoch, 0)) for each in held), default=0)

    @cached_property
    def slow_log(self) -> SlowLog:
        elections: dict[str | None, Sequence[Range]] = {
            each.name: self._elections(each) for each in self.logs
        }
        elections[None] = self._elections(SlowReplica("", None, None, ()))
        return DamagedLog(super().slow_log.batches, self.holes, elections)

    def _elections(self, replica: SlowReplica) -> list[Range]:
        """The ranges of offsets lost by a replica, or by all, that an election may be in or beside.

        Of the offsets lost by one, those count whose arrival is unknown.
        """
        lost = [(each.offset, each.end) for each in self.once(replica) if each.here_ms is None]
        found: list[Range] = []
        for first, end in sorted([*lost, *((each.first, each.end) for each in self.holes.holes)]):
            begins = found.pop()[0] if found and found[-1][1] == first else first
            found.append((begins, end))
        return [each for each in found if self._has_election(*each)]

    def _has_election(self, first: int, end: int) -> bool:
        beside = {each.epoch for each in self.log if each.end >= first and each.offset <= end}
        hidden = any(hole.end == end == self.end for hole in self.holes.holes)
        return hidden or len(beside) > 1

    def last_append_ms(self, replica: SlowReplica) -> int | None:
        """The time of its last append in the last epoch of which it has append times.

        A leader had each batch of its epoch when it appended it, also one that it lost together
        with its append time: another copy has the leader's time. If no copy has the last batches
        of the replica, it appended them later than all others, and the time is unknown.
        """
        end = max(self._shared_end(replica), *(each.end for each in self._tail(replica)), 0)
        if end > max((each.end for each in self.seen(replica)), default=0):
            return None
        for epoch in reversed(self.epochs):
            own = [each for each in self.seen(replica) if each.epoch == epoch]
            times = [at_ms for each in own if (at_ms := self.had_ms(replica, each)) is not None]
            if times:
                is_leader = self.log_of(self.leaders.get(epoch)) is replica
                return own[-1].at_ms if is_leader else times[-1]
        return None

    def lost(self, replica: SlowReplica) -> int:
        """The records before the end of its log that its files lack."""
        shared = [each for each in self.shared(replica) if each in replica.batches]
        return self._shared_end(replica) - sum(each.end - each.offset for each in shared)

    def is_undecided(self, replica: SlowReplica) -> bool:
        """True if it holds something in a hole, or did so, that may not be the quorum's."""
        shared = self._shared_end(replica)
        beyond = [each for each in self._tail(replica) if each.end > shared]
        return any(
            each.offset < hole.end and hole.first < each.end
            for each in (*replica.batches, *beyond)
            for hole in self.holes.holes
        )

    def _tail(self, replica: SlowReplica) -> list[SlowHeld]:
        """The damaged batches at its end, but those in a hole at the end."""
        return [each for each in replica.tail if each.end <= self.log[-1].end]

    def ends(self, end_ms: int) -> Iterator[Row]:
        """The columns of `replica_lag` about the end of each log."""
        for replica in self.logs:
            held = [*(replica.batches or self.once(replica)), *self._tail(replica)]
            if not held:
                continue
            shared = self._shared_end(replica)
            log_end = max(shared, held[-1].end)
            behind = self.end - shared
            since = [each.at_ms for each in self.log if each.offset == shared]
            since_ms = since[0] if since and behind else None
            lost = self.lost(replica)
            lag_ms = None if since_ms is None else max(0, end_ms - since_ms)
            row: Row = {
                "replica": replica.name,
                "log_end": log_end,
                "last_epoch": held[-1].epoch,
                "records_behind": behind + lost,
                "records_lost": lost,
                "records_diverging": log_end - shared,
                "waits_since_ms": since_ms,
                "last_append_ms": self.last_append_ms(replica),
                "lag_ms": lag_ms if behind else 0,
            }
            if self.is_undecided(replica):
                unknown = ("records_behind", "records_diverging", "waits_since_ms", "lag_ms")
                row |= dict.fromkeys(unknown)
            yield row

    # Leaders.

    def _begins(self, own: Sequence[SlowHeld]) -> bool:
        first = own[0]
        return first.offset in {0, *(each.end for each in self.log)} or own[
            0
        ].epoch in slow_reading.leaders(own[:1])

    def _ends(self, own: Sequence[SlowHeld]) -> bool:
        return own[-1].end in {self.end, *(each.offset for each in self.log)}

    @cached_property
    def leaders(self) -> dict[int, int]:
        return {
            epoch: said[epoch].leader
            for epoch in self.epochs
            if (own := self.of_epoch(epoch)) and self._begins(own)
            if (said := slow_reading.leaders(own[:1]))
        }

    def leadership(self, end_ms: int) -> list[Row]:
        """The table `leadership`, without the sentence."""
        rows = super().leadership(end_ms)
        for number, row in enumerate(rows):
            own = self.of_epoch(row["epoch"])
            before = self.of_epoch(rows[number - 1]["epoch"]) if number else None
            if row["epoch"] not in self.leaders:
                row |= dict.fromkeys(("leader", "voters"))
            if not self._begins(own):
                row |= dict.fromkeys(("start_offset", "elected_at_ms", "tenure_ms", "gap_ms"))
            if not self._ends(own):
                row |= dict.fromkeys(("end_offset", "last_append_ms", "tenure_ms"))
            if number + 1 == len(rows):
                row["ended"] = self._ended(row["epoch"])
            if before is not None and not self._ends(before):
                row["gap_ms"] = None
            if before is not None and row["elections_lost"] and before[-1].end != own[0].offset:
                row["elections_lost"] = None
        return rows

    def _ended(self, epoch: int) -> str:
        own, leader = self.of_epoch(epoch), self.leaders.get(epoch)
        later = [each for each in self.log if each.epoch > epoch]
        if not later:
            return "leading" if self._ends(own) else "unknown"
        if leader is None:
            return "unknown"
        following = self.of_epoch(later[0].epoch)
        voters = slow_reading.leaders(following[:1]).get(later[0].epoch)
        is_voter = voters is not None and self._begins(following) and leader in voters.voters
        inside = self.holes.between(own[0].offset, later[0].offset)
        if not self._begins(following) or (inside and not is_voter):
            return "unknown"
        ended = super()._ended(epoch)
        if ended in ("removed", "restarted"):
            return ended
        slack_ms = self.holes.clocks_ms
        for hole in self.holes.between(later[0].offset, FOREVER_MS):
            at = [each for each in (hole.before_ms, hole.after_ms) if each is not None]
            least_ms = min(at) - (slack_ms if hole.may_hide_election else 0)
            if least_ms - later[0].at_ms <= RESTARTED_MS:
                return "unknown"
        return ended

    def _seen_again(self, own: SlowReplica | None, epoch: int, next_ms: int) -> str:
        ended = super()._seen_again(own, epoch, next_ms)
        if own is None:
            return ended
        later = [each for each in self.shared(own) if each.epoch > epoch]
        if ended == "gone" and any(it[0] == own.name and it[1] > epoch for it in self.unread):
            return "unknown"
        if ended == "away" and later and later[0] not in own.batches:
            return ended if later[0].here_ms is not None else "unknown"
        return ended

    unread: frozenset[tuple[str, int]] = frozenset()
    """Replicas with damaged batches, and the epochs of these."""

    # Voters.

    def voters(self, time: SlowTime) -> list[Row]:
        """The table `voters`."""
        rows = super().voters(time)
        for number, row in enumerate(rows):
            end = rows[number + 1]["offset"] if number + 1 < len(rows) else FOREVER_MS
            if self.holes.between(row["offset"], end):
                times = [name for name in row if name.endswith("_ms") and name != "at_ms"]
                row |= dict.fromkeys(times)
        return rows

    def _roles(self, end_ms: int) -> dict[str, str | None]:
        """The role of each at the end, unless a hole may hide it."""
        found = super()._roles(end_ms)
        last = self.assignments[-1] if self.assignments else None
        at = -1 if last is None else last.offset
        hidden = self.holes.between(at + 1, FOREVER_MS)
        if last is not None and not hidden:
            return found
        elected = [self.of_epoch(epoch)[0] for epoch in self.leaders]
        behind = [each for each in elected if not hidden or each.offset >= hidden[-1].end]
        if not behind:
            return dict.fromkeys(found)
        voters = set(slow_reading.leaders(behind[-1:])[behind[-1].epoch].voters)
        if last is not None and voters == {int(each.partition("@")[0]) for each in last.current}:
            return found
        sit = [self._seat(str(voter)) for voter in voters]
        return {
            each.name: None if each.node_id is None else "voter" if each.name in sit else "observer"
            for each in self.logs
        }


def _key(each: SlowHeld) -> Key:
    return each.offset, each.epoch

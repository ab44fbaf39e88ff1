"""A slow and plain second account of the definitions in docs/lag.md."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SlowBatch:
    """A batch of the quorum's log, and when it came to whom; None is "nobody knows"."""

    offset: int
    end: int
    epoch: int
    leader: str
    at_ms: int
    came: dict[str, int | None]

    def had_ms(self, replica: str) -> int | None:
        """Arrival at this replica; a leader has a batch when it appends it."""
        known = self.came.get(replica)
        return self.at_ms if replica == self.leader and known is not None else known


@dataclass(frozen=True)
class SlowLog:
    """All batches, in order."""

    batches: Sequence[SlowBatch]

    def end_of(self, replica: str, t_ms: int) -> int | None:
        """The end of the replica's log at that time."""
        times = [(each.had_ms(replica), each.end) for each in self.batches]
        return max((end for at, end in times if at is not None and at <= t_ms), default=None)

    def leader_end(self, t_ms: int) -> int | None:
        """The end of the leader's log at that time."""
        return max((each.end for each in self.batches if each.at_ms <= t_ms), default=None)

    def lacks(self, replica: str, t_ms: int) -> tuple[int, int] | None:
        """The records that it lacked then, and its lag in ms; None if unknown."""
        end, leader_end = self.end_of(replica, t_ms), self.leader_end(t_ms)
        if end is None or leader_end is None:
            return None
        awaited = [each for each in self.batches if each.offset == end]
        if awaited and replica in awaited[0].came and awaited[0].came[replica] is None:
            return None
        if end >= leader_end:
            return 0, 0
        return leader_end - end, max(0, t_ms - awaited[0].at_ms)

    def greatest(self, replica: str, after_ms: int, to_ms: int) -> int | None:
        """The greatest lag in (after, to], by looking at each ms of it from both sides."""
        found = [lack[1] for lack in self._each(replica, after_ms, to_ms)]
        for each in self.batches:
            had_ms = each.had_ms(replica)
            if had_ms is not None and after_ms < had_ms <= to_ms:
                found.append(max(0, had_ms - each.at_ms))
        return max(found, default=None)

    def _each(self, replica: str, after_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
        for t_ms in range(after_ms + 1, to_ms + 1):
            lack = self.lacks(replica, t_ms)
            if lack is not None:
                yield lack

    def shares(self, replica: str, times: Sequence[int], share: float) -> int | None:
        """The smallest lag that so great a share of these moments does not exceed."""
        lacks = [self.lacks(replica, t_ms) for t_ms in times]
        lags = [lack[1] for lack in lacks if lack is not None]
        for lag in sorted(lags):
            if sum(each <= lag for each in lags) >= share * len(lags):
                return lag
        return None

    def majorities(self, voters: Sequence[str], after_ms: int, to_ms: int) -> list[int]:
        """For each batch of that time, the time until more than half of the voters had it."""
        found = []
        for each in self.batches:
            if after_ms < each.at_ms <= to_ms:
                for waited_ms in range(100_000):
                    held = [each.came.get(voter) for voter in voters]
                    if sum(
                        at is not None and at <= each.at_ms + waited_ms for at in held
                    ) * 2 > len(voters):
                        found.append(waited_ms)
                        break
                    if sum(at is not None for at in held) * 2 <= len(voters):
                        break
        return found

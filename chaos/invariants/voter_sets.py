"""Voter sets, as the checkers derive them from the logs, and their majorities (R14, R15, R17,
R19).
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from chaos.violation import Violation
from quorum.core.vocabulary import OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.records.control import assignment_in, cluster_id_in


class VoterSet(NamedTuple):
    """The voters that one batch names, in force from its append."""

    base: int
    end: int
    epoch: int
    voters: tuple[ReplicaKey, ...]
    target: tuple[ReplicaKey, ...] | None

    def __str__(self) -> str:
        to = "" if self.target is None else f", on the way to {' '.join(map(str, self.target))}"
        return f"voters {' '.join(map(str, self.voters))}{to} at {self.base}@{self.epoch}"


def founders(ids: Sequence[ReplicaId]) -> VoterSet:
    """The initial voter set, in force until the log names another."""
    return VoterSet(0, 0, 0, tuple(map(ReplicaKey, sorted(ids))), None)


@lru_cache(maxsize=1_024)
def voter_set_in(base: int, end: int, epoch: int, data: bytes) -> VoterSet | None:
    """The voter set in a control batch, or None."""
    found = assignment_in(data)
    if found is None:
        return None
    voters = tuple(each.key for each in found.current)
    return VoterSet(base, end, epoch, voters, found.target)


def names(voter: ReplicaKey, replica: ReplicaKey) -> bool:
    """True if the voter is this replica; an unknown directory id matches any."""
    # Compare as numbers, 0 for an unknown directory: this runs for every message.
    return voter.id == replica.id and (voter.directory_id.int in (0, replica.directory_id.int))


def has_majority(voter_set: VoterSet, replicas: Collection[ReplicaKey]) -> bool:
    """True if these are more than half of the voters."""
    found = [v for v in voter_set.voters if any(names(v, each) for each in replicas)]
    return 2 * len(found) > len(voter_set.voters)


def reached_by_majority(voter_set: VoterSet, ends: Mapping[ReplicaKey, int]) -> int:
    """The offset that more than half of the voters have reached."""
    reached = [_reached(voter, ends) for voter in voter_set.voters]
    return sorted(reached, reverse=True)[len(reached) // 2]


def _reached(voter: ReplicaKey, ends: Mapping[ReplicaKey, int]) -> int:
    if voter.directory_id.int:
        return ends.get(voter, 0)
    return max((end for key, end in ends.items() if names(voter, key)), default=0)


def check_step(before: VoterSet, after: VoterSet) -> None:
    """R14: at most one voter joins or leaves, so that the majorities of both sets intersect.

    A voter whose directory id was unknown may have presented it.
    """
    gone = [v for v in before.voters if not any(names(v, each) for each in after.voters)]
    come = [v for v in after.voters if not any(names(each, v) for each in before.voters)]
    if len(gone) + len(come) > 1:
        raise Violation("R14", f"{before}, then {after}: their majorities may be disjoint")


class VoterSets:
    """The voter sets in force in each epoch, from the logs and from what leaders have appended."""

    def __init__(self, ids: Sequence[ReplicaId]) -> None:
        self.first = founders(ids)
        self._appended: dict[int, list[VoterSet]] = {}

    def chain(self, assigned: Sequence[VoterSet], end: int, epoch: int) -> list[VoterSet]:
        """The voter set in force in this epoch, preceded by the previous one.

        `assigned` and `end` are from a disk of the epoch; its leader may be ahead.
        """
        later = [each for each in self._appended.get(epoch, ()) if each.base >= end]
        return [self.first, *assigned[-2:], *later][-2:]

    def before(self, who: Sequence[VoterSet], end: int, new: VoterSet) -> VoterSet:
        """The voter set before `new` in the log of a leader with this disk."""
        later = (each for each in self._appended.get(new.epoch, ()) if each.base >= end)
        return [each for each in (self.first, *who, *later) if each.end <= new.base][-1]

    def append(
        self, who: Sequence[VoterSet], end: int, new: VoterSet, *, committed: int, opened: bool
    ) -> bool:
        """Add a voter set that a leader has appended; return True if it is new. `who` and `end`
        describe the disk of the reporting replica.

        R15: the previous set is committed, and so is a record of the leader's epoch.
        """
        if any(each.base == new.base for each in self._appended.get(new.epoch, ())):
            return False
        earlier = [each for each in who if each.end <= new.base]
        before = self.chain(earlier, min(end, new.base), new.epoch)[-1]
        check_step(before, new)
        if before.end > committed:
            raise Violation("R15", f"{new} is appended while {before} is not committed")
        if not opened:
            raise Violation("R15", f"{new} is appended before a commit in epoch {new.epoch}")
        self._appended.setdefault(new.epoch, []).append(new)
        return True

    def of_log(
        self, assigned: Sequence[VoterSet], end: int, log_end: OffsetAndEpoch
    ) -> list[VoterSet]:
        """The last voter set of a log, preceded by the previous one.

        `assigned` and `end` are from its disk, `log_end` from its owner: that may be ahead of the
        disk, or already truncated.
        """
        known = [each for each in assigned if each.end <= log_end.offset]
        later = self._appended.get(log_end.epoch, ())
        known += [each for each in later if end <= each.base and each.end <= log_end.offset]
        return [self.first, *known][-2:]

    def check_asked(
        self,
        who: ReplicaKey,
        to: ReplicaId,
        assigned: Sequence[VoterSet],
        end: int,
        log_end: OffsetAndEpoch,
    ) -> None:
        """R17: a candidate requests votes from the voters of its current log, not of a truncated
        set; it is one of them, or was before the last change.

        `assigned` and `end` are from its disk, `log_end` from its request.
        """
        either = self.of_log(assigned, end, log_end)
        voters = either[-1].voters
        if to not in {voter.id for voter in voters}:
            text = " ".join(map(str, voters))
            raise Violation(
                "R17", f"{who} requests the vote of {to}, but the voters at {log_end} are {text}"
            )
        if not any(names(voter, who) for each in either for voter in each.voters):
            text = " ".join(map(str, voters))
            raise Violation(
                "R17", f"{who} requests the vote of {to}, but is not one of the voters {text}"
            )

    def check_founding(self, base: int, first: VoterSet | None, data: bytes) -> None:
        """R19: a log begins with its founders and the cluster id."""
        if base > 0:
            return
        if first is None or [v.id for v in first.voters] != [v.id for v in self.first.voters]:
            raise Violation("R19", f"the first records name the voters {first}, not {self.first}")
        if not cluster_id_in(data):
            raise Violation("R19", "the first records name no cluster id")

    def possible(self, committed: Sequence[VoterSet]) -> list[VoterSet]:
        """The voter sets that may be in force: the last committed one, and all later ones."""
        last = committed[-1] if committed else self.first
        later = (a for each in self._appended.values() for a in each if a.base >= last.base)
        return [last, *later]

    def may_vote(self, replica: ReplicaId, committed: Sequence[VoterSet]) -> bool:
        """True if some replica may consider this id a voter."""
        possible = self.possible(committed)
        return any(voter.id == replica for each in possible for voter in each.voters)

"""How the voters are changed: one at a time, towards a target, as pure rules (KIP-853, Raft §4.1).

Sets that follow each other differ in one voter at most, so any majority of the one and any of the
other share a voter: it is enough that at most one change is not committed. `next_step` looks at
nothing but the sets and what the leader has seen of the replicas, so a new leader goes on where
the old one stopped. Here it is decided what the next assignment is; when, is the leader's affair
(`voter_changes`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from quorum.core.vocabulary import Offset, ReplicaId, ReplicaKey
from quorum.core.voters import Endpoint, Voter, VoterAssignment, VoterSet


class Waiting(StrEnum):
    """Why a change of the voters does not go on now."""

    NO_COMMIT_IN_EPOCH = "the leader has not committed a record of its own epoch yet"
    UNCOMMITTED = "the last change of the voters is not committed yet"
    TRANSFER = "the lead is being handed over"
    CATCHING_UP = "they have not caught up with the leader's log yet"
    ADDRESS_UNKNOWN = "it is not known where they listen"
    NOT_SEEN = "they do not fetch from the leader"
    NO_MAJORITY = "without them, no majority of the voters that would result fetches"
    NOT_HEARD = (
        "they have not fetched since this step was due and may be dead; without them, no majority "
        "of the voters that would result fetches"
    )


@dataclass(frozen=True, slots=True)
class Wait:
    """What the change waits for, and for whom."""

    reason: Waiting
    replicas: tuple[ReplicaId, ...] = ()

    def __str__(self) -> str:
        if not self.replicas:
            return str(self.reason)
        return f"{', '.join(map(str, self.replicas))}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the leader knows of another replica now."""

    key: ReplicaKey
    log_end: Offset
    is_live: bool
    """Whether it has fetched within the fetch time-out."""
    is_present: bool = False
    """Whether it has fetched since the roll was called for the step (`RollCall`)."""
    was_level: bool = False
    """Whether it had caught up with what was the high watermark at a fetch within that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a step rests on."""

    me: ReplicaKey
    """The leader, whose log is never behind."""
    assignment: VoterAssignment
    others: tuple[Seen, ...] = ()
    """Who fetched last comes first."""
    high_watermark: Offset = Offset(0)
    located: Mapping[ReplicaKey, tuple[Endpoint, ...]] = field(default_factory=dict)
    """Where replicas listen by what they said last; a directory id of zero stands for any."""

    def seen_as(self, voter: Voter) -> Seen | None:
        """What was seen of the replica that is this voter, or could be.

        Of two directories under one id, the one that fetched last: where a disk was just wiped, the
        old directory has not been silent for long enough to be told from a live one.
        """
        return next((each for each in self.others if voter.is_(each.key)), None)

    def is_live(self, voter: Voter) -> bool:
        seen = self.seen_as(voter)
        return voter.is_(self.me) or (seen is not None and seen.is_live)

    def is_present(self, voter: Voter) -> bool:
        seen = self.seen_as(voter)
        return voter.is_(self.me) or (seen is not None and seen.is_present)

    def endpoints_of(self, key: ReplicaKey) -> tuple[Endpoint, ...]:
        return self.located.get(key) or self.located.get(ReplicaKey(key.id)) or ()


def next_step(situation: Situation) -> VoterAssignment | Wait | None:
    """The next assignment, or why there is none yet; None if nothing is to be changed.

    What the log says of the voters is made right first: directory ids that voters founded by id
    alone have presented by now, and addresses that have changed.
    """
    assignment = situation.assignment
    corrected = _corrected(situation)
    if corrected != assignment.current:
        return replace(assignment, current=corrected)
    if assignment.target is None:
        return None
    surplus, missing = difference(assignment.current, assignment.target)
    lost = _lost(situation, assignment.target)
    if lost is not None:
        return _checked(situation, assignment.current.without(lost.id))
    if not surplus and not missing:
        return VoterAssignment(assignment.current)
    leaving = _leaving(situation, surplus, missing)
    if leaving is not None:
        return _checked(situation, assignment.current.without(leaving.id))
    addition = _addition(situation, missing)
    if isinstance(addition, Wait):
        return addition
    return _checked(situation, assignment.current.with_(addition))


def difference(
    current: VoterSet, target: tuple[ReplicaKey, ...]
) -> tuple[tuple[Voter, ...], tuple[ReplicaKey, ...]]:
    """The voters that the target does not name, and those of the target that do not vote."""
    wanted = [Voter(key) for key in target]
    surplus = tuple(voter for voter in current if not any(each.is_(voter.key) for each in wanted))
    missing = tuple(
        each.key for each in wanted if not any(each.is_(voter.key) for voter in current)
    )
    return surplus, missing


def _lost(situation: Situation, target: tuple[ReplicaKey, ...]) -> Voter | None:
    """A voter whose directory is gone, where the target names it by its id alone and another
    directory of that id is there: that one is meant, and comes when the old one has gone."""
    for voter in situation.assignment.current:
        if ReplicaKey(voter.id) in target and not situation.is_live(voter):
            wanted = Voter(ReplicaKey(voter.id))
            found = situation.seen_as(wanted)
            if voter.directory_id_is_known and found is not None and found.is_live:
                return voter
    return None


def _leaving(
    situation: Situation, surplus: tuple[Voter, ...], missing: tuple[ReplicaKey, ...]
) -> Voter | None:
    """Who goes, if somebody goes before the next one comes: the set grows by one, then shrinks.

    The dead go first, then who is furthest behind; the leader itself goes last.
    """
    current, target = situation.assignment.current, situation.assignment.target
    assert target is not None
    if not surplus or len(current) == 1:
        return None
    if all(key.id in current for key in missing):
        # Another directory of one id can only come once the first is gone.
        blocking = [each for each in surplus if any(key.id == each.id for key in missing)]
        return min(blocking or surplus, key=lambda each: _order_of_leaving(situation, each))
    if len(target) < len(current) > len(surplus):
        return min(surplus, key=lambda each: _order_of_leaving(situation, each))
    return None


def _order_of_leaving(situation: Situation, voter: Voter) -> tuple[bool, bool, Offset, ReplicaKey]:
    seen = situation.seen_as(voter)
    reached = Offset(0) if seen is None else seen.log_end
    return voter.is_(situation.me), situation.is_live(voter), reached, voter.key


def _addition(situation: Situation, missing: tuple[ReplicaKey, ...]) -> Voter | Wait:
    """Who of those that are missing is to come next; the reason of who is closest if nobody can."""
    current = situation.assignment.current
    waits: dict[Waiting, list[ReplicaId]] = {}
    for key in missing:
        if key.id in current:
            continue
        found = candidate(situation, Voter(key))
        if isinstance(found, Voter):
            return found
        waits.setdefault(found, []).append(key.id)
    closest = (Waiting.CATCHING_UP, Waiting.ADDRESS_UNKNOWN, Waiting.NOT_SEEN)
    reason = next((each for each in closest if each in waits), Waiting.NO_MAJORITY)
    return Wait(reason, tuple(waits.get(reason, ())))


def candidate(situation: Situation, wanted: Voter) -> Voter | Waiting:
    """The voter that `wanted` would be, with directory and address, or why it cannot be one yet.

    It has caught up when it has reached the high watermark, or had just done so: it will then not
    keep the quorum from committing for longer than any other follower. Under a steady load the
    high watermark has always moved on by the time that its next fetch says what it has.
    """
    seen = situation.seen_as(wanted)
    if wanted.is_(situation.me):
        seen = Seen(situation.me, situation.high_watermark, is_live=True, is_present=True)
    if seen is None or not seen.is_live:
        return Waiting.NOT_SEEN
    endpoints = wanted.endpoints or situation.endpoints_of(seen.key)
    if not endpoints:
        return Waiting.ADDRESS_UNKNOWN
    if seen.log_end < situation.high_watermark and not seen.was_level:
        return Waiting.CATCHING_UP
    return replace(wanted, key=seen.key, endpoints=endpoints)


def _checked(situation: Situation, current: VoterSet) -> VoterAssignment | Wait:
    """The assignment with these voters, if they could commit anything; else who is missing."""
    wait = lacking(situation, current)
    if wait is not None:
        return wait
    target = situation.assignment.target
    assert target is not None
    reached = difference(current, target) == ((), ())
    return VoterAssignment(current, None if reached else target)


def lacking(situation: Situation, current: VoterSet) -> Wait | None:
    """Whom these voters would lack to commit anything, or None.

    A set is in force from its append, so one without a majority could not commit its own record,
    nor be undone by those that are left. Who died a moment ago is still live, but not present.
    """
    silent = tuple(voter.id for voter in current if not situation.is_live(voter))
    if len(current) - len(silent) < current.majority:
        return Wait(Waiting.NO_MAJORITY, silent)
    absent = tuple(voter.id for voter in current if not situation.is_present(voter))
    if len(current) - len(absent) < current.majority:
        return Wait(Waiting.NOT_HEARD, absent)
    return None


def _corrected(situation: Situation) -> VoterSet:
    """The voters in force, with what has been learned of them since."""
    return VoterSet(tuple(_learned(situation, each) for each in situation.assignment.current))


def _learned(situation: Situation, voter: Voter) -> Voter:
    key = voter.key
    if not voter.directory_id_is_known:
        seen = situation.seen_as(voter)
        if voter.is_(situation.me):
            key = situation.me
        elif seen is not None and seen.is_live:
            key = seen.key
    endpoints = voter.endpoints
    if voter.directory_id_is_known:
        # Of this very directory: where another one listens says nothing of this voter.
        endpoints = situation.located.get(key) or endpoints
    return replace(voter, key=key, endpoints=endpoints)

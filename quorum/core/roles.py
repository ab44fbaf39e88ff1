"""The roles of a node in an epoch, and the table of legal transitions.

A role holds only the data of that role. An observer is always unattached or a follower.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from quorum.core.events import Asker, Correlation, ReadToken
from quorum.core.messages import VoterRequest
from quorum.core.replica_progress import ProgressTracker
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import Wait


@dataclass(slots=True)
class Transfer:
    """A transfer of the lead to another voter; `Bounds.transfer_askers` bounds its askers."""

    successor: ReplicaId
    deadline_ms: int
    """The time to give up the transfer and keep the lead."""
    askers: list[Asker]


@dataclass(slots=True)
class ReadGroup:
    """Reads of one leader that share a read round."""

    round: int
    deadline_ms: int
    tokens: list[ReadToken] = field(default_factory=list)
    log_end: Offset = Offset(0)
    """Records at or after this offset were appended after the last of the reads arrived."""


CHECK_INTERVAL_MS: Final = 20
"""The minimal interval between two checks, caused by fetches, for a step of the voters."""


@dataclass(slots=True, eq=False)
class PendingVoterRequest:
    """A request for other voters that has no record in the log yet."""

    asker: Asker
    request: VoterRequest
    deadline_ms: int
    wait: Wait | None = None


@dataclass(slots=True)
class LivenessRound:
    """The replicas that have fetched since a step was due; any other replica may be dead."""

    awaited: frozenset[ReplicaId]
    until_ms: int
    """The end of the round; a new one follows, because a replica may have died since its fetch."""
    present: dict[ReplicaId, ReplicaKey] = field(default_factory=dict)


@dataclass(slots=True)
class PendingVoterChanges:
    """The pending changes of the voters at one leader. Its successor needs only the log."""

    requests: list[PendingVoterRequest] = field(default_factory=list)
    recorded: deque[tuple[Offset, Asker]] = field(default_factory=deque)
    """The requests to answer once everything below the offset is committed."""
    wait: Wait | None = None
    """The reason to wait, from the last check."""
    is_wanted: bool = False
    """True if a fetch or a commit may make a step possible."""
    without_directory: frozenset[ReplicaId] = frozenset()
    """Voters whose directory id is not known yet."""
    due_ms: int | None = None
    """The time of the next check for a step; None if none is due."""
    checked_ms: int = 0
    liveness_round: LivenessRound | None = None
    """The liveness round of the step that is due; None if no step waits for one."""

    @property
    def first_wait(self) -> Wait | None:
        """The reason why the change under way waits, or else the first request."""
        waits = (self.wait, *(each.wait for each in self.requests))
        return next((each for each in waits if each is not None), None)

    def check_soon(self, now_ms: int) -> None:
        """Make the next check for a step due now."""
        self.is_wanted = True
        self.due_ms = now_ms

    def on_fetch(self, replica: ReplicaKey, now_ms: int) -> None:
        """Schedule a check for a step that may have waited for this fetch."""
        if not self.is_wanted:
            if replica.id not in self.without_directory or replica.directory_id == NO_DIRECTORY:
                return
            self.is_wanted = True
        round_ = self.liveness_round
        if round_ is not None and replica.id in round_.awaited:
            is_first = replica.id not in round_.present
            round_.present[replica.id] = replica
            if is_first:
                self.due_ms = now_ms
                return
        due_ms = max(now_ms, self.checked_ms + CHECK_INTERVAL_MS)
        self.due_ms = due_ms if self.due_ms is None else min(self.due_ms, due_ms)

    def on_commit(self, now_ms: int) -> None:
        """Schedule a check: the record of the last step may be committed now."""
        if self.is_wanted or self.recorded:
            self.due_ms = now_ms

    def dismiss(self) -> list[Asker]:
        """Return the askers of all requests without an answer: the lead is lost."""
        askers = [asker for _, asker in self.recorded]
        return askers + [wanted.asker for wanted in self.requests]


@dataclass(slots=True)
class Unattached:
    """A node that does not know the leader of its epoch; it may have voted in it."""

    deadline_ms: int | None
    """The time to stand; None for an observer."""
    named: bool = False
    """True if the leader that resigned named this node a successor: it needs no pre-vote."""

    def __str__(self) -> str:
        return "unattached"


@dataclass(slots=True)
class Poll:
    """The common part of a poll for votes and one for pre-votes.

    A vote once counted is never changed.
    """

    deadline_ms: int = 0
    votes: dict[ReplicaId, bool] = field(default_factory=dict)
    asked: dict[Correlation, ReplicaId] = field(default_factory=dict)
    """The requests under way; only their answers count."""
    ask_again_ms: int | None = None
    """The time to ask again the voters that did not answer."""
    lost: bool = False
    """True if the poll is lost: the deadline is then the end of a back-off."""

    def _counted(self) -> str:
        votes, refusals = (
            [str(voter) for voter in sorted(self.votes) if self.votes[voter] == granted]
            for granted in (True, False)
        )
        parts = [f"the vote{'s' * (len(votes) > 1)} of {', '.join(votes)}" if votes else "no vote"]
        parts += [f"refused by {', '.join(refusals)}"] * bool(refusals)
        return ", ".join(parts + ["lost"] * self.lost)


@dataclass(slots=True)
class Prospective(Poll):
    """A voter that asks for pre-votes, in its current epoch (KIP-996)."""

    is_searching: bool = False
    """True after a failed poll: the leader may be no voter in this node's log."""

    def __str__(self) -> str:
        return f"prospective with {self._counted()}"


@dataclass(slots=True)
class Candidate(Poll):
    """A voter that stands for election in a new epoch."""

    def __str__(self) -> str:
        return f"candidate with {self._counted()}"


@dataclass(slots=True)
class Follower:
    leader: ReplicaId
    deadline_ms: int
    """The time to give up the leader unless it answers a fetch before."""
    round: int = 0
    """The last read round in a response of the leader, to echo in the next fetch."""
    snapshot: OffsetAndEpoch | None = None
    """The snapshot to fetch instead of records that the leader no longer has."""
    heard_ms: int | None = None
    """The time at which the leader last answered a fetch; None before its first answer."""
    lost: bool = False
    """True if the leader seems to be gone; the deadline is then near."""

    @property
    def cause_to_stand(self) -> "Cause":
        """The cause of the transition at the deadline."""
        return Cause.LEADER_GONE if self.lost else Cause.FETCH_TIMEOUT

    def __str__(self) -> str:
        return f"follower of {self.leader}{', which seems to be gone' if self.lost else ''}"


@dataclass(slots=True)
class Leader:
    epoch: Epoch
    since_ms: int
    epoch_start: Offset
    """The offset of the LeaderChange record; nothing is committed before a majority has it."""
    tracker: ProgressTracker
    check_quorum_ms: int | None
    """The time of the next check that a majority fetches; None if it needs no other voter."""
    announce_ms: int | None
    """The time to announce the epoch again to voters that do not fetch; None without others."""
    announcing: dict[ReplicaId, Correlation] = field(default_factory=dict)
    doubts: int | None = None
    """The index of the node to ask next for a newer epoch; None while a majority fetches."""
    reads: deque[ReadGroup] = field(default_factory=deque)
    """The reads that wait for their proof, by ascending round."""
    changes: PendingVoterChanges = field(default_factory=PendingVoterChanges)
    disk_check_ms: int | None = None
    """The time of the next check of its own disk; None if there is no other voter."""
    disk_checked_end: Offset = Offset(0)
    """The log end offset at the last check."""
    transfer: Transfer | None = None
    """The transfer under way; the leader accepts no proposals meanwhile."""

    def __str__(self) -> str:
        return "leader"


@dataclass(slots=True)
class Resigned:
    """A node that led this epoch and resigned; it never leads or votes in it again."""

    deadline_ms: int | None
    """The time to stand in a later epoch; None while the process is stopping."""

    def __str__(self) -> str:
        return "resigned"


NotLeader: TypeAlias = Unattached | Prospective | Candidate | Follower | Resigned
"""The other roles; each has a `deadline_ms`, the time to act if no leader is heard."""

Role: TypeAlias = NotLeader | Leader


class Cause(StrEnum):
    HIGHER_EPOCH = "learns of a higher epoch"
    STEPPED_DOWN = "lost its lead to a higher epoch, and asks for pre-votes at once"
    VOTE_GRANTED = "grants its vote"
    ELECTION_TIMEOUT = "finds no leader within the election timeout"
    FETCH_TIMEOUT = "gets no answer to its fetches within the fetch timeout"
    MAJORITY_WOULD_GRANT = "gets the pre-votes of a majority"
    PRE_VOTE_UNKNOWN = "finds a voter that does not support pre-votes"
    SUCCESSION = "is the successor that the resigning leader named"
    HELD_BACK = "is not allowed to stand, and searches for the leader"
    MAJORITY_GRANTED = "gets the votes of a majority"
    LEADER_FOUND = "learns the leader of its epoch"
    LEADER_GONE = "loses the connection to its leader"
    LEADER_RESIGNED = "learns that its leader has resigned"
    QUORUM_LOST = "gets no fetches from a majority"
    REMOVED = "is removed from the voters, and the removal is committed"
    DISK_BEHIND = "has a slow or full disk"
    TRANSFER = "transfers its lead"
    STOPPING = "shuts down"


TRANSITIONS: Final[Mapping[type[Role], Mapping[Cause, tuple[type[Role], ...]]]] = MappingProxyType(
    {
        Unattached: {
            Cause.HIGHER_EPOCH: (Unattached,),
            Cause.STEPPED_DOWN: (Prospective,),
            Cause.VOTE_GRANTED: (Unattached,),
            Cause.ELECTION_TIMEOUT: (Prospective,),
            Cause.SUCCESSION: (Candidate,),
            Cause.LEADER_FOUND: (Follower,),
        },
        Prospective: {
            Cause.HIGHER_EPOCH: (Unattached,),
            Cause.VOTE_GRANTED: (Unattached,),
            Cause.ELECTION_TIMEOUT: (Prospective,),
            Cause.MAJORITY_WOULD_GRANT: (Candidate,),
            Cause.PRE_VOTE_UNKNOWN: (Candidate,),
            Cause.LEADER_FOUND: (Follower,),
            Cause.LEADER_RESIGNED: (Unattached,),
            Cause.HELD_BACK: (Unattached,),
        },
        Candidate: {
            Cause.HIGHER_EPOCH: (Unattached,),
            Cause.HELD_BACK: (Unattached,),
            Cause.ELECTION_TIMEOUT: (Prospective,),
            Cause.MAJORITY_GRANTED: (Leader,),
            Cause.LEADER_FOUND: (Follower,),
        },
        Follower: {
            Cause.HIGHER_EPOCH: (Unattached,),
            # A voter asks for pre-votes; an observer searches for the leader.
            Cause.FETCH_TIMEOUT: (Prospective, Unattached),
            Cause.LEADER_GONE: (Prospective, Unattached),
            Cause.LEADER_RESIGNED: (Unattached,),
        },
        Leader: {
            Cause.HIGHER_EPOCH: (Unattached,),
            Cause.QUORUM_LOST: (Resigned,),
            Cause.REMOVED: (Resigned,),
            Cause.DISK_BEHIND: (Resigned,),
            Cause.TRANSFER: (Resigned,),
            Cause.STOPPING: (Resigned,),
        },
        Resigned: {
            Cause.HIGHER_EPOCH: (Unattached,),
            Cause.ELECTION_TIMEOUT: (Prospective,),
        },
    }
)


def check_transition(before: Role, cause: Cause, after: Role) -> None:
    """Assert that the table allows this move; called from the one place where roles change."""
    allowed = TRANSITIONS[type(before)].get(cause, ())
    assert isinstance(after, allowed), f"{before}, when it {cause}, must not become {after}"


def as_markdown() -> str:
    """Return the table for docs/architecture.md; a test compares the two."""
    rows = [
        f"| {before.__name__} | {cause} | {' or '.join(each.__name__ for each in after)} |"
        for before, moves in TRANSITIONS.items()
        for cause, after in moves.items()
    ]
    return "\n".join(["| Role | when it… | becomes |", "| --- | --- | --- |", *rows])

"""The state of one replica, and the operations that the parts of the core share.

`QuorumNode` owns one `State`; `elections`, `leader` and `follower` are functions over it. Only
`become` changes the role; only `effects` collects what the driver has to do.
"""

import random
from dataclasses import dataclass, field

from quorum.core.effects import (
    Answer,
    AnswerChange,
    AnswerReads,
    Effect,
    ReadRefusal,
    Send,
    StopLeading,
    Warn,
)
from quorum.core.epoch_allowance import EpochAllowance
from quorum.core.events import Asker, Correlation
from quorum.core.limits import LOCATED_MAX, Bounds, Timeouts
from quorum.core.messages import (
    Batch,
    ChangeResponse,
    Error,
    FetchResponse,
    Request,
    Response,
)
from quorum.core.raft_log import RaftLog
from quorum.core.roles import (
    Candidate,
    Cause,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
)
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import Endpoint, VoterSet


@dataclass(slots=True, kw_only=True)
class DiscoveryState:
    """The knowledge that a node needs to found a cluster; the default is complete."""

    unlocated: frozenset[ReplicaId] = frozenset()
    """Founders without a known address."""
    bootstrap: tuple[ReplicaId, ...] = ()
    """Pseudo ids of the bootstrap servers."""
    has_surveyed: bool = True
    """True if all bootstrap servers have been asked for a quorum."""
    has_found: bool = False
    """True if one of them knows a quorum."""


@dataclass(slots=True)
class SnapshotDownload:
    """A snapshot that is being received. Another leader with the same snapshot can continue it."""

    id: OffsetAndEpoch
    position: int = 0
    """The number of bytes that are stored."""
    source: ReplicaId | None = None
    """The sender; None if an earlier process received it."""
    is_mixed: bool = False
    """True if parts of it may come from more than one replica."""

    @classmethod
    def from_(
        cls, source: ReplicaId, id_: OffsetAndEpoch, *, before: "SnapshotDownload | None"
    ) -> "SnapshotDownload":
        """Return the download of this snapshot; it continues `before` if the ids are equal."""
        if before is None or before.id != id_:
            return cls(id_, source=source)
        mixed = before.is_mixed or (before.position > 0 and before.source != source)
        return cls(id_, before.position, source, mixed)


@dataclass(slots=True)
class FetchState:
    """The fetch under way, and the exponential back-off after failures (KIP-580)."""

    _timeouts: Timeouts
    _failures: int = 0
    pending: Correlation | None = None
    not_before_ms: int = 0
    overdue_ms: int | None = None
    """The time to ask another node if this fetch has no answer; None for never."""

    def may_ask(self, now_ms: int) -> bool:
        return self.pending is None and now_ms >= self.not_before_ms

    def asked(self, correlation: Correlation, overdue_ms: int | None = None) -> None:
        assert self.pending is None
        self.pending, self.overdue_ms = correlation, overdue_ms

    def leave(self, now_ms: int) -> bool:
        """Abandon the fetch under way and return True if it is overdue."""
        if self.pending is None or self.overdue_ms is None or now_ms < self.overdue_ms:
            return False
        self.pending = None
        return True

    def answered(self) -> None:
        """Forget the fetch under way, but not the failures: its answer brought nothing yet."""
        self.pending = None

    def reset(self) -> None:
        """Forget the fetch under way and the failures, after a success or a change of role."""
        self.pending = None
        self._failures = 0
        self.not_before_ms = 0

    def failed(self, now_ms: int, *, pause_ms_max: int | None = None) -> None:
        """Back off after a time-out or an error."""
        self.pending = None
        backoff_ms = self._timeouts.retry_backoff_ms << min(self._failures, 16)
        self._failures += 1
        most_ms = self._timeouts.retry_backoff_ms_max if pause_ms_max is None else pause_ms_max
        self.not_before_ms = now_ms + min(backoff_ms, most_ms)


@dataclass(slots=True, kw_only=True)
class State:
    me: ReplicaKey
    founders: VoterSet
    """The voters as long as the log does not record any."""
    records_voters: bool
    """True if the first leader records the founders in the log (kraft.version 1)."""
    timeouts: Timeouts
    bounds: Bounds = field(default_factory=Bounds)
    rng: random.Random
    election: ElectionState
    role: Role
    log: RaftLog
    fetching: FetchState
    voters: VoterSet = field(init=False)
    """The current voters: those of the last assignment in the log, committed or not."""
    is_voter: bool = field(init=False)
    is_displaced: bool = False
    """True if another directory of this node's id is a voter."""
    discovery: DiscoveryState = field(default_factory=DiscoveryState)
    high_watermark: Offset | None = None
    located: dict[ReplicaKey, tuple[Endpoint, ...]] = field(default_factory=dict)
    """The latest endpoints of replicas; bounded by LOCATED_MAX."""
    receiving: SnapshotDownload | None = None
    """The snapshot that is being received, from any leader."""
    installing: bool = False
    """True while the received snapshot replaces the log."""
    voters_allowance: EpochAllowance = field(default_factory=EpochAllowance.of_voters)
    strangers_allowance: EpochAllowance = field(default_factory=EpochAllowance.of_strangers)
    strangers_from_ms: int = 0
    """The time from which a replica that is no voter may raise the epoch again."""
    lost_elections: int = 0
    resigned_epoch: Epoch | None = None
    """The epoch whose leader has announced its resignation: it has no leader any more."""
    stopping: bool = False
    has_room: bool = True
    """True unless the last write found this node's disk full."""
    awaits_disk: bool = False
    """True if only this node's own disk keeps it from standing (`slow_disk`)."""
    effects: list[Effect] = field(default_factory=list)
    last_correlation: int = 0
    probes: int = 0
    """The number of nodes asked in the search for a leader; selects the next one."""

    def __post_init__(self) -> None:
        self.located |= {each.key: each.endpoints for each in self.founders if each.endpoints}
        self.take_voters()

    def locate(self, replica: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> None:
        """Note the endpoints of a replica."""
        self.located.pop(replica, None)
        self.located[replica] = endpoints
        if len(self.located) > LOCATED_MAX:
            del self.located[next(iter(self.located))]

    def take_voters(self) -> None:
        """Update the current voters from the log after a change."""
        assignment = self.log.assignments.last
        self.voters = self.founders if assignment is None else assignment.current
        self.is_voter = self.voters.has(self.me)
        is_displaced = not self.is_voter and self.me.id in self.voters
        if is_displaced and not self.is_displaced:
            self.effects.append(Warn(_displaced(self.me.id)))
        self.is_displaced = is_displaced

    @property
    def is_promotable(self) -> bool:
        """True if an election may depend on this node: it is a voter, or may be one for others.

        Its removal may be in its own log only. The other voters then use the earlier set: they may
        need its vote, and cannot win against its longer log. So it stands, and leads without
        counting itself until its removal is committed (Raft dissertation §4.2.2).
        """
        if self.is_voter or self.is_displaced:
            return self.is_voter
        assignments = self.log.assignments
        if assignments.last_end <= (self.high_watermark or 0):
            return False
        before = assignments.before_last
        return before is not None and before.current.has(self.me)

    def knows(self, replica: ReplicaKey) -> bool:
        """Return True if the log names this replica as a voter, now or earlier, or as a target."""
        if self.voters.has(replica):
            return True
        namesakes = [each for each in self.log.assignments.named() if each.id == replica.id]
        # The founders' directories were recorded one by one.
        exact = [each for each in namesakes if each.directory_id_is_known]
        return any(each.is_(replica) for each in exact or namesakes)

    def hears_leader(self, now_ms: int) -> bool:
        """Return True if this node itself has heard the leader lately, or leads a majority; a mere
        mention of a leader may be stale."""
        match self.role:
            case Leader(doubts=doubts):
                return doubts is None
            case Follower(heard_ms=int(heard_ms), lost=False):
                return now_ms < heard_ms + self.timeouts.fetch_timeout_ms
            case _:
                return False

    def may_enter(self, epoch: Epoch, now_ms: int, *, is_known: bool) -> bool:
        """Return True if another replica may raise the epoch to this one (`epoch_allowance`).

        `is_known` says that it is a voter by the log, or a node that this one chose to ask.
        """
        leap = epoch - self.election.epoch
        assert leap > 0
        if is_known:
            return self.voters_allowance.take(leap, now_ms)
        if self.hears_leader(now_ms) or now_ms < self.strangers_from_ms:
            return False
        if not self.strangers_allowance.take(leap, now_ms):
            return False
        self.strangers_from_ms = now_ms + 2 * self.timeouts.election_timeout_ms
        return True

    def append(self, batch: Batch) -> None:
        """Add `batch` to the log; its voter assignment is in force at once."""
        self.log.append(batch)
        if batch.assignment is not None:
            self.take_voters()

    def truncate(self, end: Offset) -> None:
        """Truncate the log and return to the voters that it now records."""
        self.log.truncate(end)
        self.take_voters()

    @property
    def leader(self) -> ReplicaId | None:
        """The leader of the epoch, as far as this node knows, unless it seems gone."""
        match self.role:
            case Follower(leader=leader, lost=False):
                return leader
            case Leader():
                return self.me.id
            case _:
                return None

    def shown_high_watermark(self, led: Leader) -> Offset | None:
        """The high watermark, or None until the leader has committed a record of its own epoch.

        Until then the previous leader may have shown a higher one, and its uncommitted records may
        still be undone.
        """
        known = self.high_watermark
        return known if known is not None and known > led.epoch_start else None

    def follows(self, leader: ReplicaId) -> bool:
        return isinstance(self.role, Follower) and self.role.leader == leader

    def send(self, to: ReplicaId, request: Request) -> Correlation:
        self.last_correlation += 1
        correlation = Correlation(self.last_correlation)
        self.effects.append(Send(to, correlation, request))
        return correlation

    def answer(self, asker: Asker, response: Response) -> None:
        self.effects.append(Answer(asker, response))

    def answer_change(self, asker: Asker, error: Error = Error.NONE, text: str = "") -> None:
        response = ChangeResponse(
            error=error, text=text, epoch=self.election.epoch, leader=self.leader
        )
        self.effects.append(AnswerChange(asker, response))

    def become(self, role: Role, cause: Cause) -> None:
        """Change the role; no other function does."""
        before = self.role
        check_transition(before, cause, role)
        self.role = role
        self.awaits_disk = False
        self.fetching.reset()
        if isinstance(before, Leader):
            self.effects.append(StopLeading(before.epoch))
            self._dismiss_waiting(before)

    def _dismiss_waiting(self, led: Leader) -> None:
        """Answer every request that waits for a leader that no longer leads."""
        error, epoch, leader = Error.NOT_LEADER_OR_FOLLOWER, self.election.epoch, self.leader
        for asker in led.tracker.dismiss():
            self.answer(asker, FetchResponse(error=error, epoch=epoch, leader=leader))
        for asker in led.changes.dismiss():
            text = "this node does not lead any more; look whether the change was recorded"
            self.answer_change(asker, error, text)
        for asker in () if led.transfer is None else led.transfer.askers:
            text = "this node lost the lead before it could hand it over; look who leads now"
            self.answer_change(asker, Error.FENCED_LEADER_EPOCH, text)
        if led.reads:
            tokens = tuple(token for group in led.reads for token in group.tokens)
            led.reads.clear()
            self.effects.append(AnswerReads(tokens, ReadRefusal.NOT_LEADER))

    def enter_epoch(self, epoch: Epoch, now_ms: int) -> None:
        """Enter a higher epoch, without a leader or a vote.

        A waiting node keeps its deadline: a candidate with a short log, which loses again and
        again, must not keep other voters from standing.
        """
        assert epoch > self.election.epoch
        self.election = ElectionState(epoch)
        role = self.role
        if isinstance(role, Follower | Leader):
            deadline_ms = self.next_election_ms(now_ms)
        else:
            deadline_ms = role.deadline_ms
        self.become(Unattached(deadline_ms), Cause.HIGHER_EPOCH)

    def learn(
        self,
        epoch: Epoch,
        leader: ReplicaId | None,
        now_ms: int,
        by: ReplicaId,
        *,
        is_known: bool = True,
    ) -> None:
        """Learn the epoch and the leader of the quorum from a message of `by`.

        See `may_enter` for `is_known`.
        """
        if epoch > self.election.epoch:
            if not self.may_enter(epoch, now_ms, is_known=is_known):
                return
            self.enter_epoch(epoch, now_ms)
        if leader is None or epoch < self.election.epoch or leader == self.me.id:
            return
        if self.election.leader not in (None, leader) or epoch == self.resigned_epoch:
            return  # It has resigned, and the sender does not know that yet.
        if isinstance(self.role, Unattached | Prospective | Candidate):
            if leader == self.election.leader != by and not self.is_promotable:
                return  # An observer that lost this leader believes only the leader itself.
            self.follow(leader, now_ms)

    def follow(self, leader: ReplicaId, now_ms: int) -> None:
        self.election = ElectionState(self.election.epoch, self.election.voted_for, leader)
        self.lost_elections = 0
        self.become(Follower(leader, self.next_fetch_timeout_ms(now_ms)), Cause.LEADER_FOUND)

    def hear(self, follower: Follower, now_ms: int) -> None:
        """Note a good answer of the leader."""
        follower.deadline_ms = self.next_fetch_timeout_ms(now_ms)
        follower.heard_ms, follower.lost = now_ms, False
        self.awaits_disk = False

    def stand_at(self, moment_ms: int | None) -> None:
        """Set the time at which this node stands unless it hears of a leader before."""
        role = self.role
        assert not isinstance(role, Leader), "a leader does not stand"
        if isinstance(role, Unattached | Resigned):
            role.deadline_ms = moment_ms
        else:
            assert moment_ms is not None
            role.deadline_ms = moment_ms

    def next_election_ms(self, now_ms: int) -> int | None:
        """Return a random time to stand in [t, 2t); None for a node that never stands."""
        if self.stopping or not self.is_promotable:
            return None
        timeout_ms = self.timeouts.election_timeout_ms
        return now_ms + timeout_ms + self.rng.randrange(timeout_ms)

    def next_fetch_timeout_ms(self, now_ms: int) -> int:
        jitter_ms = self.rng.randrange(self.timeouts.fetch_jitter_ms_max + 1)
        return now_ms + self.timeouts.fetch_timeout_ms + jitter_ms


def _displaced(me: ReplicaId) -> str:
    return (
        f"voter {me} is another directory than this one: the disk was replaced or wiped, or "
        "folders were exchanged, and what the voter has promised is not known here. This node "
        f"observes. To let it vote, take {me} out of the voters and then in again: "
        f"metaquorum metadata-quorum alter --voters, first without {me}, then with it"
    )

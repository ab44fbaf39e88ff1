"""The leader's state of a partition: follower progress, ISR proposals and the high watermark.

Pure: offsets, epochs and times come in as numbers. A leader proposes an ISR and the controller
commits it. While a proposal is in flight its outcome is unknown, so everything that must be safe
either way uses the *maximal* ISR: the union of the committed and the proposed one. At most one
proposal is in flight.

A follower enters a proposal only with the broker epoch of its own fetches, and only while the
metadata has the broker registered under that epoch (KIP-903): a broker that returns with an empty
disk is another incarnation, and what the previous one confirmed does not count.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from broker.limits import ALTER_PARTITION_RETRY_MS
from broker.partition.assignment import Assignment, LiveEpochs, Refusal
from statemachine.vocabulary import NO_EPOCH, RECOVERING, BrokerId, Replicas


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """An ISR that the leader asks the controller to commit, on top of what it knows committed."""

    isr: Replicas
    broker_epochs: tuple[int, ...]
    """Of each member; NO_EPOCH for one that is in the committed ISR and has not fetched yet."""
    leader_epoch: int
    partition_epoch: int

    def __str__(self) -> str:
        return f"ISR {list(self.isr)} after partition epoch {self.partition_epoch}"


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The controller's answer to a proposal that it made so."""

    isr: Replicas
    leader_epoch: int
    partition_epoch: int


class ProposalOutcome(Enum):
    """What follows from the answer to a proposal."""

    SETTLED = "the proposal is no longer under way"
    RETRY = "it is to be asked again, unchanged"
    AWAIT_METADATA = "it stays under way until the metadata says what became of it"


_REVERTED: Final = frozenset({107, 55})
"""INELIGIBLE_REPLICA and OPERATION_NOT_ATTEMPTED: surely not made so, on the right epochs."""
_AWAITED: Final = frozenset({3, 100, 74, 95, 42, 108})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,
INVALID_REQUEST, NEW_LEADER_ELECTED: the controller knows more than this leader does."""


@dataclass(slots=True)
class FollowerProgress:
    """What the leader knows of one follower in this leadership; times are the leader's clock."""

    broker_epoch: int | None = None
    """Of the incarnation that fetches, learned from its fetches; None until there was one."""
    log_end: int | None = None
    """What its last fetch confirmed; None until there was one that still says so."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    _goal_of_last_fetch: int = 0

    def fetched(self, broker_epoch: int, offset: int, leader_end: int, now_ms: int) -> None:
        if self.broker_epoch is not None and broker_epoch != self.broker_epoch:
            # Another incarnation: that the one before kept up says nothing of this one.
            self.last_fetch_ms = self.last_caught_up_ms = None
        # It has caught up now if it has all there is, and had caught up when it last asked if it
        # has all there was then.
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and offset >= self._goal_of_last_fetch:
            self.last_caught_up_ms = self.last_fetch_ms
        self.broker_epoch = broker_epoch
        self.log_end = offset
        self.last_fetch_ms = now_ms
        self._goal_of_last_fetch = leader_end

    def keeps_up(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        if self.log_end == leader_end:
            return True
        return self.last_caught_up_ms is not None and now_ms - self.last_caught_up_ms <= lag_ms_max


class LeaderState:
    """One leadership of one partition, from becoming leader to the next leader epoch.

    Invariants: the high watermark never falls, never exceeds what this broker has written, and
    only ever rose to an offset that every member of the maximal ISR had confirmed.
    """

    __slots__ = (
        "_followers",
        "_lag_ms_max",
        "_me",
        "_not_before_ms",
        "_told_epoch",
        "assignment",
        "epoch_start",
        "high_watermark",
        "log_end",
        "pending",
        "written",
    )

    def __init__(
        self,
        me: BrokerId,
        assignment: Assignment,
        *,
        log_end: int,
        written: int,
        high_watermark: int,
        now_ms: int,
        lag_ms_max: int,
    ) -> None:
        assert assignment.leader == me
        assert high_watermark <= written <= log_end
        self._me = me
        self._lag_ms_max = lag_ms_max
        self.assignment = assignment
        self._told_epoch = assignment.partition_epoch
        """The last partition epoch that the metadata has told, and not an answer."""
        self.epoch_start = log_end
        """The first offset of this leadership."""
        self.log_end = log_end
        self.written = written
        """Below it everything has been written by this broker; the rest is only in memory."""
        self.high_watermark = high_watermark
        self.pending: IsrProposal | None = None
        self._not_before_ms = 0
        self._followers: dict[BrokerId, FollowerProgress] = {}
        self._know_followers(assignment, now_ms)

    # --- what happens to it ------------------------------------------------------------------

    def update(self, assignment: Assignment, now_ms: int) -> None:
        """The metadata says something new of this partition, and this broker still leads it.

        A change that this leader knows already, from the answer to its own proposal, is not news.
        """
        assert assignment.leader == self._me
        if assignment.partition_epoch < self.assignment.partition_epoch:
            return
        if assignment.leader_epoch > self.assignment.leader_epoch:
            self.epoch_start = self.log_end
        if assignment.partition_epoch > self.assignment.partition_epoch:
            # Whatever was proposed was proposed on top of something that is now history.
            self.pending = None
        self.assignment = assignment
        if assignment.partition_epoch > self._told_epoch + 1:
            # Who was removed and brought back meanwhile has removed its log as well: what anybody
            # had confirmed is confirmed by the next fetch, or not at all.
            for progress in self._followers.values():
                progress.log_end = None
        self._told_epoch = assignment.partition_epoch
        self._know_followers(assignment, now_ms)

    def appended(self, log_end: int) -> None:
        """The log has grown, and can be fetched up to there."""
        assert log_end >= self.log_end
        self.log_end = log_end

    def wrote(self, written: int) -> None:
        """Everything below `written` has been handed to the operating system."""
        assert self.written <= written <= self.log_end
        self.written = written

    def fetched(
        self,
        follower: BrokerId,
        *,
        broker_epoch: int,
        offset: int,
        now_ms: int,
        live: LiveEpochs,
    ) -> Refusal | None:
        """A follower asks for what follows `offset`, and so confirms everything below it.

        The two logs are known to agree up to there. Refused are strangers, and incarnations that
        are over: their confirmations would be taken for those of the one that came after.
        """
        progress = self._followers.get(follower)
        if progress is None:
            return Refusal.NOT_LEADER_OR_FOLLOWER
        registered = live.get(follower)
        if registered is not None and broker_epoch < registered:
            return Refusal.STALE_BROKER_EPOCH
        if progress.broker_epoch is not None and broker_epoch < progress.broker_epoch:
            return Refusal.STALE_BROKER_EPOCH
        if not 0 <= offset <= self.log_end:
            return Refusal.OFFSET_OUT_OF_RANGE
        progress.fetched(broker_epoch, offset, self.log_end, now_ms)
        return None

    def heard(self, follower: BrokerId, now_ms: int) -> None:
        """A follower asked, but its log parts from this one: that confirms nothing."""
        progress = self._followers.get(follower)
        if progress is not None:
            progress.last_fetch_ms = now_ms

    # --- what is committed -------------------------------------------------------------------

    @property
    def isr(self) -> Replicas:
        """The committed ISR."""
        return self.assignment.isr

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        """Everyone who may be in the ISR, whatever became of the proposal under way."""
        if self.pending is None:
            return frozenset(self.assignment.isr)
        return frozenset(self.assignment.isr) | frozenset(self.pending.isr)

    @property
    def is_settled(self) -> bool:
        """Whether all replicas are in sync and all there is is committed: nothing can change."""
        is_full = len(self.assignment.isr) == len(self.assignment.replicas)
        return is_full and self.high_watermark == self.log_end

    @property
    def under_min_isr(self) -> bool:
        return len(self.assignment.isr) < self.assignment.min_isr

    @property
    def knows_committed(self) -> bool:
        """Whether the high watermark has reached this leadership, and so is surely not behind.

        Until then a consumer must not be told where the log "ends" (KIP-207).
        """
        return self.high_watermark >= self.epoch_start

    def advance(self, now_ms: int, live: LiveEpochs) -> bool:
        """Raise the high watermark as far as it may go; returns whether it rose.

        It stands still while the ISR is below min ISR: replicas that left the ISR then may still
        be elected from the ELR, because they have everything up to there (KIP-966). A follower
        that has just caught up and is about to be proposed is waited for, or it would have to
        catch up with a moving goal.
        """
        if self.under_min_isr:
            return False
        reached = self.written
        maximal = self.maximal_isr
        for broker, progress in self._followers.items():
            if broker in maximal:
                if progress.log_end is None:
                    return False
                reached = min(reached, progress.log_end)
            elif self._may_join(broker, progress, now_ms, live):
                assert progress.log_end is not None
                reached = min(reached, progress.log_end)
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    # --- who is in sync ----------------------------------------------------------------------

    def propose(self, own_epoch: int, now_ms: int, live: LiveEpochs) -> IsrProposal | None:
        """The ISR to ask for now, if there is something to say; it is under way from here on.

        Shrinking goes first: one follower that cannot join must not keep a dead one in. A leader
        has recovered once its log is open, and says so even if nobody can join it (KIP-704).
        """
        if self.pending is not None or now_ms < self._not_before_ms:
            return None
        isr = self._shrunk(now_ms)
        if isr == self.assignment.isr:
            isr = self._expanded(now_ms, live)
        is_news = isr != self.assignment.isr or self.assignment.recovery == RECOVERING
        if not is_news or not self._are_current(isr, live):
            return None
        self.pending = IsrProposal(
            isr=isr,
            broker_epochs=tuple(self._epoch_of(each, own_epoch) for each in isr),
            leader_epoch=self.assignment.leader_epoch,
            partition_epoch=self.assignment.partition_epoch,
        )
        return self.pending

    def on_committed(self, proposal: IsrProposal, answer: CommittedIsr) -> ProposalOutcome:
        """The controller has committed `proposal`, or found that it had done so before."""
        if proposal is not self.pending:
            return ProposalOutcome.SETTLED  # The metadata has overtaken the answer.
        if answer.leader_epoch != self.assignment.leader_epoch:
            return ProposalOutcome.AWAIT_METADATA
        if answer.partition_epoch < self.assignment.partition_epoch or self._me not in answer.isr:
            return ProposalOutcome.AWAIT_METADATA
        self.pending = None
        before = self.assignment
        self.assignment = Assignment(
            # A replica that is in the ISR and not among our replicas was assigned since: the
            # metadata will say so, and until then it counts for nothing here.
            replicas=before.replicas,
            isr=tuple(each for each in answer.isr if each in before.replicas),
            leader=before.leader,
            leader_epoch=before.leader_epoch,
            partition_epoch=answer.partition_epoch,
            min_isr=before.min_isr,
        )
        return ProposalOutcome.SETTLED

    def on_refused(self, proposal: IsrProposal, error_code: int, now_ms: int) -> ProposalOutcome:
        """The controller answered `proposal` with an error, or nobody answered (`error_code` -1).

        Only two errors say for certain that the proposal was not committed by anyone; then the
        committed ISR is all there is again. Every other one leaves that open.
        """
        if proposal is not self.pending:
            return ProposalOutcome.SETTLED
        if error_code in _REVERTED:
            self.pending = None
            self._not_before_ms = now_ms + ALTER_PARTITION_RETRY_MS
            return ProposalOutcome.SETTLED
        return ProposalOutcome.AWAIT_METADATA if error_code in _AWAITED else ProposalOutcome.RETRY

    def progress_of(self, follower: BrokerId) -> FollowerProgress | None:
        """What is known of one follower; None for those that are not replicas."""
        return self._followers.get(follower)

    # --- inside ------------------------------------------------------------------------------

    def _know_followers(self, assignment: Assignment, now_ms: int) -> None:
        for removed in self._followers.keys() - set(assignment.replicas):
            del self._followers[removed]
        for replica in assignment.replicas:
            if replica == self._me:
                continue
            if replica not in self._followers:
                self._followers[replica] = FollowerProgress()
            if replica in assignment.isr:
                # Members of the ISR get the whole lag time to fetch from a new leader.
                progress = self._followers[replica]
                if progress.last_caught_up_ms is None and progress.last_fetch_ms is None:
                    progress.last_caught_up_ms = now_ms

    def _shrunk(self, now_ms: int) -> Replicas:
        return tuple(
            each
            for each in self.assignment.isr
            if each == self._me
            or self._followers[each].keeps_up(self.log_end, now_ms, self._lag_ms_max)
        )

    def _expanded(self, now_ms: int, live: LiveEpochs) -> Replicas:
        isr = self.assignment.isr
        joining = tuple(
            each
            for each in self.assignment.replicas
            if each not in (*isr, self._me)
            and self._in_sync(self._followers[each])
            and self._followers[each].keeps_up(self.log_end, now_ms, self._lag_ms_max)
            and self._is_incarnation(each, self._followers[each], live)
        )
        return isr + joining

    def _in_sync(self, progress: FollowerProgress) -> bool:
        """Whether a follower has everything committed, and something to show of this leadership.

        Without the second a follower could join a new leader whose high watermark is still
        behind, and lack what was committed under the leader before (KAFKA-7128).
        """
        end = progress.log_end
        return end is not None and end >= self.high_watermark and end >= self.epoch_start

    def _are_current(self, isr: Replicas, live: LiveEpochs) -> bool:
        """Whether no member is known by a broker epoch that the metadata does not know it by.

        A member that has not fetched from this leader yet is let pass: it is in the committed ISR,
        which the controller itself takes it out of when its incarnation ends.
        """
        return all(
            each == self._me
            or self._followers[each].broker_epoch is None
            or self._is_incarnation(each, self._followers[each], live)
            for each in isr
        )

    def _is_incarnation(
        self, broker: BrokerId, progress: FollowerProgress, live: LiveEpochs
    ) -> bool:
        return progress.broker_epoch is not None and live.get(broker) == progress.broker_epoch

    def _may_join(
        self, broker: BrokerId, progress: FollowerProgress, now_ms: int, live: LiveEpochs
    ) -> bool:
        return (
            progress.log_end is not None
            and self._is_incarnation(broker, progress, live)
            and progress.keeps_up(self.log_end, now_ms, self._lag_ms_max)
        )

    def _epoch_of(self, broker: BrokerId, own_epoch: int) -> int:
        if broker == self._me:
            return own_epoch
        epoch = self._followers[broker].broker_epoch
        if epoch is None:
            assert broker in self.assignment.isr, f"{broker} may not join: it never fetched"
            return NO_EPOCH
        return epoch

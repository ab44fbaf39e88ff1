"""The leader's state of a partition: follower progress, ISR proposals and the high watermark.

Pure: offsets, epochs and times come in as numbers. A leader proposes an ISR and the controller
commits it. While a proposal is in flight its outcome is unknown, so everything that must be safe
either way uses the *maximal* ISR: the union of the committed and the proposed one. At most one
proposal is in flight.

A follower enters a proposal only with the broker epoch of its own fetches, and only while the
metadata has the broker registered under that epoch (KIP-903): a broker that returns with an empty
disk is another incarnation, and what the previous one confirmed does not count.
"""

from dataclasses import dataclass, replace
from typing import Final

from broker.limits import ALTER_PARTITION_RETRY_MS
from broker.partition.assignment import Assignment, LiveEpochs
from quorum.protocol.errors import ErrorCode
from statemachine.vocabulary import NO_EPOCH, RECOVERED, RECOVERING, BrokerId, Replicas


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """An ISR that the leader asks the controller to commit, based on the last committed one."""

    isr: Replicas
    broker_epochs: tuple[int, ...]
    """The broker epoch of each member; NO_EPOCH for a member that has not fetched yet."""
    leader_epoch: int
    partition_epoch: int

    def __str__(self) -> str:
        return f"ISR {list(self.isr)} after partition epoch {self.partition_epoch}"


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The controller's answer to a proposal that it committed."""

    isr: Replicas
    leader_epoch: int
    partition_epoch: int


_REVERTED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Errors that prove that the proposal was not committed, on the right epochs."""
_AWAITED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors of a controller that knows more than this leader does."""


@dataclass(slots=True)
class FollowerProgress:
    """One follower's progress in this leadership; times are by the leader's clock."""

    broker_epoch: int | None = None
    """The broker epoch of its fetches; None before the first one."""
    log_end: int | None = None
    """The offset that its last fetch confirmed; None while no fetch counts."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    _goal_of_last_fetch: int = 0

    def fetched(self, broker_epoch: int, offset: int, leader_end: int, now_ms: int) -> None:
        if self.broker_epoch is not None and broker_epoch != self.broker_epoch:
            # Another incarnation: the progress of the previous one does not count.
            self.last_fetch_ms = self.last_caught_up_ms = None
        # Caught up now: it has everything. Caught up at its last fetch: it has everything there was
        # at that time.
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
    """One leadership, from the election to the next leader epoch.

    Invariants: the high watermark never falls, never exceeds what this broker has written, and only
    rises to offsets that every member of the maximal ISR has confirmed.
    """

    __slots__ = (
        "_lag_ms_max",
        "_me",
        "_metadata_epoch",
        "_not_before_ms",
        "assignment",
        "epoch_start",
        "followers",
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
        self._metadata_epoch = assignment.partition_epoch
        """The last partition epoch from the metadata log, as opposed to an answer."""
        self.epoch_start = log_end
        """The first offset of this leadership."""
        self.log_end = log_end
        self.written = written
        """The end of what this broker has written; the rest is only in memory."""
        self.high_watermark = high_watermark
        self.pending: IsrProposal | None = None
        self._not_before_ms = 0
        self.followers: dict[BrokerId, FollowerProgress] = {}
        """The other replicas."""
        self._update_followers(assignment, now_ms)

    # --- assignments, appends and fetches -----------------------------------------------------

    def update(self, assignment: Assignment, now_ms: int) -> None:
        """Apply an assignment in which this broker still leads.

        An assignment that an answer to a proposal already brought changes nothing.
        """
        assert assignment.leader == self._me
        if assignment.partition_epoch < self.assignment.partition_epoch:
            return
        if assignment.leader_epoch > self.assignment.leader_epoch:
            self.epoch_start = self.log_end
        if assignment.partition_epoch > self.assignment.partition_epoch:
            # The proposal was based on an older partition epoch.
            self.pending = None
        self.assignment = assignment
        if assignment.partition_epoch > self._metadata_epoch + 1:
            # A replica that was removed and added again meanwhile has deleted its log: only its
            # next fetch confirms anything.
            for progress in self.followers.values():
                progress.log_end = None
        self._metadata_epoch = assignment.partition_epoch
        self._update_followers(assignment, now_ms)

    def appended(self, log_end: int) -> None:
        """Note that the log can be fetched up to `log_end`."""
        assert log_end >= self.log_end
        self.log_end = log_end

    def wrote(self, written: int) -> None:
        """Note that everything below `written` was handed to the operating system."""
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
    ) -> ErrorCode | None:
        """Record a fetch from `offset`, which confirms everything below it.

        The logs are known to agree up to `offset`. Refuse brokers that are not replicas and old
        incarnations: their confirmations would count for the next incarnation.
        """
        progress = self.followers.get(follower)
        if progress is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        registered = live.get(follower)
        if registered is not None and broker_epoch < registered:
            return ErrorCode.STALE_BROKER_EPOCH
        if progress.broker_epoch is not None and broker_epoch < progress.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if not 0 <= offset <= self.log_end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        progress.fetched(broker_epoch, offset, self.log_end, now_ms)
        return None

    def heard(self, follower: BrokerId, now_ms: int) -> None:
        """Record a fetch of a follower whose log diverges: it confirms nothing."""
        progress = self.followers.get(follower)
        if progress is not None:
            progress.last_fetch_ms = now_ms

    # --- the high watermark -------------------------------------------------------------------

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        """The brokers that may be in the ISR, whatever becomes of the proposal in flight."""
        if self.pending is None:
            return frozenset(self.assignment.isr)
        return frozenset(self.assignment.isr) | frozenset(self.pending.isr)

    @property
    def is_settled(self) -> bool:
        """Return whether all replicas are in sync and everything is committed."""
        is_full = len(self.assignment.isr) == len(self.assignment.replicas)
        return is_full and self.high_watermark == self.log_end

    @property
    def under_min_isr(self) -> bool:
        return len(self.assignment.isr) < self.assignment.min_isr

    @property
    def knows_committed(self) -> bool:
        """Return whether the high watermark has reached this leadership.

        Until then a consumer must not learn the end of the log (KIP-207).
        """
        return self.high_watermark >= self.epoch_start

    def advance(self, now_ms: int, live: LiveEpochs) -> bool:
        """Advance the high watermark; return whether it rose.

        It stands still while the ISR is below min ISR: replicas that left the ISR then remain
        electable from the ELR because they have everything up to it (KIP-966). A caught-up follower
        that is about to join holds it back too; otherwise the follower would chase a moving target.
        """
        if self.under_min_isr:
            return False
        reached = self.written
        maximal = self.maximal_isr
        for broker, progress in self.followers.items():
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

    # --- the ISR ------------------------------------------------------------------------------

    def propose(self, own_epoch: int, now_ms: int, live: LiveEpochs) -> IsrProposal | None:
        """Return the ISR to propose now, or None; the proposal is in flight from here on.

        Shrinking goes first: a follower that cannot join must not keep a dead one in. A leader has
        recovered once its log is open, and proposes that even if no follower can join (KIP-704).
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

    def on_committed(self, proposal: IsrProposal, answer: CommittedIsr) -> None:
        """Apply the controller's answer that `proposal` is committed.

        The proposal stays in flight if the answer is about another leadership or an older state:
        the metadata will show the outcome.
        """
        if proposal is not self.pending:
            return  # The metadata has overtaken the answer.
        before = self.assignment
        if answer.leader_epoch != before.leader_epoch or self._me not in answer.isr:
            return
        if answer.partition_epoch < before.partition_epoch:
            return
        self.pending = None
        # A member that is not among our replicas was assigned since. The metadata will bring it;
        # until then it does not count here.
        isr = tuple(each for each in answer.isr if each in before.replicas)
        self.assignment = replace(
            before, isr=isr, partition_epoch=answer.partition_epoch, recovery=RECOVERED
        )

    def on_refused(self, proposal: IsrProposal, error_code: int, now_ms: int) -> bool:
        """Apply an error of the controller, or no answer (`error_code` -1).

        Only two errors prove that the proposal was not committed; then the committed ISR alone
        counts again. Every other error leaves the outcome open: return whether to send the proposal
        again, or else wait until the metadata shows the outcome.
        """
        if proposal is not self.pending:
            return False
        if error_code in _REVERTED:
            self.pending = None
            self._not_before_ms = now_ms + ALTER_PARTITION_RETRY_MS
            return False
        return error_code not in _AWAITED

    # --- inside -------------------------------------------------------------------------------

    def _update_followers(self, assignment: Assignment, now_ms: int) -> None:
        for removed in self.followers.keys() - set(assignment.replicas):
            del self.followers[removed]
        for replica in assignment.replicas:
            if replica == self._me:
                continue
            if replica not in self.followers:
                self.followers[replica] = FollowerProgress()
            if replica in assignment.isr:
                # Members of the ISR get the whole lag time to fetch from a new leader.
                progress = self.followers[replica]
                if progress.last_caught_up_ms is None and progress.last_fetch_ms is None:
                    progress.last_caught_up_ms = now_ms

    def _shrunk(self, now_ms: int) -> Replicas:
        return tuple(
            each
            for each in self.assignment.isr
            if each == self._me
            or self.followers[each].keeps_up(self.log_end, now_ms, self._lag_ms_max)
        )

    def _expanded(self, now_ms: int, live: LiveEpochs) -> Replicas:
        isr = self.assignment.isr
        joining = tuple(
            each
            for each in self.assignment.replicas
            if each not in (*isr, self._me)
            and self._in_sync(self.followers[each])
            and self._may_join(each, self.followers[each], now_ms, live)
        )
        return isr + joining

    def _in_sync(self, progress: FollowerProgress) -> bool:
        """Return whether a follower has everything committed and a record of this leadership.

        Without the second condition a follower could join a new leader whose high watermark is
        still behind, and lack records committed under the previous leader (KAFKA-7128).
        """
        end = progress.log_end
        return end is not None and end >= self.high_watermark and end >= self.epoch_start

    def _are_current(self, isr: Replicas, live: LiveEpochs) -> bool:
        """Return whether the metadata has each member registered under the epoch of its fetches.

        A member that has not fetched from this leader passes: it is in the committed ISR, and the
        controller removes it when its incarnation ends.
        """
        return all(
            each == self._me
            or self.followers[each].broker_epoch is None
            or self._is_incarnation(each, self.followers[each], live)
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
        epoch = self.followers[broker].broker_epoch
        if epoch is None:
            assert broker in self.assignment.isr, f"{broker} may not join: it never fetched"
            return NO_EPOCH
        return epoch

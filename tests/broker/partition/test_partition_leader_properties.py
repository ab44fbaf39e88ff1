"""Properties of a partition leader that hold after any events in any order.

The test keeps its own account beside the leader: the registered brokers with their epochs, the
actual log end of each replica, and the ISR that the controller has committed. The controller here
implements the rules of KIP-903 by itself.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.partition.assignment import Assignment
from broker.partition.leader import CommittedIsr, IsrProposal, LeaderState
from quorum.protocol.errors import ErrorCode
from statemachine.vocabulary import NO_EPOCH
from tests.support.parameters import at_most_in_quick

ME = 1
FOLLOWERS = (2, 3, 4)
LAG_MS = 100


class LeaderMachine(RuleBasedStateMachine):
    """Broker 1 leads a partition with three followers."""

    @initialize(min_isr=st.integers(1, 3))
    def begin(self, min_isr: int) -> None:
        self.now_ms = 1
        self.registered = {each: 10 + each for each in (ME, *FOLLOWERS)}
        self.live = dict(self.registered)
        """The metadata that the leader sees; it may be behind."""
        self.committed_isr: tuple[int, ...] = (ME, 2)
        self.partition_epoch = 0
        self.ends = dict.fromkeys(FOLLOWERS, 0)
        self.min_isr = min_isr
        self.waiting: list[IsrProposal] = []
        self.leader = LeaderState(
            ME,
            self.assignment(),
            log_end=0,
            written=0,
            high_watermark=0,
            now_ms=0,
            lag_ms_max=LAG_MS,
        )
        self.highest = 0

    def assignment(self) -> Assignment:
        return Assignment(
            replicas=(ME, *FOLLOWERS),
            isr=self.committed_isr,
            leader=ME,
            leader_epoch=3,
            partition_epoch=self.partition_epoch,
            min_isr=self.min_isr,
        )

    # What happens.

    @rule(count=st.integers(1, 5), is_written=st.booleans())
    def append(self, count: int, is_written: bool) -> None:
        self.leader.appended(self.leader.log_end + count)
        if is_written:
            self.leader.wrote(self.leader.log_end)

    @rule(wait_ms=st.integers(1, LAG_MS))
    def time_passes(self, wait_ms: int) -> None:
        self.now_ms += wait_ms

    @rule(follower=st.sampled_from(FOLLOWERS), share=st.floats(0, 1), knows_epoch=st.booleans())
    def follower_fetches(self, follower: int, share: float, knows_epoch: bool) -> None:
        """It has copied some of what it lacked, and says so."""
        lacking = self.leader.log_end - self.ends[follower]
        self.ends[follower] += round(max(0, lacking) * share)
        epoch = self.registered[follower] if knows_epoch else NO_EPOCH
        refusal = self.leader.fetched(
            follower,
            broker_epoch=epoch,
            offset=self.ends[follower],
            now_ms=self.now_ms,
            live=self.live,
        )
        assert refusal in (None, ErrorCode.STALE_BROKER_EPOCH)
        if knows_epoch:
            assert refusal is None

    @rule(follower=st.sampled_from(FOLLOWERS), keeps=st.floats(0, 1))
    def follower_restarts(self, follower: int, keeps: float) -> None:
        """It comes back as another incarnation, with less; the controller knows at once."""
        self.registered[follower] += 10
        self.ends[follower] = round(self.ends[follower] * keeps)
        if follower in self.committed_isr:
            self.committed_isr = tuple(each for each in self.committed_isr if each != follower)
            self.partition_epoch += 1

    @rule()
    def metadata_catches_up(self) -> None:
        self.live = dict(self.registered)
        self.leader.update(self.assignment(), self.now_ms)

    @rule()
    def review(self) -> None:
        proposal = self.leader.propose(self.registered[ME], self.now_ms, self.live)
        if proposal is not None:
            self.check(proposal)
            self.waiting.append(proposal)
        self.leader.advance(self.now_ms, self.live)

    @precondition(lambda self: self.waiting)
    @rule(is_lost=st.booleans(), data=st.data())
    def controller_decides(self, is_lost: bool, data: st.DataObject) -> None:
        proposal = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        code = self.refusal_of(proposal)
        if code == 0:
            self.committed_isr = proposal.isr
            self.partition_epoch += 1
        if is_lost:
            # The answer never comes: the proposal is asked again, unchanged.
            if self.leader.on_refused(proposal, -1, self.now_ms):
                self.waiting.append(proposal)
        elif code == 0:
            answer = CommittedIsr(self.committed_isr, 3, self.partition_epoch)
            self.leader.on_committed(proposal, answer)
        else:
            self.leader.on_refused(proposal, code, self.now_ms)

    def refusal_of(self, proposal: IsrProposal) -> int:
        """The order of checks of the controller, as far as they matter here."""
        if proposal.partition_epoch != self.partition_epoch:
            return 95
        members = zip(proposal.isr, proposal.broker_epochs, strict=True)
        if any(epoch not in (NO_EPOCH, self.registered[each]) for each, epoch in members):
            return 107
        return 0

    # What must hold.

    def check(self, proposal: IsrProposal) -> None:
        known = dict(zip(proposal.isr, proposal.broker_epochs, strict=True))
        assert known[ME] == self.registered[ME]
        for follower, epoch in known.items():
            joins = follower not in self.leader.assignment.isr
            # KIP-903: nobody joins but by the epoch of its own fetches, which the metadata shares.
            if joins or epoch != NO_EPOCH:
                assert epoch == self.live[follower]
        assert proposal is self.leader.pending

    @invariant()
    def the_high_watermark_never_falls(self) -> None:
        assert self.leader.high_watermark >= self.highest

    @invariant()
    def what_rose_was_confirmed_by_everyone_who_may_be_in_sync(self) -> None:
        leader = self.leader
        if leader.high_watermark > self.highest:
            assert leader.high_watermark <= leader.written
            assert not leader.under_min_isr
            for member in leader.maximal_isr - {ME}:
                progress = leader.followers.get(member)
                assert progress is not None
                assert progress.log_end is not None
                assert leader.high_watermark <= progress.log_end
        self.highest = leader.high_watermark

    @invariant()
    def the_committed_isr_is_within_what_the_leader_reckons_with(self) -> None:
        """Unless the metadata has moved on, which the leader will learn."""
        if self.leader.assignment.partition_epoch == self.partition_epoch:
            assert self.leader.assignment.isr == self.committed_isr
        elif self.leader.pending is not None and self.partition_epoch == (
            self.leader.assignment.partition_epoch + 1
        ):
            assert set(self.committed_isr) <= set(self.leader.maximal_isr)


TestLeaderMachine = LeaderMachine.TestCase
TestLeaderMachine.settings = settings(
    max_examples=at_most_in_quick(100), stateful_step_count=40, deadline=None
)

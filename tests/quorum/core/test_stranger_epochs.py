"""Messages of strangers change neither the epoch nor the leader of a quorum.

The voters' directories are in the log, so a name alone is not a voter.
"""

import random
from uuid import UUID

from quorum.core.effects import Answer, Warn
from quorum.core.events import (
    Asker,
    Event,
    RequestReceived,
    RequestTimedOut,
    ResponseReceived,
    Tick,
)
from quorum.core.limits import EPOCH_LEAP_MAX, EPOCH_LEAP_REFILL_MS, EPOCH_MAX, Timeouts
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorum.core.node import QuorumNode
from quorum.core.raft_log import RaftLog
from quorum.core.roles import Follower, Leader, Unattached
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import Voter, VoterSet
from tests.quorum.core.test_quorum_node import sent

TIMEOUTS = Timeouts()
ONE, TWO, THREE = (ReplicaKey(ReplicaId(each), UUID(int=each)) for each in (1, 2, 3))
STRANGER = ReplicaKey(ReplicaId(99), UUID(int=99))
FAR = OffsetAndEpoch(Epoch(0), Offset(1 << 40))


def node(epoch: int = 0) -> QuorumNode:
    return QuorumNode(
        ONE,
        VoterSet(tuple(map(Voter, (ONE, TWO, THREE)))),
        election=ElectionState(Epoch(epoch)),
        log=RaftLog(Offset(0), Offset(0), ()),
        timeouts=TIMEOUTS,
        rng=random.Random(7),
        now_ms=0,
    )


def ask(voter: QuorumNode, request: Request, now_ms: int) -> Response:
    effects = voter.step(RequestReceived(Asker(1), request), now_ms=now_ms)
    (answer,) = [each for each in effects if isinstance(each, Answer)]
    return answer.response


def vote(candidate: ReplicaKey, epoch: int, *, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(epoch=Epoch(epoch), candidate=candidate, log_end=FAR, pre_vote=pre_vote)


def leader() -> QuorumNode:
    """Voter 1, leader of epoch 1 by the vote of 2, at 2,000 ms."""
    led = node()
    led.step(Tick(), now_ms=0)
    effects = led.step(Tick(), now_ms=2_000)
    for _ in ("pre-vote", "vote"):
        granted = VoteResponse(epoch=led.epoch, granted=True)
        event = ResponseReceived(TWO.id, sent(effects)[0].correlation, granted)
        effects = led.step(event, now_ms=2_000)
    assert isinstance(led.role, Leader)
    return led


def begin(epoch: int, leader: ReplicaKey, to: ReplicaKey | None) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(epoch=Epoch(epoch), leader=leader.id, voter=to)


def follower() -> QuorumNode:
    """Voter 1, which has just heard its leader 2 in epoch 1."""
    voter = node()
    effects = voter.step(RequestReceived(Asker(1), begin(1, TWO, ONE)), now_ms=0)
    answer = FetchResponse(epoch=Epoch(1), leader=TWO.id)
    voter.step(ResponseReceived(TWO.id, sent(effects)[-1].correlation, answer), now_ms=0)
    assert isinstance(voter.role, Follower)
    assert voter.role.heard_ms == 0
    return voter


def test_a_stranger_deposes_nobody_while_the_leader_is_heard() -> None:
    """Neither a Vote nor a pre-vote nor a Fetch of a higher epoch, of an unknown replica or in the
    name of a voter."""
    nameless = ReplicaKey(TWO.id)
    other = ReplicaKey(TWO.id, UUID(int=22))
    for stranger in (STRANGER, nameless, other):
        for voter, now_ms in ((leader(), 2_001), (follower(), 1)):
            before = voter.role
            requests = (
                vote(stranger, 1 << 20),
                vote(stranger, 1 << 20, pre_vote=True),
                FetchRequest(
                    replica=stranger,
                    epoch=Epoch(1 << 20),
                    log_end=OffsetAndEpoch(Epoch(0), Offset(0)),
                    max_wait_ms=0,
                    max_bytes=1,
                ),
            )
            for request in requests:
                answer = ask(voter, request, now_ms)
                assert not isinstance(answer, VoteResponse) or not answer.granted
            assert voter.epoch == 1
            assert voter.role is before


def test_an_observer_believes_no_announcement_that_does_not_name_its_directory() -> None:
    """A leader announces itself to voters only, and has their directories: an epoch far ahead
    would keep an observer from its leader, and so would a resignation."""
    observer = QuorumNode(
        STRANGER,
        VoterSet(tuple(map(Voter, (ONE, TWO, THREE)))),
        election=ElectionState(Epoch(1), leader=TWO.id),
        log=RaftLog(Offset(0), Offset(0), ()),
        timeouts=TIMEOUTS,
        rng=random.Random(7),
        now_ms=0,
    )
    before = observer.role
    for to in (None, ReplicaKey(STRANGER.id), ReplicaKey(STRANGER.id, UUID(int=98))):
        for forged in (
            begin(1 << 20, TWO, to),
            EndQuorumEpochRequest(epoch=Epoch(1), leader=TWO.id, preferred_successors=(), voter=to),
        ):
            assert ask(observer, forged, 1).error
            assert (observer.epoch, observer.role) == (1, before)
    assert not ask(observer, begin(2, THREE, STRANGER), 1).error
    assert (observer.epoch, observer.leader) == (2, THREE.id)


def test_a_voter_may_raise_the_epoch_at_any_time() -> None:
    for voter, now_ms in ((leader(), 2_001), (follower(), 1)):
        ask(voter, vote(TWO, 2), now_ms)
        assert voter.epoch == 2


def test_a_replica_that_the_log_does_not_name_is_believed_when_nobody_leads_but_seldom() -> None:
    """It may be a voter whose addition has not come here yet."""
    voter, pause_ms = node(), 2 * TIMEOUTS.election_timeout_ms
    response = ask(voter, vote(STRANGER, 1), 0)
    assert isinstance(response, VoteResponse)
    assert response.granted
    for now_ms in range(0, pause_ms, 100):
        ask(voter, vote(STRANGER, voter.epoch + 1), now_ms)
        assert voter.epoch == 1
    ask(voter, vote(STRANGER, 2), pause_ms)
    assert voter.epoch == 2


def test_strangers_do_not_keep_a_voter_from_standing() -> None:
    """A pre-vote of theirs delays no election."""
    voter = node()
    deadline_ms = voter.deadline_ms
    assert deadline_ms is not None
    for now_ms in range(0, deadline_ms, 50):
        ask(voter, vote(STRANGER, 1, pre_vote=True), now_ms)
    assert voter.deadline_ms == deadline_ms


def test_all_that_voters_add_to_the_epoch_is_bounded() -> None:
    """128 votes, each of 2^24 more epochs, have used up all that there are."""
    voter = node()
    for now_ms in range(128):
        ask(voter, vote(TWO, voter.epoch + EPOCH_LEAP_MAX), now_ms)
    assert voter.epoch == EPOCH_LEAP_MAX
    ask(voter, vote(TWO, voter.epoch + 1), 128 + EPOCH_LEAP_REFILL_MS)
    assert voter.epoch == EPOCH_LEAP_MAX + 1


def test_nobody_stands_after_the_last_epoch() -> None:
    voter, warnings = node(EPOCH_MAX), set[Warn]()
    for _ in range(30):
        deadline_ms = voter.deadline_ms
        assert deadline_ms is not None
        effects = voter.step(Tick(), now_ms=deadline_ms)
        warnings |= {each for each in effects if isinstance(each, Warn)}
        assert isinstance(voter.role, Unattached)
        assert voter.epoch == EPOCH_MAX
    assert warnings == {Warn("epoch 2147483647 is the last one: nobody can be elected any more")}


def test_only_a_voter_that_names_our_directory_announces_itself() -> None:
    for announced in (
        begin(5, STRANGER, ONE),
        begin(5, TWO, None),
        begin(5, TWO, ReplicaKey(ONE.id)),
    ):
        voter = follower()
        assert ask(voter, announced, 1).error is Error.INVALID_REQUEST
        assert voter.epoch == 1
        assert voter.leader == TWO.id
    voter = follower()
    assert ask(voter, begin(5, THREE, ONE), 1).error is Error.NONE
    assert (voter.epoch, voter.leader) == (5, THREE.id)


def test_only_a_leader_that_names_our_directory_resigns() -> None:
    def end(to: ReplicaKey | None) -> EndQuorumEpochRequest:
        return EndQuorumEpochRequest(
            epoch=Epoch(1), leader=TWO.id, preferred_successors=(ONE.id, THREE.id), voter=to
        )

    voter = follower()
    assert ask(voter, end(None), 1).error is Error.INVALID_REQUEST
    assert voter.leader == TWO.id
    assert ask(voter, end(ONE), 1).error is Error.NONE
    assert voter.leader is None


def test_a_leader_that_only_sends_what_cannot_be_is_soon_replaced() -> None:
    """Offers of snapshots, refused or never sent, divergences that leave the log as it is, and
    what cannot be read. It is not asked at once again, either."""
    in_part = FetchSnapshotResponse(
        error=Error.SNAPSHOT_NOT_FOUND,
        epoch=Epoch(1),
        leader=TWO.id,
        snapshot=OffsetAndEpoch(Epoch(1), Offset(9)),
    )
    impossible = (
        FetchResponse(epoch=Epoch(1), leader=TWO.id, snapshot=OffsetAndEpoch(Epoch(9), Offset(9))),
        FetchResponse(epoch=Epoch(1), leader=TWO.id, snapshot=in_part.snapshot),
        FetchResponse(epoch=Epoch(1), leader=TWO.id, diverging=OffsetAndEpoch(Epoch(0), Offset(0))),
        None,
    )
    for answer in impossible:
        voter, now_ms, fetches = node(), 0, 0
        asked = sent(voter.step(RequestReceived(Asker(1), begin(1, TWO, ONE)), now_ms=0))[-1:]
        role = voter.role
        assert isinstance(role, Follower)
        stands_at_ms = role.deadline_ms
        while voter.role is role:
            event: Event = Tick()
            for each in asked:
                fetches += 1
                event = RequestTimedOut(TWO.id, each.correlation)
                if answer is not None:
                    is_of_part = isinstance(each.request, FetchSnapshotRequest)
                    given = in_part if is_of_part else answer
                    event = ResponseReceived(TWO.id, each.correlation, given)
            asked = sent(voter.step(event, now_ms=now_ms))
            if not asked:
                assert voter.deadline_ms is not None
                now_ms = voter.deadline_ms
            assert now_ms <= stands_at_ms
            assert fetches < 30
        assert fetches > 5

"""The conditions for founding a cluster: one node of the core, and its events."""

import random
from typing import Final

import pytest

from quorum.core.effects import AppendLeaderChange, Effect, Send
from quorum.core.events import (
    Asker,
    DiscoveryDone,
    EndpointsUpdated,
    Event,
    LeaderUnreachable,
    RequestReceived,
    ResponseReceived,
    Tick,
)
from quorum.core.limits import Timeouts
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    Request,
    VoteRequest,
    VoteResponse,
)
from quorum.core.node import QuorumNode
from quorum.core.raft_log import RaftLog
from quorum.core.roles import Candidate, Prospective
from quorum.core.state import DiscoveryState
from quorum.core.vocabulary import ElectionState, Epoch, Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, VoterSet

ENDPOINTS: Final = (Endpoint("CONTROLLER", "h", 9),)
PSEUDO: Final = ReplicaId(-2)


def node(*voters: int, discovery: DiscoveryState, me: int = 1, log_end: int = 0) -> QuorumNode:
    epochs = [(Epoch(1), Offset(0))] if log_end else []
    return QuorumNode(
        ReplicaKey(ReplicaId(me)),
        VoterSet.of(*voters),
        election=ElectionState(Epoch(1 if log_end else 0)),
        log=RaftLog(Offset(0), Offset(log_end), epochs),
        timeouts=Timeouts(),
        rng=random.Random(1),
        now_ms=0,
        records_voters=True,
        discovery=discovery,
    )


def alone(*voters: int) -> DiscoveryState:
    """Nobody's place is known but one's own."""
    return DiscoveryState(unlocated=frozenset(ReplicaId(each) for each in voters if each != 1))


def after(replica: QuorumNode, event: Event, ms: int) -> list[Effect]:
    """The effects of `event` and of the time until `ms`."""
    effects = replica.step(event, now_ms=ms)
    return effects + replica.step(Tick(), now_ms=ms + 10_000)


def located(replica: int) -> EndpointsUpdated:
    return EndpointsUpdated(ReplicaKey(ReplicaId(replica)), ENDPOINTS)


def test_no_voter_stands_before_it_knows_the_addresses_of_a_majority() -> None:
    """KIP-595, "Bootstrapping" step 6."""
    replica = node(1, 2, 3, 4, 5, discovery=alone(1, 2, 3, 4, 5))
    after(replica, Tick(), 0)
    after(replica, located(2), 20_000)
    assert replica.epoch == 0
    after(replica, located(3), 40_000)
    assert isinstance(replica.role, Prospective)


def heard(request: Request) -> RequestReceived:
    return RequestReceived(Asker(1), request)


def follower_of_2(discovery: DiscoveryState) -> QuorumNode:
    """Voter 1 follows voter 2 in epoch 1, with an empty log."""
    replica = node(1, 2, 3, 4, 5, discovery=discovery)
    begin = BeginQuorumEpochRequest(epoch=Epoch(1), leader=ReplicaId(2))
    replica.step(heard(begin), now_ms=0)
    assert replica.leader == 2
    return replica


END = EndQuorumEpochRequest(
    epoch=Epoch(1), leader=ReplicaId(2), preferred_successors=(ReplicaId(1), ReplicaId(3))
)


@pytest.mark.parametrize("road", [heard(END), LeaderUnreachable(ReplicaId(2)), Tick()], ids=str)
def test_no_candidacy_bypasses_the_check_for_known_addresses(road: Event) -> None:
    """Named as the successor, cut off from the leader, or out of patience: the gate is one."""
    replica = follower_of_2(alone(1, 2, 3, 4, 5))
    said = after(replica, road, 10) + after(replica, Tick(), 20_000)
    assert not [each for each in said if isinstance(each, Send) and is_vote(each)]
    assert replica.epoch == 1
    replica.step(located(2), now_ms=40_000)
    after(replica, located(3), 40_000)
    assert isinstance(replica.role, Prospective | Candidate)


@pytest.mark.parametrize("road", [heard(END), LeaderUnreachable(ReplicaId(2)), Tick()], ids=str)
def test_no_candidacy_bypasses_the_check_for_an_existing_quorum(road: Event) -> None:
    replica = follower_of_2(DiscoveryState(has_found=True))
    said = after(replica, road, 10) + after(replica, Tick(), 20_000)
    assert not [each for each in said if isinstance(each, Send) and is_vote(each)]


def test_a_voter_that_learns_of_a_quorum_during_its_pre_vote_does_not_stand() -> None:
    """The last step of the road: a voter without pre-votes makes the asker stand at once."""
    replica = node(1, 2, 3, discovery=DiscoveryState())
    said = replica.step(Tick(), now_ms=10_000)
    asked = next(each for each in said if isinstance(each, Send) and is_vote(each))
    replica.step(DiscoveryDone(found=True), now_ms=10_001)
    unknown = VoteResponse(error=Error.UNSUPPORTED_VERSION, epoch=Epoch(0))
    said = replica.step(ResponseReceived(asked.to, asked.correlation, unknown), now_ms=10_002)
    assert not [each for each in said if isinstance(each, Send) and is_vote(each)]
    assert replica.epoch == 0


def test_a_voter_without_pre_votes_makes_the_asker_stand_at_once() -> None:
    """KIP-996: one of an older release cannot promise its vote, and must not be waited for."""
    replica = node(1, 2, 3, discovery=DiscoveryState(has_surveyed=True))
    said = replica.step(Tick(), now_ms=10_000)
    asked = next(each for each in said if isinstance(each, Send) and is_vote(each))
    unknown = VoteResponse(error=Error.UNSUPPORTED_VERSION, epoch=Epoch(0))
    said = replica.step(ResponseReceived(asked.to, asked.correlation, unknown), now_ms=10_002)
    assert [each for each in said if isinstance(each, Send) and is_vote(each)]
    assert replica.epoch == 1


def test_a_voter_that_may_not_stand_again_searches_for_the_leader() -> None:
    """A disk was wiped; its owner stood before it heard of the quorum, which may not know of it."""
    replica = node(1, 2, 3, discovery=DiscoveryState())
    for asked in [each for each in replica.step(Tick(), now_ms=10_000) if isinstance(each, Send)]:
        refused = VoteResponse(error=Error.INVALID_VOTER_KEY, epoch=Epoch(0))
        replica.step(ResponseReceived(asked.to, asked.correlation, refused), now_ms=10_001)
    replica.step(DiscoveryDone(found=True), now_ms=10_002)
    said = after(replica, Tick(), 20_000)
    assert [
        each for each in said if isinstance(each, Send) and isinstance(each.request, FetchRequest)
    ]
    assert not [each for each in said if isinstance(each, Send) and is_vote(each)]


def is_vote(sent: Send) -> bool:
    return isinstance(sent.request, VoteRequest)


def test_a_lone_voter_is_a_majority() -> None:
    replica = node(1, discovery=alone(1))
    assert any(isinstance(each, AppendLeaderChange) for each in after(replica, Tick(), 0))


def test_a_node_with_bootstrap_servers_asks_them_before_it_founds() -> None:
    replica = node(1, discovery=DiscoveryState(bootstrap=(PSEUDO,), has_surveyed=False))
    after(replica, Tick(), 0)
    assert replica.epoch == 0
    after(replica, DiscoveryDone(found=False), 20_000)
    assert replica.epoch == 1


def test_a_node_that_learns_of_a_quorum_founds_no_second_one() -> None:
    replica = node(1, discovery=DiscoveryState(bootstrap=(PSEUDO,), has_surveyed=False))
    after(replica, DiscoveryDone(found=True), 0)
    after(replica, DiscoveryDone(found=False), 20_000)
    assert replica.epoch == 0


def test_a_node_with_a_log_needs_no_survey() -> None:
    discovery = DiscoveryState(bootstrap=(PSEUDO,), has_found=True)
    replica = node(1, discovery=discovery, log_end=3)
    after(replica, Tick(), 0)
    assert replica.epoch == 2


def test_an_observer_that_knows_nobody_asks_the_bootstrap_servers_who_leads() -> None:
    """KIP-595, "Bootstrapping" step 3: a Fetch, whose error names the leader."""
    replica = node(me=9, discovery=DiscoveryState(bootstrap=(PSEUDO, ReplicaId(-3))))
    (asked,) = replica.step(Tick(), now_ms=0)
    assert isinstance(asked, Send)
    assert isinstance(asked.request, FetchRequest)
    assert asked.to == PSEUDO


def test_voters_that_are_nowhere_are_not_asked_who_leads() -> None:
    replica = node(2, 3, me=9, discovery=alone(2, 3))
    assert replica.step(Tick(), now_ms=0) == []
    (asked,) = replica.step(located(3), now_ms=1)
    assert isinstance(asked, Send)
    assert asked.to == 3


def test_the_founding_record_says_where_the_founders_are_as_far_as_that_is_known() -> None:
    replica = node(1, 2, discovery=alone(1, 2))
    replica.step(located(2), now_ms=0)
    voter = replica.voters.get(ReplicaId(2))
    assert voter is not None
    assert voter.endpoints == ENDPOINTS
    assert not voter.directory_id_is_known

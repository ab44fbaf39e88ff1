"""The answers of a faulty leader: its followers refuse all of them, and the invariants hold."""

import random

import pytest

from chaos.invariants.faulty_leader import LEFT
from chaos.network.connection import Side, call
from chaos.network.faulty_leader import forged, is_of_leader
from chaos.network.virtual_network import Packet
from chaos.outcome import run
from chaos.simulation.profile import FAULTY_AT, FAULTY_EVERY, Fault, Profile
from quorum.core.effects import Send, Warn
from quorum.core.events import Asker, RequestReceived, RequestTimedOut, ResponseReceived
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Request,
    Response,
)
from quorum.core.node import QuorumNode
from quorum.core.roles import Follower
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.protocol.raft_types import LeaderAndEpoch
from quorum.records.encode import encode
from tests.quorum.core.test_quorum_node import node, sent
from tests.support.parameters import few_in_quick

ONE, TWO = ReplicaId(1), ReplicaId(2)
EPOCH = Epoch(1)
RECORDS = bytes(encode([b"something"], timestamp_ms=1, base_offset=Offset(0), epoch=EPOCH))
SNAPSHOT = OffsetAndEpoch(EPOCH, Offset(9))
ANSWERS = (
    (FetchResponse(epoch=EPOCH, leader=TWO), b""),
    (FetchResponse(epoch=EPOCH, leader=TWO), RECORDS),
    (
        FetchSnapshotResponse(epoch=EPOCH, leader=TWO, snapshot=SNAPSHOT, size_bytes=9, length=9),
        RECORDS[:9],
    ),
)


def follower(answer: Response) -> tuple[QuorumNode, Send]:
    """Voter 1, follower of 2, and the fetch that it has sent: of a part, if that is the answer."""
    voter = node()
    begin = BeginQuorumEpochRequest(epoch=EPOCH, leader=TWO)
    asked = sent(voter.step(RequestReceived(Asker(1), begin), now_ms=0))[-1]
    if isinstance(answer, FetchSnapshotResponse):
        offer = FetchResponse(epoch=EPOCH, leader=TWO, snapshot=SNAPSHOT)
        asked = sent(voter.step(ResponseReceived(TWO, asked.correlation, offer), now_ms=0))[-1]
    return voter, asked


def side(replica: ReplicaId) -> Side:
    return Side(key=ReplicaKey(replica), cluster_id="ours", standing=LeaderAndEpoch(EPOCH, TWO))


@pytest.mark.parametrize(("answer", "records"), ANSWERS)
def test_a_follower_refuses_whatever_is_forged(answer: Response, records: bytes) -> None:
    rng, unreadable = random.Random(0), 0
    for _ in range(60):
        voter, asked = follower(answer)
        role, end = voter.role, voter.log_end
        assert isinstance(role, Follower)
        stands_at_ms, heard_ms = role.deadline_ms, role.heard_ms
        packet = forged(Packet(TWO, ONE, 1, 1, asked.request, answer, records), rng)
        told = call(
            side(ONE),
            side(TWO),
            packet.request,
            draw=lambda _, highest: highest,
            response=packet.response,
            records=packet.records,
        )
        unreadable += told.response is None
        effects = voter.step(
            RequestTimedOut(TWO, asked.correlation)
            if told.response is None
            else ResponseReceived(TWO, asked.correlation, told.response),
            now_ms=10,
        )
        assert all(isinstance(each, Warn) for each in effects), effects
        assert (voter.role, voter.log_end) == (role, end)
        assert (role.deadline_ms, role.heard_ms) == (stands_at_ms, heard_ms)
    assert 0 < unreadable < 60


def test_only_what_a_leader_answers_its_followers_is_forged() -> None:
    def is_struck(request: Request, answer: Response) -> bool:
        return is_of_leader(Packet(TWO, ONE, 1, 1, request, answer))

    _, asked = follower(ANSWERS[0][0])
    fetch = asked.request
    assert isinstance(fetch, FetchRequest)
    assert is_struck(fetch, FetchResponse(epoch=EPOCH, leader=TWO))
    assert not is_struck(fetch, FetchResponse(epoch=EPOCH, leader=ReplicaId(3)))
    refused = FetchResponse(epoch=EPOCH, leader=TWO, error=Error.UNKNOWN_LEADER_EPOCH)
    assert not is_struck(fetch, refused)
    search = FetchRequest(
        replica=fetch.replica, epoch=EPOCH, log_end=fetch.log_end, max_wait_ms=0, max_bytes=1
    )
    assert not is_struck(search, FetchResponse(epoch=EPOCH, leader=TWO))


SEEDS = range(FAULTY_AT, FAULTY_AT + 8 * FAULTY_EVERY, FAULTY_EVERY)
BUSY = (35, 143)
"""Seeds whose followers have so many other faults that none comes to leave its leader."""


def test_some_runs_have_faulty_leaders_and_all_others_have_none() -> None:
    drawn = [Fault.FAULTY in Profile.drawn(seed).faults for seed in range(4 * FAULTY_EVERY)]
    assert [seed for seed, is_faulty in enumerate(drawn) if is_faulty] == [*SEEDS[:4]]


@pytest.mark.parametrize("seed", few_in_quick(SEEDS, every=4))
def test_followers_leave_a_faulty_leader(seed: int) -> None:
    found = run(Profile.drawn(seed))
    assert found.report is not None, str(found.failure)
    assert found.report.counts[Fault.FAULTY]
    assert found.report.counts[LEFT] or seed in BUSY

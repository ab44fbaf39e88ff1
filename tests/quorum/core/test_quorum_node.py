import random
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import get_args
from uuid import UUID

import pytest

from quorum.core.effects import Answer, AppendFetched, Commit, Effect, Send, TruncateTo, Warn
from quorum.core.events import (
    Asker,
    Event,
    Flushed,
    Proposed,
    RequestReceived,
    ResponseReceived,
    Stopping,
    Tick,
)
from quorum.core.limits import BATCH_RECORDS_MAX, UNCOMMITTED_RECORDS_MAX, Timeouts
from quorum.core.messages import (
    Batch,
    BeginQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    Span,
    VoteRequest,
    VoteResponse,
)
from quorum.core.node import HANDLERS, QuorumNode
from quorum.core.raft_log import RaftLog
from quorum.core.roles import Leader
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
    Snapshot,
)
from quorum.core.voter_set import VoterSet

ONE, TWO = ReplicaId(1), ReplicaId(2)


def node(
    *, me: int = 1, voters: Iterable[int] = (1, 2, 3), log: RaftLog | None = None
) -> QuorumNode:
    return QuorumNode(
        ReplicaKey(ReplicaId(me)),
        VoterSet.of(*voters),
        election=ElectionState(),
        log=RaftLog(Offset(0), Offset(0), ()) if log is None else log,
        timeouts=Timeouts(),
        rng=random.Random(7),
        now_ms=0,
    )


def batch(base: int, end: int, epoch: int = 1) -> Batch:
    return Batch(Offset(base), Offset(end), Epoch(epoch))


def fetch(offset: int, epoch: int, *, last: int, replica: int = 2) -> FetchRequest:
    return FetchRequest(
        replica=ReplicaKey(ReplicaId(replica)),
        epoch=Epoch(epoch),
        log_end=OffsetAndEpoch(Epoch(last), Offset(offset)),
        max_wait_ms=0,
        max_bytes=1,
    )


def sent(effects: list[Effect]) -> list[Send]:
    return [each for each in effects if isinstance(each, Send)]


def elected(log: RaftLog | None = None) -> QuorumNode:
    """Voter 1, leader of epoch 1 by the vote of 2."""
    leader = node(log=log)
    leader.step(Tick(), now_ms=0)
    effects = leader.step(Tick(), now_ms=2_000)
    for _ in ("pre-vote", "vote"):
        granted = VoteResponse(epoch=leader.epoch, granted=True)
        effects = leader.step(
            ResponseReceived(TWO, sent(effects)[0].correlation, granted), now_ms=2_000
        )
    assert isinstance(leader.role, Leader)
    return leader


def follower() -> tuple[QuorumNode, Send]:
    """Voter 1, follower of 2 in epoch 1, and the fetch that it has sent."""
    voter = node()
    effects = voter.step(
        RequestReceived(Asker(1), BeginQuorumEpochRequest(epoch=Epoch(1), leader=TWO)), now_ms=0
    )
    return voter, sent(effects)[-1]


def served(high_watermark: int | None = None, **fields: object) -> FetchResponse:
    known = None if high_watermark is None else Offset(high_watermark)
    return FetchResponse(epoch=Epoch(1), leader=TWO, high_watermark=known, **fields)  # type: ignore[arg-type]


def test_batches_that_cannot_follow_the_log_are_reported_and_not_appended() -> None:
    voter, asked = follower()
    answer = ResponseReceived(TWO, asked.correlation, served(batches=(batch(3, 4),)))
    effects = voter.step(answer, now_ms=10)
    assert effects == [
        Warn("leader 2 sent what cannot be: batch [3, 4)@1 does not begin at the log end offset 0")
    ]
    assert voter.log_end == OffsetAndEpoch(Epoch(0), Offset(0))
    assert voter.deadline_ms == 10 + Timeouts().retry_backoff_ms


def test_a_voter_that_lost_acknowledged_records_is_reported_once() -> None:
    leader = elected()
    leader.step(Proposed(4), now_ms=2_000)
    leader.step(Flushed(leader.log_end), now_ms=2_001)
    told: list[str] = []
    for offset, replica in ((5, 2), (5, 2), (2, 2), (3, 2), (2, 9), (1, 9)):
        asked = RequestReceived(Asker(1), fetch(offset, 1, last=1, replica=replica))
        told += [each.text for each in leader.step(asked, now_ms=2_002) if isinstance(each, Warn)]
    assert [text[:88] for text in told] == [
        "voter 2 fetches from offset 2, but had acknowledged everything below 5: its disk has los"
    ]


@pytest.mark.parametrize("log_start", [0, 3])
def test_a_voter_that_lost_acknowledged_records_is_reported_before_it_is_sent_elsewhere(
    log_start: int,
) -> None:
    """It is sent to a snapshot or to the point where the logs diverge, and counts no more."""
    snapshot = Snapshot(OffsetAndEpoch(Epoch(0), Offset(3)), 100)
    log = RaftLog(Offset(3), Offset(3), (), epoch_before=Epoch(0), snapshots=(snapshot,))
    leader = elected(log if log_start else None)
    leader.step(Proposed(4), now_ms=2_000)
    end = leader.log_end.offset
    leader.step(RequestReceived(Asker(1), fetch(end, 1, last=1)), now_ms=2_000)
    asked = RequestReceived(Asker(2), fetch(1, 1, last=0))
    warned, answered = leader.step(asked, now_ms=2_001)
    assert isinstance(warned, Warn)
    assert f"fetches from offset 1, but had acknowledged everything below {end}" in warned.text
    assert isinstance(answered, Answer)
    effects = leader.step(Flushed(leader.log_end), now_ms=2_002)
    assert not [each for each in effects if isinstance(each, Commit)]
    effects = leader.step(RequestReceived(Asker(3), fetch(end, 1, last=1)), now_ms=2_003)
    assert [each for each in effects if isinstance(each, Commit)]


def test_a_leader_that_would_undo_committed_records_stops_the_node() -> None:
    voter, asked = follower()
    voter.step(
        ResponseReceived(TWO, asked.correlation, served(2, batches=(batch(0, 2),))), now_ms=10
    )
    assert voter.high_watermark == 2
    effects = voter.step(Flushed(voter.log_end), now_ms=20)
    diverging = served(diverging=OffsetAndEpoch(Epoch(1), Offset(1)))
    with pytest.raises(AssertionError, match="a committed record would be lost"):
        voter.step(ResponseReceived(TWO, sent(effects)[0].correlation, diverging), now_ms=30)


def test_a_follower_takes_no_more_for_committed_than_it_has() -> None:
    voter, asked = follower()
    batches = (batch(0, 2),)
    effects = voter.step(
        ResponseReceived(TWO, asked.correlation, served(9, batches=batches)), now_ms=10
    )
    assert effects == [AppendFetched(asked.correlation, batches), Commit(Offset(2))]


def test_an_answer_that_is_not_waited_for_changes_nothing() -> None:
    voter, asked = follower()
    answer = ResponseReceived(TWO, asked.correlation, served(batches=(batch(0, 2),)))
    voter.step(answer, now_ms=10)
    assert voter.step(answer, now_ms=11) == []
    assert voter.log_end.offset == 2


def test_a_node_that_starts_wants_to_be_stepped_at_once() -> None:
    """Voters and observers alike: nobody else might ever speak to it."""
    for me in (1, 9):
        started = node(me=me)
        assert started.deadline_ms == 0
        assert [each.to for each in sent(started.step(Tick(), now_ms=0))]


@pytest.mark.parametrize("directory", [0, 9])
def test_a_vote_in_the_own_name_of_a_node_is_refused_and_changes_nothing(directory: int) -> None:
    voter = node()
    request = VoteRequest(
        epoch=Epoch(7),
        candidate=ReplicaKey(ONE, UUID(int=directory)),
        log_end=OffsetAndEpoch(Epoch(6), Offset(9)),
    )
    effects = voter.step(RequestReceived(Asker(1), request), now_ms=0)
    (answered,) = (each for each in effects if isinstance(each, Answer))
    assert answered.response == VoteResponse(error=Error.INVALID_REQUEST, epoch=Epoch(0))


@pytest.mark.parametrize("led", [False, True])
def test_the_only_voter_stands_as_soon_as_it_starts(led: bool) -> None:
    election = ElectionState(Epoch(1), ReplicaKey(ONE), ONE) if led else ElectionState()
    alone, one_of_three = (
        QuorumNode(
            ReplicaKey(ONE),
            VoterSet.of(*voters),
            election=election,
            log=RaftLog(Offset(0), Offset(0), ()),
            timeouts=Timeouts(),
            rng=random.Random(7),
            now_ms=5,
        )
        for voters in ((1,), (1, 2, 3))
    )
    for each in (alone, one_of_three):
        each.step(Tick(), now_ms=5)
    assert isinstance(alone.role, Leader)
    assert not isinstance(one_of_three.role, Leader)


def test_a_node_that_is_stopping_waits_for_nothing() -> None:
    leader = elected()
    leader.step(Stopping(), now_ms=2_000)
    assert leader.deadline_ms is None
    assert leader.step(Tick(), now_ms=90_000) == []


def test_only_a_leader_accepts_proposals() -> None:
    voter, _ = follower()
    assert not voter.accepts(1)
    with pytest.raises(AssertionError, match="only a leader appends"):
        voter.step(Proposed(1), now_ms=0)


def test_a_leader_bounds_batches_and_uncommitted_records() -> None:
    leader = elected()
    assert leader.accepts(BATCH_RECORDS_MAX)
    assert not leader.accepts(BATCH_RECORDS_MAX + 1)
    assert not leader.accepts(0)
    room = UNCOMMITTED_RECORDS_MAX - 1
    while leader.accepts(BATCH_RECORDS_MAX):
        leader.step(Proposed(BATCH_RECORDS_MAX), now_ms=2_000)
        room -= BATCH_RECORDS_MAX
    assert leader.accepts(room)
    assert not leader.accepts(room + 1)


def caught_up(leader: QuorumNode, replica: int = 2) -> list[int | None]:
    return [s.last_caught_up_ms for s in leader.replicas() if s.replica.id == replica]


def test_a_replica_has_caught_up_when_it_reaches_what_was_the_end_at_its_last_fetch() -> None:
    """Kafka's lag in time: who always reaches yesterday's end is one fetch behind, not more."""
    leader = elected()
    leader.step(RequestReceived(Asker(1), fetch(0, 1, last=0)), now_ms=3_000)
    assert caught_up(leader) == [None]
    leader.step(Proposed(5), now_ms=3_000)
    leader.step(RequestReceived(Asker(2), fetch(1, 1, last=1)), now_ms=3_100)
    assert caught_up(leader) == [3_000]
    leader.step(RequestReceived(Asker(3), fetch(6, 1, last=1)), now_ms=3_200)
    assert caught_up(leader) == [3_200]


def test_a_replica_whose_log_has_parted_had_not_caught_up() -> None:
    leader = elected()
    leader.step(Proposed(5), now_ms=3_000)
    leader.step(RequestReceived(Asker(1), fetch(9, 1, last=1)), now_ms=3_000)
    leader.step(RequestReceived(Asker(2), fetch(3, 1, last=1)), now_ms=3_100)
    assert caught_up(leader) == [None]


def test_a_truncation_that_changes_nothing_is_not_asked_for() -> None:
    voter, asked = follower()
    diverging = served(diverging=OffsetAndEpoch(Epoch(1), Offset(0)))
    effects = voter.step(ResponseReceived(TWO, asked.correlation, diverging), now_ms=10)
    assert not any(isinstance(each, TruncateTo) for each in effects)


def test_the_same_events_at_the_same_times_give_the_same_effects() -> None:
    events: list[Event] = [
        Tick(),
        RequestReceived(Asker(1), BeginQuorumEpochRequest(epoch=Epoch(3), leader=TWO)),
        Tick(),
        RequestReceived(Asker(2), fetch(0, 4, last=0, replica=3)),
        Tick(),
    ]
    told = [
        [each.step(event, now_ms=at * 2_600) for at, event in enumerate(events)]
        for each in (node(), node())
    ]
    assert told[0] == told[1]
    assert any(told[0])


def test_an_answer_that_is_given_batches_keeps_all_else() -> None:
    answer = FetchResponse(
        error=Error.NOT_LEADER_OR_FOLLOWER,
        epoch=Epoch(3),
        leader=TWO,
        high_watermark=Offset(4),
        log_start=Offset(1),
        diverging=OffsetAndEpoch(Epoch(2), Offset(3)),
        snapshot=OffsetAndEpoch(Epoch(1), Offset(1)),
        span=Span(Offset(4), Offset(5), 7),
        round=9,
    )
    batches = (Batch(Offset(4), Offset(5), Epoch(3)),)
    assert answer.carrying(batches) == replace(answer, batches=batches)
    unset = {each.name for each in fields(answer) if getattr(answer, each.name) == each.default}
    assert unset == {"batches"}, "the test gives every field a value of its own"


def test_every_event_has_a_handler() -> None:
    assert set(HANDLERS) == set(get_args(Event))

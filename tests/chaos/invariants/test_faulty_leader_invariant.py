"""R34: how long a follower stays with a leader whose answers it refuses, how often it asks it."""

from collections import Counter
from pathlib import Path

import pytest

from chaos.invariants.durable_state import DurableState, Incarnation
from chaos.invariants.faulty_leader import LEFT, FaultyLeaderInvariant
from chaos.invariants.quorum import QuorumInvariants
from chaos.violation import Violation
from quorum.core.limits import Timeouts
from quorum.core.messages import FetchRequest, VoteRequest
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey

ME, LEADER = ReplicaKey(ReplicaId(1)), ReplicaId(2)
END = OffsetAndEpoch(Epoch(1), Offset(5))
FETCH = FetchRequest(replica=ME, epoch=Epoch(1), log_end=END, max_wait_ms=500, max_bytes=1)
STANDS = VoteRequest(epoch=Epoch(1), candidate=ME, log_end=END, pre_vote=True)
PATIENCE_MS = 2_500
"""The fetch time-out and the most of its random part."""


class Misled:
    """A follower, and the checker of its leader."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        history = QuorumInvariants([ME.id, LEADER]).history
        self.me = Incarnation(ME, 1, DurableState(Path("/log"), history))
        self.checker = FaultyLeaderInvariant(Timeouts(), lambda what: self.counts.update([what]))
        self._calls = 0

    def fetch(self, now_ms: int) -> None:
        self._calls += 1
        self.checker.request_sent(self.me, LEADER, FETCH, self._calls, now_ms)

    def refuse(self, now_ms: int) -> None:
        self.checker.refuses(self.me, self._calls, now_ms)

    def hear(self) -> None:
        self.checker.answered(self.me, self._calls)


@pytest.fixture
def misled() -> Misled:
    follower = Misled()
    follower.fetch(0)
    follower.refuse(10)
    return follower


def test_a_follower_that_stays_too_long_with_a_faulty_leader_is_found(misled: Misled) -> None:
    misled.fetch(10 + PATIENCE_MS)
    misled.refuse(10 + PATIENCE_MS)
    with pytest.raises(Violation, match="R34: 1 follows 2 after 2501 ms and 2 fetches"):
        misled.fetch(11 + PATIENCE_MS)


def test_a_follower_that_asks_a_faulty_leader_too_often_is_found(misled: Misled) -> None:
    for now_ms in range(11, 35):
        misled.fetch(now_ms)
        misled.refuse(now_ms)
    with pytest.raises(Violation, match="R34: 1 follows 2 after 25 ms and 25 fetches"):
        misled.fetch(35)


def test_a_good_answer_ends_the_count(misled: Misled) -> None:
    misled.fetch(2_000)
    misled.hear()
    misled.fetch(4_000)
    misled.refuse(4_001)
    misled.fetch(4_001 + PATIENCE_MS)


def test_a_late_answer_to_an_earlier_fetch_does_not_end_it(misled: Misled) -> None:
    misled.fetch(2_000)
    misled.checker.answered(misled.me, 1)
    with pytest.raises(Violation, match="R34"):
        misled.fetch(11 + PATIENCE_MS)


def test_a_follower_that_stands_has_left_its_leader(misled: Misled) -> None:
    misled.checker.request_sent(misled.me, ReplicaId(3), STANDS, 9, 2_400)
    assert misled.counts == {LEFT: 1}
    misled.fetch(9_000)


def test_a_follower_that_gives_way_or_has_no_room_may_stay(misled: Misled) -> None:
    misled.checker.forgets(misled.me)
    misled.fetch(9_000)

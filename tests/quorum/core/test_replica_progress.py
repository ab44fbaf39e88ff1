from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.events import Asker
from quorum.core.limits import FETCH_BYTES_MAX, OBSERVERS_MAX, Bounds
from quorum.core.messages import FetchRequest, FetchResponse
from quorum.core.replica_progress import HIGH_WATERMARK_LINGER_MS, LogBounds, ProgressTracker
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import VoterSet

LEADER, VOTER, OBSERVER = ReplicaId(1), ReplicaId(2), ReplicaId(9)
WAIT_MS = 500


def fetch(replica: int, offset: int, *, wait_ms: int = WAIT_MS) -> FetchRequest:
    return FetchRequest(
        replica=ReplicaKey(ReplicaId(replica)),
        epoch=Epoch(1),
        log_end=OffsetAndEpoch(Epoch(1), Offset(offset)),
        max_wait_ms=wait_ms,
        max_bytes=1_000,
    )


def view(log_end: int, high_watermark: int | None = None) -> LogBounds:
    return LogBounds(
        epoch=Epoch(1),
        leader=LEADER,
        log_start=Offset(0),
        log_end=Offset(log_end),
        high_watermark=None if high_watermark is None else Offset(high_watermark),
    )


@dataclass(slots=True)
class Bench:
    """A leader's tracker with everything that it was asked and has answered."""

    tracker: ProgressTracker = field(
        default_factory=lambda: ProgressTracker(VoterSet.of(1, 2, 3), LEADER)
    )
    view: LogBounds = field(default_factory=lambda: view(0))
    now_ms: int = 0
    asked: dict[Asker, tuple[FetchRequest, int]] = field(default_factory=dict)
    answered: dict[Asker, FetchResponse] = field(default_factory=dict)

    def fetch(self, request: FetchRequest) -> Asker:
        asker = Asker(len(self.asked))
        self.asked[asker] = (request, self.now_ms)
        self._note(self.tracker.serve(asker, request, self.view, self.now_ms))
        return asker

    def append(self, count: int) -> None:
        self.view = self.view._replace(log_end=Offset(self.view.log_end + count))
        self._note(self.tracker.wake_for_records(self.view))

    def commit(self) -> None:
        self.view = self.view._replace(high_watermark=self.view.log_end)
        self._note(self.tracker.wake_for_commit(self.view, self.now_ms))

    def wait(self, ms: int) -> None:
        """Let time pass, and wake as a driver would that only looks at the deadline."""
        until_ms = self.now_ms + ms
        while self.tracker.deadline_ms is not None and self.tracker.deadline_ms <= until_ms:
            assert self.tracker.deadline_ms >= self.now_ms
            self.now_ms = self.tracker.deadline_ms
            self._note(self.tracker.wake_due(self.view, self.now_ms))
        self.now_ms = until_ms

    def waiting(self) -> list[FetchRequest]:
        return [asked for asker, (asked, _) in self.asked.items() if asker not in self.answered]

    def _note(self, answers: Iterable[tuple[Asker, FetchResponse]]) -> None:
        for asker, response in answers:
            assert asker not in self.answered, "answered twice"
            self.answered[asker] = response


OPERATIONS = st.one_of(
    st.tuples(st.just("fetch"), st.sampled_from([2, 3, 8, 9]), st.integers(0, 3)),
    st.tuples(st.just("append"), st.integers(1, 2)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("wait"), st.integers(0, 600)),
)


@given(st.lists(OPERATIONS, max_size=40))
def test_every_fetch_is_answered_once_in_time_and_within_its_limit(
    operations: list[tuple[str, *tuple[int, ...]]],
) -> None:
    bench = Bench()
    for operation in operations:
        match operation:
            case ("fetch", replica, behind):
                known = bench.view.log_end if replica in (2, 3) else bench.view.high_watermark
                bench.fetch(fetch(replica, max(0, (known or 0) - behind)))
            case ("append", count):
                bench.append(count)
            case ("commit",):
                bench.commit()
            case ("wait", ms):
                bench.wait(ms)
            case _:
                raise AssertionError(operation)
        check(bench)
    left = list(bench.tracker.dismiss())
    assert len(left) == len(bench.waiting())
    assert bench.tracker.deadline_ms is None


def check(bench: Bench) -> None:
    waiting = [request.replica for request in bench.waiting()]
    assert len(waiting) == len(set(waiting)), "one fetch waits for each replica at most"
    for asker, (request, asked_ms) in bench.asked.items():
        is_voter = request.replica.id in (2, 3)
        response = bench.answered.get(asker)
        if response is None:
            assert bench.now_ms < asked_ms + WAIT_MS
            limit = bench.view.log_end if is_voter else bench.view.high_watermark or 0
            assert request.log_end.offset >= limit, "it waits although there are records"
        elif response.span is not None:
            assert response.span.start == request.log_end.offset < response.span.end
            assert is_voter or response.span.end <= (response.high_watermark or 0)
            assert response.span.max_bytes == 1_000


def test_a_voter_is_woken_by_records_and_an_observer_by_their_commit() -> None:
    bench = Bench()
    voter, observer = bench.fetch(fetch(VOTER, 0)), bench.fetch(fetch(OBSERVER, 0))
    bench.append(2)
    assert set(bench.answered) == {voter}
    bench.commit()
    assert set(bench.answered) == {voter, observer}


def test_voters_that_linger_almost_as_long_are_answered_together() -> None:
    bench = Bench()
    bench.append(1)
    first = bench.fetch(fetch(VOTER, 1))
    bench.commit()
    bench.now_ms += 2
    second = bench.fetch(fetch(3, 1))
    bench.wait(HIGH_WATERMARK_LINGER_MS - 3)
    assert not bench.answered
    bench.wait(1)
    assert set(bench.answered) == {first, second}


def test_a_high_watermark_alone_lingers_for_a_voter() -> None:
    bench = Bench()
    bench.append(1)
    voter = bench.fetch(fetch(VOTER, 1))
    bench.commit()
    bench.wait(HIGH_WATERMARK_LINGER_MS - 1)
    assert voter not in bench.answered
    bench.wait(1)
    assert bench.answered[voter].high_watermark == 1
    assert bench.answered[voter].span is None


def test_a_fetch_that_may_not_wait_is_answered_at_once() -> None:
    bench = Bench()
    assert bench.fetch(fetch(VOTER, 0, wait_ms=0)) in bench.answered


def test_a_second_fetch_of_a_replica_replaces_the_first() -> None:
    bench = Bench()
    first = bench.fetch(fetch(VOTER, 0))
    second = bench.fetch(fetch(VOTER, 0))
    assert set(bench.answered) == {first}
    assert bench.answered[first].span is None
    bench.append(1)
    assert bench.answered[second].span is not None


def test_a_replaced_fetch_confirms_no_read() -> None:
    """Its connection may be gone, so the second fetch still waits for the high watermark."""
    bench = Bench()
    bench.append(1)
    bench.fetch(fetch(VOTER, 1))
    bench.commit()
    second = bench.fetch(fetch(VOTER, 1))
    bench.wait(HIGH_WATERMARK_LINGER_MS)
    assert bench.answered[second].high_watermark == 1


def observers(tracker: ProgressTracker) -> list[ReplicaId]:
    return [each.replica.id for each in tracker.last_fetched_first() if each.voter is None]


def test_two_directories_with_one_id_are_two_observers() -> None:
    bench = Bench()
    wiped = replace(fetch(OBSERVER, 0).replica, directory_id=UUID(int=7))
    bench.fetch(fetch(OBSERVER, 0))
    bench.fetch(replace(fetch(OBSERVER, 0), replica=wiped))
    assert bench.answered == {}
    assert len(observers(bench.tracker)) == 2


def test_beyond_the_limit_of_parked_fetches_a_fetch_is_answered_at_once() -> None:
    bench = Bench()
    for replica in range(10, 10 + Bounds().parked_fetches):
        bench.fetch(fetch(replica, 0))
    assert bench.answered == {}
    refused = bench.fetch(fetch(9, 0))
    assert bench.answered[refused].span is None
    replacing = bench.fetch(fetch(10, 0))
    assert replacing not in bench.answered
    bench.wait(WAIT_MS)
    assert bench.waiting() == []


def test_of_too_many_observers_the_longest_silent_is_forgotten() -> None:
    tracker = ProgressTracker(VoterSet.of(1, 2, 3), LEADER)
    for number in range(OBSERVERS_MAX):
        key = ReplicaKey(ReplicaId(10 + number))
        tracker.progress_of(key).seen(Offset(0), 1_000 + (number + 5) % OBSERVERS_MAX)
    tracker.progress_of(ReplicaKey(ReplicaId(5)))
    known = set(observers(tracker))
    assert len(known) == OBSERVERS_MAX
    assert 10 + OBSERVERS_MAX - 5 not in known
    assert 5 in known


def test_former_voters_count_as_observers_for_the_limit() -> None:
    tracker = ProgressTracker(VoterSet.of(1, 2, 3), LEADER, Bounds(observers=1))
    for number, at_ms in ((2, 30), (3, 20), (9, 40)):
        tracker.progress_of(ReplicaKey(ReplicaId(number))).seen(Offset(0), at_ms)
    tracker.take_voters(VoterSet.of(1))
    assert observers(tracker) == [9]


@pytest.mark.parametrize("asked", [1, FETCH_BYTES_MAX, FETCH_BYTES_MAX + 1, 1 << 40])
def test_no_replica_is_sent_more_bytes_than_the_bound(asked: int) -> None:
    bench = Bench(view=view(4))
    asker = bench.fetch(replace(fetch(VOTER, 0), max_bytes=asked))
    span = bench.answered[asker].span
    assert span is not None
    assert span.max_bytes == min(asked, FETCH_BYTES_MAX)

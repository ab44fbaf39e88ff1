from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.events import Asker
from quorum.core.limits import FETCH_BYTES_MAX, OBSERVERS_MAX, Bounds
from quorum.core.messages import FetchRequest, FetchResponse, Span
from quorum.core.replica_progress import (
    HIGH_WATERMARK_LINGER_MS,
    OBSERVERS_AT_ONCE,
    OBSERVERS_PER_MS,
    LogBounds,
    ProgressTracker,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Voter, VoterSet

LEADER, VOTER, OBSERVER = ReplicaId(1), ReplicaId(2), ReplicaId(9)
WAIT_MS = 500
LINGER_MS = 25


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
        default_factory=lambda: ProgressTracker(
            VoterSet.of(1, 2, 3), LEADER, observer_linger_ms=LINGER_MS
        )
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
        self.tracker.on_commit(self.now_ms)

    def wait(self, ms: int) -> None:
        """Let time pass, and wake as a driver would that only looks at the deadline."""
        until_ms = self.now_ms + ms
        calls = 0
        while self.tracker.deadline_ms is not None and self.tracker.deadline_ms <= until_ms:
            assert self.tracker.deadline_ms >= self.now_ms
            calls += 1
            assert calls < 1_000, "it is due again and again, for nothing"
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
            if request.log_end.offset < limit:
                assert not is_voter, "it waits although there are records"
                due_ms = bench.tracker.observers_due_ms
                assert due_ms is not None, "nobody will answer it"
                assert bench.now_ms <= due_ms <= bench.now_ms + 1
                assert bench.tracker.deadline_ms is not None
                assert bench.tracker.deadline_ms <= due_ms
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
    bench.wait(0)
    assert set(bench.answered) == {voter, observer}


def follow(bench: Bench, count: int) -> list[Asker]:
    """Fetch as so many observers that have everything committed."""
    known = bench.view.high_watermark or 0
    return [bench.fetch(fetch(100 + number, known)) for number in range(count)]


def commit_for(bench: Bench, count: int) -> None:
    """Commit a record, and answer so many observers with it."""
    follow(bench, count)
    bench.append(1)
    bench.commit()
    bench.wait(0)
    assert not bench.waiting()


@pytest.mark.parametrize(
    ("count", "pause_ms"),
    [
        (1, 1),
        (OBSERVERS_PER_MS, 1),
        (OBSERVERS_PER_MS + 1, 2),
        (LINGER_MS * OBSERVERS_PER_MS, LINGER_MS),
        (LINGER_MS * OBSERVERS_PER_MS + 100, LINGER_MS),
    ],
)
def test_observers_are_answered_together_and_then_not_for_a_pause(
    count: int, pause_ms: int
) -> None:
    bench = Bench()
    commit_for(bench, count)
    bench.fetch(fetch(99, 1))  # It learns the high watermark.
    waiting = follow(bench, count)
    for _ in range(3):
        bench.append(1)
        bench.commit()
    late = bench.fetch(fetch(99, 1))
    bench.wait(pause_ms - 1)
    assert not bench.answered.keys() & {*waiting, late}
    bench.wait(1)
    spans = {bench.answered[each].span for each in waiting}
    assert spans == {Span(Offset(1), Offset(4), 1_000)}
    assert late in bench.answered


def test_after_a_quiet_time_observers_are_answered_at_once() -> None:
    bench = Bench()
    commit_for(bench, 300)
    waiting = follow(bench, 300)
    bench.wait(LINGER_MS + 1)
    bench.append(1)
    bench.commit()
    assert bench.tracker.deadline_ms == bench.now_ms
    bench.wait(0)
    assert bench.answered.keys() >= set(waiting)


def test_without_a_linger_time_observers_do_not_wait() -> None:
    bench = Bench(tracker=ProgressTracker(VoterSet.of(1, 2, 3), LEADER, observer_linger_ms=0))
    for _ in range(3):
        commit_for(bench, 300)


def test_an_observer_waits_no_longer_than_its_fetch_allows() -> None:
    bench = Bench()
    commit_for(bench, 300)
    bench.append(1)
    bench.commit()
    at_once = bench.fetch(fetch(100, 1, wait_ms=0))
    assert bench.answered[at_once].span is not None
    soon = bench.fetch(fetch(101, 1, wait_ms=HIGH_WATERMARK_LINGER_MS))
    bench.wait(HIGH_WATERMARK_LINGER_MS - 1)
    assert soon not in bench.answered
    bench.wait(1)
    assert bench.answered[soon].span is not None


def test_an_observer_that_is_behind_does_not_wait_for_the_others() -> None:
    """As one that has started, or whose last answer was cut at its limit of bytes."""
    bench = Bench()
    bench.append(8)
    commit_for(bench, 300)
    for offset in (0, 4, 8):
        assert bench.answered[bench.fetch(fetch(OBSERVER, offset))].span is not None
        bench.append(1)
        bench.commit()
    assert bench.fetch(fetch(OBSERVER, 12)) not in bench.answered


def test_an_observer_that_comes_late_waits_for_the_others_all_the_same() -> None:
    """If answers take longer than the pause, all come late: they would be answered one by one."""
    bench = Bench()
    commit_for(bench, 300)
    bench.wait(100)
    follow(bench, 299)
    bench.append(1)
    bench.commit()
    bench.wait(0)
    late = bench.fetch(fetch(399, 1))
    bench.wait(LINGER_MS - 1)
    assert late not in bench.answered
    bench.wait(1)
    assert late in bench.answered


def test_observers_elsewhere_get_a_response_of_their_own() -> None:
    """Before the leader knows what is committed, observers wait wherever they are."""
    bench = Bench()
    places = [(1, 10), (1, 10), (2, 10), (1, 20)]
    requests = [
        replace(fetch(100 + number, offset), max_bytes=max_bytes)
        for number, (offset, max_bytes) in enumerate(places)
    ]
    askers = [bench.fetch(request) for request in requests]
    bench.append(3)
    bench.commit()
    bench.wait(0)
    responses = [bench.answered[each] for each in askers]
    assert [each.span for each in responses] == [
        Span(Offset(at), Offset(3), of) for at, of in places
    ]
    assert responses[0] is responses[1]


def test_voters_come_between_the_observers_of_a_large_group() -> None:
    bench = Bench()
    waiting = follow(bench, OBSERVERS_AT_ONCE + 1)
    bench.append(1)
    bench.commit()
    first = list(bench.tracker.wake_due(bench.view, bench.now_ms))
    assert len(first) == OBSERVERS_AT_ONCE
    assert bench.tracker.deadline_ms == bench.now_ms
    # It is late: what was committed meanwhile is not kept from the others.
    bench.append(1)
    bench.commit()
    ((last, response),) = bench.tracker.wake_due(bench.view, bench.now_ms)
    assert {asker for asker, _ in first} | {last} == set(waiting)
    assert response.span is not None
    assert response.span.end == 2


def test_an_observer_that_fetches_amid_a_group_belongs_to_the_next_one() -> None:
    bench = Bench()
    follow(bench, OBSERVERS_AT_ONCE + 1)
    bench.append(1)
    bench.commit()
    list(bench.tracker.wake_due(bench.view, bench.now_ms))
    bench.append(2)
    bench.commit()
    again = bench.fetch(fetch(100, 1))
    ahead = bench.fetch(fetch(OBSERVER, 3, wait_ms=0))
    ahead = bench.fetch(fetch(OBSERVER, 3))
    list(bench.tracker.wake_due(bench.view, bench.now_ms))
    bench.wait(LINGER_MS - 1)
    assert again not in bench.answered
    bench.wait(1)
    assert again in bench.answered
    assert ahead not in bench.answered, "there is nothing to tell"
    assert bench.tracker.observers_due_ms is None


def test_an_observer_that_fetches_in_the_pause_is_answered_after_it() -> None:
    bench = Bench()
    commit_for(bench, 300)
    bench.append(1)
    bench.commit()
    waiting = bench.fetch(fetch(100, 1))
    bench.wait(LINGER_MS - 1)
    assert waiting not in bench.answered
    bench.wait(1)
    assert waiting in bench.answered


def test_an_observer_with_more_than_is_committed_learns_the_high_watermark() -> None:
    """As a removed voter, whose log has records that were never committed."""
    bench = Bench()
    commit_for(bench, 1)
    bench.fetch(fetch(OBSERVER, 7, wait_ms=0))
    waiting = bench.fetch(fetch(OBSERVER, 7))
    bench.append(1)
    bench.commit()
    bench.wait(1)
    assert bench.answered[waiting].high_watermark == 2


def test_an_observer_that_becomes_a_voter_amid_a_group_is_answered() -> None:
    bench = Bench()
    waiting = follow(bench, OBSERVERS_AT_ONCE + 1)
    bench.append(1)
    bench.commit()
    list(bench.tracker.wake_due(bench.view, bench.now_ms))
    last = 100 + OBSERVERS_AT_ONCE
    bench.tracker.take_voters(VoterSet.of(1, 2, 3, last))
    bench.append(1)
    assert waiting[-1] in bench.answered


def test_a_lost_lead_dismisses_observers_amid_a_group() -> None:
    bench = Bench()
    follow(bench, OBSERVERS_AT_ONCE + 1)
    bench.append(1)
    bench.commit()
    list(bench.tracker.wake_due(bench.view, bench.now_ms))
    bench.fetch(replace(fetch(OBSERVER, 1), max_wait_ms=0))
    bench.fetch(fetch(OBSERVER, 1))
    assert len(list(bench.tracker.dismiss())) == 2
    assert bench.tracker.deadline_ms is None


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
        at_ms = 1_000 + (number + 5) % OBSERVERS_MAX
        tracker.progress_of(key).seen(key, None, Offset(0), at_ms)
    tracker.progress_of(ReplicaKey(ReplicaId(5)))
    known = set(observers(tracker))
    assert len(known) == OBSERVERS_MAX
    assert 10 + OBSERVERS_MAX - 5 not in known
    assert 5 in known


def test_former_voters_count_as_observers_for_the_limit() -> None:
    tracker = ProgressTracker(VoterSet.of(1, 2, 3), LEADER, Bounds(observers=1))
    for number, at_ms in ((2, 30), (3, 20), (9, 40)):
        key = ReplicaKey(ReplicaId(number))
        tracker.progress_of(key).seen(key, None, Offset(0), at_ms)
    tracker.take_voters(VoterSet.of(1))
    assert observers(tracker) == [9]


def test_a_voter_in_a_new_directory_has_acknowledged_nothing_that_its_old_one_had() -> None:
    old, new = (ReplicaKey(VOTER, UUID(int=each)) for each in (1, 2))
    tracker = ProgressTracker(VoterSet((Voter(old),)), LEADER)
    tracker.progress_of(old).fetched(old, Offset(7), Offset(7), 10)
    tracker.take_voters(VoterSet())
    tracker.take_voters(VoterSet((Voter(new),)))
    assert tracker.voters[VOTER].log_end is None
    tracker.take_voters(VoterSet((Voter(old),)))
    assert tracker.voters[VOTER].log_end == 7


@pytest.mark.parametrize(
    ("directory", "log_end", "kept"),
    [(1, 9, 7), (1, 7, 7), (1, None, 7), (0, None, 7), (1, 6, None), (2, 9, None)],
)
def test_what_a_disk_has_lost_does_not_count_although_a_snapshot_is_needed(
    directory: int, log_end: int | None, kept: int | None
) -> None:
    """The voter was founded by its id, so that any directory may be its own."""
    tracker = ProgressTracker(VoterSet.of(1, VOTER), LEADER)
    known, asking = (ReplicaKey(VOTER, UUID(int=each)) for each in (1, directory))
    tracker.progress_of(known).fetched(known, Offset(7), Offset(7), 10)
    end = None if log_end is None else Offset(log_end)
    tracker.progress_of(asking).seen(asking, end, Offset(7), 20)
    assert tracker.voters[VOTER].log_end == kept
    assert tracker.voters[VOTER].replica == (asking if directory else known)


@pytest.mark.parametrize("asked", [1, FETCH_BYTES_MAX, FETCH_BYTES_MAX + 1, 1 << 40])
def test_no_replica_is_sent_more_bytes_than_the_bound(asked: int) -> None:
    bench = Bench(view=view(4))
    asker = bench.fetch(replace(fetch(VOTER, 0), max_bytes=asked))
    span = bench.answered[asker].span
    assert span is not None
    assert span.max_bytes == min(asked, FETCH_BYTES_MAX)

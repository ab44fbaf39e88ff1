"""Copy progress of a broker: bytes copied, bytes left, rate."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from broker.limits import COPY_REPORT_INTERVAL_MS
from broker.partition.assignment import PartitionKey
from broker.replication.copy_reports import (
    BYTES_LEFT_MAX,
    SLOT_MS,
    WINDOW_SLOTS,
    AddedReplica,
    CopyRate,
    CopyReports,
)
from statemachine.limits import COPY_REPORTS_MAX

WINDOW_MS = WINDOW_SLOTS * SLOT_MS


def key(number: int = 0) -> PartitionKey:
    return PartitionKey(UUID(int=7), number)


def behind(lag: int | None) -> AddedReplica:
    """A replica that lacks so many records."""
    return AddedReplica(lag, log_bytes=70)


def test_the_rate_is_that_of_the_time_since_the_first_bytes_and_of_a_second_at_least() -> None:
    rate = CopyRate(0)
    rate.count(9_000, 9, 0)
    rate.count(4_000, 4, 500)
    assert rate.bytes_per_s(500) == rate.bytes_per_s(1_000) == 4_000
    assert rate.bytes_per_s(2_000) == 2_000
    rate.count(4_000, 4, 2_000)
    assert rate.bytes_per_s(4_000) == 2_000


def test_a_first_answer_that_a_throttle_lets_through_whole_is_no_rate() -> None:
    """1 MiB at 200,000 bytes/s: the next comes when that is paid, and then the rate is right."""
    rate = CopyRate(7)
    rate.count(1 << 20, 100, 7)
    assert rate.bytes_per_s(2_007) == 0
    paid_ms = 7 + (1 << 20) // 200
    rate.count(1 << 20, 100, paid_ms)
    assert 199_000 < rate.bytes_per_s(paid_ms) < 201_000


def test_bytes_of_ten_seconds_ago_leave_the_rate_but_still_give_the_record_size() -> None:
    rate = CopyRate(0)
    rate.count(500, 1, 0)
    rate.count(500, 1, 0)
    assert rate.bytes_per_s(WINDOW_MS - 1) == 50
    assert rate.bytes_per_s(WINDOW_MS) == 0
    assert rate.bytes_of(3) == 1_500


def test_bytes_left_are_rounded_up_and_bounded_whatever_a_leader_claims() -> None:
    rate = CopyRate(0)
    assert rate.bytes_of(5) == 0
    rate.count(10, 3, 0)
    assert (rate.bytes_of(0), rate.bytes_of(1)) == (0, 4)
    assert rate.bytes_of(2**63 - 1) == BYTES_LEFT_MAX


@given(
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 1 << 20)), max_size=60),
    st.integers(0, 2 * WINDOW_MS),
)
def test_the_rate_counts_what_came_in_the_last_nine_to_ten_seconds(
    arrivals: list[tuple[int, int]], pause_ms: int
) -> None:
    """Bytes of the last nine seconds count, and none from more than ten seconds ago."""
    now_ms, came, rate = 0, [], CopyRate(0)
    rate.count(1, 1, 0)
    for after_ms, size in arrivals:
        now_ms += after_ms
        rate.count(size, 1, now_ms)
        came.append((now_ms, size))
    now_ms += pause_ms
    found = rate.bytes_per_s(now_ms)
    certain = sum(size for at, size in came if at > now_ms - WINDOW_MS + SLOT_MS)
    possible = sum(size for at, size in came if at > now_ms - WINDOW_MS)
    longest_ms = max(SLOT_MS, min(now_ms, WINDOW_MS))
    shortest_ms = max(SLOT_MS, min(now_ms, WINDOW_MS - SLOT_MS))
    assert certain * 1_000 < (found + 1) * longest_ms
    assert found * shortest_ms <= possible * 1_000


def test_a_replica_that_is_added_is_told_of_every_two_seconds_and_no_more_often() -> None:
    reports = CopyReports()
    assert reports.due(0, lambda _: behind(5)) == ()
    reports.count(key(), 100, 1, 0)
    reports.count(key(), 200, 2, 0)
    (told,) = reports.due(10, lambda _: behind(5))
    assert (told.topic_id, told.partition) == (UUID(int=7), 0)
    assert (told.bytes_left, told.bytes_per_s, told.log_bytes) == (500, 200, 70)
    assert reports.due(9 + COPY_REPORT_INTERVAL_MS, lambda _: behind(4)) == ()
    (told,) = reports.due(10 + COPY_REPORT_INTERVAL_MS, lambda _: behind(4))
    assert (told.bytes_left, told.bytes_per_s) == (400, 99)


def test_replicas_no_longer_added_are_forgotten_and_unknown_ones_not_reported() -> None:
    reports = CopyReports()
    reports.count(key(), 300, 3, 0)
    assert reports.due(0, lambda _: behind(None)) == ()
    assert len(reports.due(1, lambda _: behind(1))) == 1
    assert reports.due(COPY_REPORT_INTERVAL_MS + 1, lambda _: None) == ()
    assert reports.due(COPY_REPORT_INTERVAL_MS + 2, lambda _: behind(1)) == ()


def test_of_too_many_replicas_those_that_waited_longest_are_reported_next() -> None:
    reports = CopyReports()
    count = COPY_REPORTS_MAX + 500
    for number in range(count):
        reports.count(key(number), 1, 1, 0)
    first = reports.due(0, lambda _: behind(1))
    second = reports.due(COPY_REPORT_INTERVAL_MS, lambda _: behind(1))
    assert [each.partition for each in first] == list(range(COPY_REPORTS_MAX))
    assert [each.partition for each in second] == [
        *range(COPY_REPORTS_MAX, count),
        *range(COPY_REPORTS_MAX - 500),
    ]


def test_a_leader_reports_the_bytes_of_its_own_log_as_far_as_there_is_room() -> None:
    reports = CopyReports()
    led = [(key(number), number) for number in range(1, COPY_REPORTS_MAX + 1)]
    (told, *more) = reports.due(0, lambda _: None, lambda: led)
    assert (told.partition, told.bytes_left, told.bytes_per_s, told.log_bytes) == (1, 0, 0, 1)
    assert len(more) == COPY_REPORTS_MAX - 1
    assert reports.due(1, lambda _: None, lambda: led) == ()
    reports.count(key(), 1, 1, COPY_REPORT_INTERVAL_MS)
    told, *more = reports.due(COPY_REPORT_INTERVAL_MS, lambda _: behind(1), lambda: led)
    assert (told.partition, told.log_bytes) == (0, 70)
    assert len(more) == COPY_REPORTS_MAX - 1

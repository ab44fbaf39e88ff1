"""The replication quota as a token bucket in virtual time, and its configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.partition.assignment import NOT_THROTTLED, throttled_partitions
from broker.replication.replication_quota import BURST_MS, WAIT_MS_MAX, TokenBucket, rate_of
from statemachine.reassignment.throttle import FOLLOWER_RATE

RATES = st.integers(1, 10_000_000)
ANSWERS = st.integers(1, 2_000_000)


def full(rate: int | None, now_ms: int = 0) -> TokenBucket:
    bucket = TokenBucket()
    bucket.limit(rate, now_ms)
    return bucket


@given(
    rate=RATES, asks=st.lists(st.tuples(st.integers(0, 5_000), ANSWERS), min_size=1, max_size=50)
)
def test_bytes_in_any_period_are_within_the_rate_a_burst_and_the_last_response(
    rate: int, asks: list[tuple[int, int]]
) -> None:
    bucket, now_ms = full(rate), 0
    passed: list[tuple[int, int]] = []
    for pause_ms, size in asks:
        now_ms += pause_ms
        if not bucket.wait_ms(now_ms):
            for place, (since_ms, _) in enumerate(passed):
                so_far = sum(taken for _, taken in passed[place:])
                assert 1_000 * so_far <= rate * (now_ms - since_ms + BURST_MS)
            bucket.take(size, now_ms)
            passed.append((now_ms, size))


@given(rate=RATES, sizes=st.lists(ANSWERS, min_size=1, max_size=20))
def test_a_reader_that_stays_within_the_budget_stays_within_rate_and_burst(
    rate: int, sizes: list[int]
) -> None:
    bucket, now_ms, passed = full(rate), 0, 0
    for size in sizes:
        now_ms += bucket.wait_ms(now_ms)
        available = bucket.available_bytes(now_ms)
        assert available is not None
        bucket.take(min(size, available), now_ms)
        passed += min(size, available)
        # Rounded up to a whole byte.
        assert 1_000 * passed <= rate * (now_ms + BURST_MS) + 1_000


@given(rate=st.integers(1_000, 10_000_000), size=st.integers(1, 1_000_000))
def test_a_reader_that_always_wants_more_gets_the_rate_within_a_tenth(rate: int, size: int) -> None:
    bucket, now_ms, passed, end_ms = full(rate), 0, 0, 0
    # As long as it takes that burst and last answer weigh little.
    enough = 30 * (size + rate)
    while passed < enough:
        wait_ms = bucket.wait_ms(now_ms)
        now_ms += wait_ms
        if not wait_ms:
            if passed >= enough // 2 and not end_ms:
                end_ms = now_ms
            # Several answers' worth at once, or small ones would make this long.
            taken = max(size, rate // 4)
            bucket.take(taken, now_ms)
            passed += taken
    now_ms += bucket.wait_ms(now_ms)
    assert 0.9 * rate * now_ms <= 1_000 * passed <= 1.1 * rate * now_ms


@given(rate=RATES, size=ANSWERS)
def test_after_the_wait_that_it_names_something_may_pass(rate: int, size: int) -> None:
    bucket, now_ms, waits = full(rate), 0, 0
    bucket.take(size, now_ms)
    while wait_ms := bucket.wait_ms(now_ms):
        assert 0 < wait_ms <= WAIT_MS_MAX
        now_ms += wait_ms
        waits += wait_ms
    assert waits <= 1_000 * size // rate + 1


@given(rate=st.integers(0, 10_000), size=ANSWERS)
def test_a_rate_that_is_taken_away_frees_at_once(rate: int, size: int) -> None:
    bucket = full(rate)
    bucket.take(size, 0)
    assert bucket.limit(None, 0)
    assert (bucket.wait_ms(0), bucket.available_bytes(0)) == (0, None)
    bucket.take(size, 0)
    assert not bucket.limit(None, 1)


def test_a_rate_of_nothing_lets_nothing_pass() -> None:
    bucket = full(0)
    assert (bucket.wait_ms(0), bucket.wait_ms(1_000_000)) == (WAIT_MS_MAX, WAIT_MS_MAX)
    assert bucket.available_bytes(1_000_000) == 0


def test_the_same_rate_once_more_forgives_no_debt() -> None:
    bucket = full(100)
    bucket.take(1_000, 0)
    assert not bucket.limit(100, 0)
    assert bucket.wait_ms(0)


@pytest.mark.parametrize(
    ("value", "mine"),
    [
        ("", ()),
        ("*", (0, 1, 2)),
        (" * ", (0, 1, 2)),
        ("0:1", (0,)),
        ("0:1, 2:1", (0, 2)),
        ("0:2,1:21,2:11", ()),
        ("0:1,*", (0,)),
        ("x:1,:1,-1:1,1:1", (1,)),
    ],
)
def test_a_list_of_replicas_says_which_partitions_of_this_broker_are_meant(
    value: str, mine: tuple[int, ...]
) -> None:
    found = throttled_partitions(value, 1)
    assert tuple(number for number in range(3) if number in found) == mine
    assert bool(mine) == (found != NOT_THROTTLED)


def test_the_rate_is_that_of_the_broker_and_else_that_of_all() -> None:
    own, shared = {FOLLOWER_RATE: "5"}, {FOLLOWER_RATE: "7"}
    assert rate_of(FOLLOWER_RATE, (own, shared)) == 5
    assert rate_of(FOLLOWER_RATE, ({}, shared)) == 7
    assert rate_of(FOLLOWER_RATE, ({FOLLOWER_RATE: "fast"}, shared)) == 7
    assert rate_of(FOLLOWER_RATE, ({FOLLOWER_RATE: "-1"}, {})) is None

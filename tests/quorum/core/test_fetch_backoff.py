from hypothesis import given
from hypothesis import strategies as st

from quorum.core.events import Correlation
from quorum.core.limits import Timeouts
from quorum.core.state import FetchState

TIMEOUTS = Timeouts(retry_backoff_ms=20, retry_backoff_ms_max=1_000)


@given(st.integers(1, 200), st.integers(0, 1 << 40))
def test_the_wait_doubles_with_each_failure_up_to_its_bound(failures: int, now_ms: int) -> None:
    """KIP-580: exponential back-off with a cap."""
    fetching, wanted_ms = FetchState(TIMEOUTS), 20
    for failure in range(failures):
        fetching.asked(Correlation(failure))
        fetching.failed(now_ms)
        assert fetching.not_before_ms == now_ms + wanted_ms
        assert not fetching.may_ask(now_ms + wanted_ms - 1)
        assert fetching.may_ask(now_ms + wanted_ms)
        wanted_ms = min(2 * wanted_ms, 1_000)


def test_a_success_and_a_new_leader_both_end_the_back_off() -> None:
    fetching = FetchState(TIMEOUTS)
    for _ in range(5):
        fetching.failed(now_ms=100)
    fetching.asked(Correlation(1))
    fetching.reset()
    assert fetching.may_ask(now_ms=0)
    fetching.failed(now_ms=100)
    assert fetching.not_before_ms == 120


def test_one_fetch_is_under_way_at_most() -> None:
    fetching = FetchState(TIMEOUTS)
    fetching.asked(Correlation(1))
    assert not fetching.may_ask(now_ms=1 << 40)


def test_a_search_waits_no_longer_than_the_given_time() -> None:
    fetching, waits_ms = FetchState(TIMEOUTS), list[int]()
    for _ in range(5):
        fetching.failed(now_ms=0, pause_ms_max=125)
        waits_ms.append(fetching.not_before_ms)
    assert waits_ms == [20, 40, 80, 125, 125]


def test_only_an_overdue_request_is_given_up() -> None:
    fetching = FetchState(TIMEOUTS)
    assert not fetching.leave(now_ms=1 << 40)
    fetching.asked(Correlation(1))
    assert not fetching.leave(now_ms=1 << 40)
    fetching.reset()
    fetching.asked(Correlation(2), overdue_ms=250)
    assert not fetching.leave(now_ms=249)
    assert fetching.leave(now_ms=250)
    assert fetching.may_ask(now_ms=250)

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.limits import FETCH_WAIT_MS_MAX, Timeouts

TIMES = st.integers(-1, 60)
LINGER = "observer_linger_ms"
NAMES = [each.name for each in fields(Timeouts) if each.name != LINGER]


@given(st.fixed_dictionaries(dict.fromkeys([*NAMES, LINGER], TIMES)))
def test_timeouts_are_accepted_exactly_when_they_fit_each_other(times: dict[str, int]) -> None:
    fits = (
        min(times[each] for each in NAMES) >= 1
        and times[LINGER] >= 0
        and 3 * times["fetch_wait_ms"] <= times["fetch_timeout_ms"]
        and times["fetch_wait_ms"] < times["request_timeout_ms"]
    )
    if fits:
        Timeouts(**times)
    else:
        with pytest.raises(ValueError, match=r"_ms"):
            Timeouts(**times)


@pytest.mark.parametrize("name", NAMES)
def test_a_time_below_one_millisecond_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be at least 1 ms, not 0$"):
        Timeouts(**{name: 0})


@pytest.mark.parametrize("linger_ms", [-1, FETCH_WAIT_MS_MAX + 1])
def test_observers_linger_no_longer_than_their_fetches_wait(linger_ms: int) -> None:
    with pytest.raises(ValueError, match=rf"^{LINGER} must be from 0 to 500 ms, not {linger_ms}$"):
        Timeouts(observer_linger_ms=linger_ms)


def test_a_refusal_names_both_times_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"fetch_timeout_ms \(1000\) .* fetch_wait_ms \(500\)"):
        Timeouts(fetch_timeout_ms=1_000)
    with pytest.raises(ValueError, match=r"request_timeout_ms \(500\) .* fetch_wait_ms \(500\)"):
        Timeouts(request_timeout_ms=500)


def test_a_leader_checks_its_quorum_after_one_and_a_half_fetch_timeouts() -> None:
    assert Timeouts().check_quorum_ms == 3_000

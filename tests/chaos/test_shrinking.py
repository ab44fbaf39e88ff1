"""A failing run is reduced to a small one that fails in the same way."""

from dataclasses import replace

from chaos.shrink import RUNS_MAX, Failed, Shrinking
from chaos.simulation.profile import CALM, Fault, Profile

BUSY = next(seed for seed in range(100) if len(Profile.drawn(seed).strikes) > 40)
WHOLE = Failed(at_ms=60_000, events=10_000)


def kills(profile: Profile) -> int:
    return sum(each.fault is Fault.HEAL for each in profile.strikes)


def test_irrelevant_strikes_and_rates_are_left_out() -> None:
    profile = Profile.drawn(BUSY)

    def fails(less: Profile) -> Failed | None:
        is_slow = less.rates.flush_ms_max == profile.rates.flush_ms_max
        return WHOLE if kills(less) >= 3 and is_slow else None

    small = Shrinking(fails).smallest(profile, WHOLE)
    assert [each.fault for each in small.strikes] == [Fault.HEAL] * 3
    assert small.rates == replace(CALM, flush_ms_max=profile.rates.flush_ms_max)
    assert small.faults == ()
    assert (small.voters, small.observers) == (min(3, profile.voters), 0)


def test_strikes_after_the_failure_are_the_first_to_go() -> None:
    profile = Profile.drawn(BUSY)
    middle_ms = profile.strikes[len(profile.strikes) // 2].at_ms
    tried: list[Profile] = []

    def fails(less: Profile) -> Failed | None:
        tried.append(less)
        return None

    Shrinking(fails).smallest(profile, Failed(at_ms=middle_ms, events=100))
    assert max(each.at_ms for each in tried[0].strikes) <= middle_ms


def test_another_seed_that_fails_sooner_is_taken() -> None:
    profile = Profile.drawn(BUSY)

    def fails(less: Profile) -> Failed | None:
        return Failed(at_ms=900, events=40 if less.seed == 75 else 500)

    assert Shrinking(fails).smallest(profile, WHOLE).seed == 75


def test_strikes_are_moved_to_the_beginning() -> None:
    profile = Profile.drawn(BUSY)

    def fails(less: Profile) -> Failed | None:
        return WHOLE if kills(less) else None

    (left,) = Shrinking(fails).smallest(profile, WHOLE).strikes
    heals = [each.at_ms for each in profile.strikes if each.fault is Fault.HEAL]
    assert left.at_ms in [each // 16 for each in heals]


def test_a_run_of_which_everything_matters_stays_as_it_is() -> None:
    profile = Profile.drawn(BUSY)
    tried: list[Profile] = []

    def fails(less: Profile) -> Failed | None:
        tried.append(less)
        return None

    assert Shrinking(fails).smallest(profile, WHOLE) == profile
    assert len(tried) <= RUNS_MAX


def test_the_search_ends_when_its_time_is_up() -> None:
    profile = Profile.drawn(BUSY)
    tried: list[Profile] = []

    def fails(less: Profile) -> Failed | None:
        tried.append(less)
        return WHOLE

    Shrinking(fails, lambda: len(tried) >= 3).smallest(profile, WHOLE)
    assert len(tried) == 3

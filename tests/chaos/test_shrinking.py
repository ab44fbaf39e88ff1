"""A failing run is reduced to a small one that fails in the same way."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from chaos.cli import main, profile_of
from chaos.shrink import RUNS_MAX, Kept, shrink
from chaos.simulation.profile import CALM, Fault, Profile

BUSY = next(seed for seed in range(100) if len(Profile.drawn(seed).strikes) > 40)


def kills(profile: Profile) -> int:
    return sum(each.fault is Fault.HEAL for each in profile.strikes)


def test_irrelevant_strikes_and_rates_are_left_out() -> None:
    profile = Profile.drawn(BUSY)
    kept = shrink(profile, lambda less: kills(less) >= 3 and less.rates.flush_ms_max > 1)
    small = kept.of(profile)
    assert [each.fault for each in small.strikes] == [Fault.HEAL] * 3
    assert small.rates == replace(CALM, flush_ms_max=profile.rates.flush_ms_max) or (
        small.rates == CALM
    )
    assert small.faults == ()


def test_a_run_of_which_everything_matters_stays_as_it_is() -> None:
    profile = Profile.drawn(BUSY)
    asked: list[Profile] = []

    def fails(less: Profile) -> bool:
        asked.append(less)
        return False

    assert shrink(profile, fails) == Kept.all_of(profile)
    assert len(asked) <= RUNS_MAX


def test_a_small_run_can_be_told_in_one_line_and_run_again() -> None:
    profile = Profile.drawn(BUSY)
    kept = Kept((1, 4), Kept.all_of(profile).rates[:1])
    assert kept.command(BUSY) == (
        f"python -m chaos run --seed {BUSY} --strikes '1,4' --rates '{kept.rates[0]}'"
    )
    assert profile_of(BUSY, "1,4", kept.rates[0]) == kept.of(profile)


@pytest.mark.parametrize(("option", "value"), [("--strikes", "100000"), ("--rates", "dust")])
def test_strikes_that_a_seed_does_not_have_cannot_be_kept(option: str, value: str) -> None:
    told = CliRunner().invoke(main, ["run", "--seed", str(BUSY), option, value])
    assert told.exit_code == 2
    assert f"seed {BUSY} has no {value}" in told.output


def test_one_seed_is_run_and_told() -> None:
    told = CliRunner().invoke(main, ["run", "--seed", "3"])
    assert told.exit_code == 0, told.output
    assert "records committed, hash" in told.output


@pytest.mark.thorough
def test_many_seeds_end_with_one_line() -> None:
    told = CliRunner().invoke(main, ["run", "--seeds", "2", "--base", "7", "--jobs", "1"])
    assert told.exit_code == 0, told.output
    assert told.output.strip().splitlines()[-1].startswith("2 seeds in ")
    assert told.output.strip().endswith("0 failed")

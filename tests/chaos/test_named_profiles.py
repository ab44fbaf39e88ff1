"""Profiles that a user names: each has its own faults, and passes."""

import pytest

from chaos.cluster.profile import ClusterProfile
from chaos.outcome import run
from chaos.profile_names import PROFILES
from chaos.simulation.named_profiles import FOCUSES, drawn
from chaos.simulation.profile import Fault, Hostility, Profile


def test_every_focus_is_a_profile_that_can_be_named() -> None:
    assert FOCUSES.keys() < PROFILES.keys()


def test_everything_is_quorums_and_clusters_in_turn() -> None:
    kinds = [isinstance(drawn(seed, "everything"), ClusterProfile) for seed in range(4)]
    assert kinds == [False, True, False, True]
    assert drawn(4, "everything") == Profile.drawn(4)


@pytest.mark.parametrize("name", FOCUSES)
def test_a_focused_profile_has_faults_of_its_own_alone(name: str) -> None:
    profiles = [drawn(seed, name) for seed in range(60)]
    strikes = {each.fault for profile in profiles for each in profile.strikes}
    assert strikes <= {*FOCUSES[name].faults, Fault.HEAL}
    assert {*FOCUSES[name].faults} <= strikes
    assert all(each.hostility is Hostility.NONE for each in profiles)
    assert drawn(7, name) == drawn(7, name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", FOCUSES)
def test_the_product_passes_each_of_them(name: str) -> None:
    for seed in (0, 1):
        failure = run(drawn(seed, name)).failure
        assert failure is None, f"{name} {seed}: {failure}"

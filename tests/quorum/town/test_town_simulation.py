"""Random towns hold R13, R19 and R22, settle in the end, and notice every planted fault."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from quorum.cluster import Cluster
from quorum.core import founding
from quorum.gossip import Gossip, Sighting
from tests.quorum.town.residents import Resident
from tests.quorum.town.town_judge import TownBroken
from tests.quorum.town.town_simulation import RandomTown

CLEAN_SEEDS: Final = 10
SEEDS_MAX: Final = 40
"""Within so many seeds a fault must have been noticed."""

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", range(CLEAN_SEEDS))
def test_a_random_town_keeps_its_promises_and_settles(seed: int) -> None:
    RandomTown(seed).run()


def test_the_same_seed_is_the_same_town() -> None:
    first, second = RandomTown(3), RandomTown(3)
    assert first.run() == second.run()
    assert list(first.town.state()) == list(second.town.state())


def older_boot_replaces_newer(patch: pytest.MonkeyPatch) -> None:
    right = Gossip.learn

    def credulous(self: Gossip, heard: Iterable[Sighting]) -> tuple[Sighting, ...]:
        heard = tuple(heard)
        news = right(self, heard)
        for each in heard:
            if self.me is None or each.id != self.me.id:
                self._sightings[each.id] = each
        return news

    patch.setattr(Gossip, "learn", credulous)


def stands_although_a_majority_is_unknown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(founding, "may_stand", lambda state: state.is_voter)


def founds_although_a_quorum_was_found(patch: pytest.MonkeyPatch) -> None:
    right = founding.may_stand

    def deaf(state: Any) -> bool:
        state.beginning.has_found = False
        return right(state)

    patch.setattr(founding, "may_stand", deaf)


def cluster_id_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cluster, "refusal", lambda *_: None)


def boot_timestamp_is_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    def by_the_clock(self: Resident, now_ms: int) -> int:
        self.last_boot = max(0, now_ms + self.wall_offset_ms)
        return self.last_boot

    patch.setattr(Resident, "next_boot", by_the_clock)
    patch.setattr(Gossip, "contradiction", lambda *_: None)


MUTANTS: Final[list[tuple[Plant, set[str]]]] = [
    (older_boot_replaces_newer, {"R22"}),
    (stands_although_a_majority_is_unknown, {"majority"}),
    # A node whose committed records would be undone by the second founder's stops itself.
    (founds_although_a_quorum_was_found, {"R19", "stopped"}),
    (cluster_id_is_not_checked, {"R13", "R19", "liveness"}),
    (boot_timestamp_is_the_wall_clock, {"R22"}),
]


@pytest.mark.parametrize(
    ("plant", "caught_by"), MUTANTS, ids=[plant.__name__ for plant, _ in MUTANTS]
)
def test_a_planted_fault_is_noticed(
    plant: Plant, caught_by: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = next(filter(None, map(broken_in, range(SEEDS_MAX))), None)
    assert found is not None, "no town has noticed it"
    assert found.invariant in caught_by, found


def broken_in(seed: int) -> TownBroken | None:
    """What does not hold in this town, if anything."""
    try:
        RandomTown(seed).run()
    except TownBroken as broken:
        return broken
    except AssertionError as failed:
        return TownBroken("stopped", str(failed))
    return None

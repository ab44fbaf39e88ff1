import pytest

from tests.quorum.core.judge import Violation
from tests.quorum.core.mutants import Mutant
from tests.quorum.core.mutants_of_voters import MUTANTS
from tests.quorum.core.simulation import simulate

SEEDS_MAX = 600


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_simulation_catches(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    first = mutant.first_seed
    assert any(catches(mutant, seed) for seed in range(first, first + SEEDS_MAX))


def catches(mutant: Mutant, seed: int) -> bool:
    """Whether the seed fails, and for the reason that it should; others are no proof."""
    try:
        simulate(seed)
    except Violation as violation:
        return violation.rule in mutant.caught_by
    except AssertionError:
        return False
    return False

"""The model detects each fault planted in the product, by the expected rule."""

import subprocess
import sys

import pytest

from chaos.mutants.mutant import Mutant
from chaos.mutants.partitions import PARTITIONS, RARE
from tests.support.tree import ROOT

pytestmark = [pytest.mark.interpreted, pytest.mark.thorough]

SEEDS = 400
RULES = {f"P{number}" for number in (*range(1, 18), 25)}


def test_there_is_a_fault_for_each_rule() -> None:
    assert {rule for mutant in PARTITIONS for rule in mutant.caught_by} == RULES


@pytest.mark.parametrize("mutant", [*PARTITIONS, *RARE], ids=str)
def test_a_random_log_shows_the_fault(mutant: Mutant) -> None:
    numbers = (str(mutant.log_seed), str(SEEDS))
    command = [
        sys.executable,
        "-m",
        "tests.chaos.cluster.random_logs_of_mutant",
        mutant.name,
        *numbers,
    ]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    said = ended.stdout.splitlines()
    assert said, f"{SEEDS} logs show nothing: {ended.stderr}"
    assert said[-1].split()[1] in mutant.caught_by, "\n".join(said[:5])

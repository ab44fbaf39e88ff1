"""The table of mutants: mutants that ran have new rows, all others keep theirs."""

import pytest

from chaos.mutants.catalogue import MUTANTS
from chaos.mutants.runner import HEAD, Verdict, document

ONE, OTHER = MUTANTS[:2]


def verdict(seed: int) -> Verdict:
    return Verdict(mutant=OTHER, seed=seed, rule="R2", directed_fails=True, output="")


def test_a_row_is_replaced_by_what_came_of_the_run_and_others_stay() -> None:
    names = [ONE.name, OTHER.name]
    before = f"{HEAD}| {ONE} | as it was |\n| {OTHER} | as it was |\n"
    assert document([verdict(3)], before, names) == f"{HEAD}| {ONE} | as it was |\n{verdict(3)}\n"


def test_a_mutant_that_did_not_run_and_has_no_row_is_missed() -> None:
    with pytest.raises(KeyError, match=ONE.name):
        document([verdict(3)], "", [ONE.name, OTHER.name])

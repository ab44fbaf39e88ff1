"""The harness can fail: every fault that we plant is found, by seeds and by a test of its own."""

from pathlib import Path

import pytest

from chaos.mutants.catalogue import MUTANTS, named
from chaos.mutants.mutant import DoesNotApply, Mutant
from chaos.mutants.running import HEAD, Verdict, judge
from chaos.mutants.unseen import UNSEEN
from tests.support.tree import ROOT

SEEDS = 20
"""So many are tried, from the one that caught it when it was written: in all some minutes."""
DOCUMENT = ROOT / "docs" / "mutants.md"
PAGE = ROOT / "docs" / "chaos.md"


@pytest.mark.parametrize("mutant", [*MUTANTS, *UNSEEN], ids=str)
def test_a_mutant_applies_to_the_product_as_it_is(mutant: Mutant) -> None:
    path = source_of(mutant)
    planted = mutant.planted_in(path.read_text(encoding="utf-8"))
    compile(planted, path, "exec", dont_inherit=True)
    assert bool(mutant.caught_by) != bool(mutant.unseen)
    assert mutant.directed


def test_mutants_have_names_of_their_own() -> None:
    names = [each.name for each in (*MUTANTS, *UNSEEN)]
    assert len({*names}) == len(names)


def test_a_mutant_that_applies_no_more_says_what_to_do() -> None:
    mutant = MUTANTS[0]
    with pytest.raises(DoesNotApply, match=r"its text is 0 times in quorum\.core\.node"):
        mutant.planted_in("")
    with pytest.raises(DoesNotApply, match="its text is 2 times"):
        mutant.planted_in(mutant.old * 2)


def test_a_seed_that_must_fail_does_fail() -> None:
    verdict = judge(named("a vote leaves before it is durable"), seeds=1)
    assert (verdict.seed, verdict.rule) == (0, "R3"), verdict.said


@pytest.mark.process
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    verdict = judge(mutant, seeds=SEEDS, first=mutant.seed)
    assert verdict.seed is not None, verdict.said
    assert verdict.directed_fails, verdict.said


@pytest.mark.process
@pytest.mark.parametrize("mutant", UNSEEN, ids=str)
def test_a_mutant_that_no_seed_can_show_is_shown_by_its_test(mutant: Mutant) -> None:
    verdict = judge(mutant, seeds=0)
    assert verdict.directed_fails, verdict.said


def test_what_no_seed_can_show_is_said_with_the_reason() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for each in UNSEEN:
        directed = each.directed.rpartition("::")[2]
        assert f"| {each} | {each.unseen} | `{directed}` |" in page


def test_the_table_of_mutants_names_those_that_there_are_in_their_order() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    assert written.startswith(HEAD)
    rows = [line.split(" | ")[0].removeprefix("| ") for line in written[len(HEAD) :].splitlines()]
    assert rows == [each.name for each in MUTANTS]


def test_a_verdict_without_a_seed_or_without_a_test_is_no_catch() -> None:
    mutant = MUTANTS[0]
    caught = Verdict(mutant=mutant, seed=3, rule="R3", directed_fails=True, said="")
    unseen = Verdict(mutant=mutant, seed=None, rule="not caught", directed_fails=True, said="")
    untested = Verdict(mutant=mutant, seed=3, rule="R3", directed_fails=False, said="")
    assert [each.is_caught for each in (caught, unseen, untested)] == [True, False, False]


def source_of(mutant: Mutant) -> Path:
    return ROOT.joinpath(*mutant.module.split(".")).with_suffix(".py")

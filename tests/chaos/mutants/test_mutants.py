"""Every planted fault is found, by seeds and by a test of its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.mutants.catalogue import MUTANTS, named
from chaos.mutants.directed_only import UNSEEN
from chaos.mutants.mutant import DoesNotApply, Mutant
from chaos.mutants.runner import HEAD, TESTS_FAILED, Verdict, judge
from tests.fork_server.client import ForkServer
from tests.support.child_environment import show_hypothesis
from tests.support.tree import ROOT

pytestmark = pytest.mark.interpreted

SEEDS = 20
"""The number of seeds to try, from the one that caught the mutant before: minutes in all."""
EVERY = 5
"""One in so many is planted in the ordinary suite, and all of them in `make long`."""
DOCUMENT = ROOT / "docs" / "mutants.md"
PAGE = ROOT / "docs" / "chaos.md"


@pytest.fixture(scope="module")
def forking() -> Iterator[ForkServer]:
    with pytest.MonkeyPatch.context() as patch:
        show_hypothesis(patch)
        it = ForkServer("tests.chaos.mutants.preload")
    yield it
    it.close()


def found(forking: ForkServer, mutant: Mutant, seeds: int) -> dict[str, Any]:
    """The findings of `python -m chaos.mutants` for it, from the seed that caught it."""
    ended = forking.run("chaos.mutants", mutant.name, str(mutant.seed), str(seeds))
    assert ended.code == 0, ended.said
    assert ended.last_line.startswith("{"), ended.said
    return {"said": ended.said, **json.loads(ended.last_line)}


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
    with pytest.raises(DoesNotApply, match=r"its text occurs 0 times in quorum\.core\.node"):
        mutant.planted_in("")
    with pytest.raises(DoesNotApply, match="its text occurs 2 times"):
        mutant.planted_in(mutant.old * 2)


def test_a_seed_that_must_fail_does_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    show_hypothesis(monkeypatch)
    verdict = judge(named("a vote leaves before it is durable"), seeds=1)
    assert (verdict.seed, verdict.rule) == (0, "R3"), verdict.output


@pytest.mark.process
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, marks=[] if place % EVERY == 0 else [pytest.mark.long])
        for place, each in enumerate(MUTANTS)
    ],
    ids=str,
)
def test_a_mutant_is_caught(mutant: Mutant, forking: ForkServer) -> None:
    caught = found(forking, mutant, SEEDS)
    assert caught["seed"] is not None, caught["said"]
    assert caught["directed"] == TESTS_FAILED, caught["said"]


@pytest.mark.process
@pytest.mark.parametrize("mutant", UNSEEN, ids=str)
def test_a_mutant_that_no_seed_can_show_is_shown_by_its_test(
    mutant: Mutant, forking: ForkServer
) -> None:
    shown = found(forking, mutant, 0)
    assert shown["directed"] == TESTS_FAILED, shown["said"]


@pytest.mark.process
def test_without_a_fault_directed_tests_pass_where_mutants_run(forking: ForkServer) -> None:
    """A failure in a fork comes from the fault, and not from the fork."""
    stories = [each for each in MUTANTS if "/" not in each.directed]
    tests = [name for each in (stories[0], stories[-1]) for name in each.test_arguments]
    ended = forking.run("pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert ended.code == 0, ended.said


@pytest.mark.process
def test_the_exit_of_each_forked_program_is_reported(forking: ForkServer) -> None:
    assert forking.run("chaos.mutants", "no such mutant", "0", "1").code == 1
    assert forking.run("chaos", "--no-such-option").code == 2


def test_faults_that_no_seed_detects_have_a_reason() -> None:
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
    caught = Verdict(mutant=mutant, seed=3, rule="R3", directed_fails=True, output="")
    unseen = Verdict(mutant=mutant, seed=None, rule="not caught", directed_fails=True, output="")
    untested = Verdict(mutant=mutant, seed=3, rule="R3", directed_fails=False, output="")
    assert [each.is_caught for each in (caught, unseen, untested)] == [True, False, False]


def source_of(mutant: Mutant) -> Path:
    return ROOT.joinpath(*mutant.module.split(".")).with_suffix(".py")

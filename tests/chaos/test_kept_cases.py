"""Kept cases: runs that once broke a promise pass for ever after.

`metaquorum chaos sim --save tests/chaos/cases/NAME.json` adds one. The file has the whole profile,
so that it stays the same run as long as the simulation draws nothing else on the way.
"""

import difflib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from chaos.case import Case, InvalidCase, read_case
from chaos.cluster.profile import ClusterProfile
from chaos.mutants.catalogue import named
from chaos.outcome import run
from chaos.simulation.named_profiles import FOCUSES, drawn
from chaos.simulation.profile import Profile
from chaos.story.promises import PROMISES
from tests.support import tree

HERE: Final = Path(__file__).parent
CASES: Final = sorted((HERE / "cases").glob("*.json"))
PLANTED: Final = {
    "two_votes_in_one_epoch": "a voter votes twice in an epoch",
    "committed_before_it_is_written": "a leader counts itself before it has written",
}
"""Cases whose fault the catalogue of mutants has."""
RULE: Final = re.compile(r"[RPLM]\d+|liveness")
REPEATED: Final = 'the story is another one; if it is right, "make golden".'


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_kept_case_passes(path: Path) -> None:
    case = read_case(path)
    failure = run(case.profile, limit_ms=case.limit_ms, recorded=True).failure
    # Less may happen in a run without the fault: too little is no violation.
    assert failure is None or failure.rule == "harness", failure


@pytest.mark.interpreted
@pytest.mark.parametrize("name", PLANTED)
def test_its_fault_makes_a_case_fail_and_the_story_shows_it(name: str, rewrite: bool) -> None:
    case = HERE / "cases" / f"{name}.json"
    story = _story_with(PLANTED[name], case)
    rule = read_case(case).rule
    assert story.startswith(f"{rule} is violated: ")
    assert rule in named(PLANTED[name]).caught_by
    recorded = HERE / "stories" / f"{name}.txt"
    if rewrite:
        recorded.write_text(story, encoding="utf-8")
    before = recorded.read_text(encoding="utf-8")
    changes = difflib.unified_diff(before.splitlines(), story.splitlines(), lineterm="")
    assert story == before, "\n".join([REPEATED, *changes])


def _story_with(mutant: str, case: Path) -> str:
    """The story of a case in a process of its own, whose product has the fault."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.case_with_fault", mutant, str(case)],
        cwd=tree.ROOT,
        env={**os.environ, "PYTHONPATH": str(tree.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "profile",
    [Profile.drawn(3), ClusterProfile.drawn(3), *(drawn(5, name) for name in FOCUSES)],
    ids=str,
)
def test_a_case_has_the_whole_profile(profile: Profile, tmp_path: Path) -> None:
    case = Case(profile=profile, rule="R1", text="two leaders", at_ms=7, made_by="metaquorum 0.1.0")
    path = tmp_path / "case.json"
    path.write_text(case.to_json(), encoding="utf-8")
    assert read_case(path) == case


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": "other"}, "it lacks"),
        ({"version": 2}, "its version is 2; this release runs 1"),
        ({"kind": "town"}, "its kind is 'town', not one of quorum, cluster"),
        ({"profile": {}}, "missing required field"),
        ({"profile": {"speed": 1}}, "its profile has speed, unknown"),
        ({"profile": {"faults": ["STORM"]}}, "it names 'STORM', which is no fault"),
    ],
)
def test_a_file_that_is_no_case_is_refused_in_one_sentence(
    changes: dict[str, object], why: str, tmp_path: Path
) -> None:
    case = Case(profile=Profile.drawn(3), rule="R1", text="", at_ms=7, made_by="")
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**json.loads(case.to_json()), **changes}), encoding="utf-8")
    with pytest.raises(InvalidCase, match=why) as refused:
        read_case(path)
    assert "\n" not in str(refused.value)


def test_stories_have_the_promises_of_the_pages() -> None:
    rows: dict[str, str] = {}
    for page in ("chaos.md", "embedding.md"):
        for line in (tree.ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
            rule, _, text = line.removeprefix("| ").removesuffix(" |").partition(" | ")
            if RULE.fullmatch(rule):
                rows[rule] = text
    assert rows == {rule: promise.text for rule, promise in PROMISES.items()}

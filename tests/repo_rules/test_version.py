"""The version has one place, and a tag, a changelog and a build that agree with it."""

import re
import subprocess
import tomllib

import pytest

from quorum.discovery.gossip import VERSION_CHARACTERS_MAX, version_of_peer
from quorum.version import VERSION
from tests.support.tree import ROOT


def git(*words: str) -> str:
    """The answer of git about the tree; the test is skipped where there is no history."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this tree has no history")
    return done.stdout.strip()


def test_the_build_takes_the_version_from_its_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    told = project["tool"]["hatch"]["version"]
    match = re.search(told["pattern"], (ROOT / told["path"]).read_text(encoding="utf-8"))
    assert match is not None
    assert match["version"] == VERSION


def test_the_first_section_of_the_changelog_is_that_of_the_version() -> None:
    """A released version has its tag; the commit after it raises the version."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (\S+), (unreleased|\d{4}-\d\d-\d\d)$", text, re.MULTILINE)
    assert first is not None
    assert first[1] == VERSION
    tags = git("tag", "--list", f"v{VERSION}")
    if first[2] == "unreleased":
        assert not tags, f"v{VERSION} is released: raise the version in quorum/version.py"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("0.2.0", "0.2.0"),
        (None, ""),
        ("", ""),
        ("1" * (VERSION_CHARACTERS_MAX + 1), ""),
        ("0.1.0\x1b[31m", ""),
        ("0.1.0\N{BULLET}", ""),
    ],
)
def test_a_peer_names_a_short_printable_version_or_none(said: str | None, version: str) -> None:
    assert version_of_peer(said) == version

"""The dependencies in pyproject.toml, the locks and docs/dependencies.md are the same ones."""

import re
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import tree

LOCKS: Final = {
    name: (tree.ROOT / "requirements" / name).read_text(encoding="utf-8")
    for name in ("lock.txt", "spark.txt")
}
RUN: Final = (tree.ROOT / "requirements" / "run.txt").read_text(encoding="utf-8")
"""What is installed to run a node, without what tests and builds need."""
DOCUMENT: Final = (tree.ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\$", re.MULTILINE)
DOCUMENTED: Final = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
# Spark is installed where there is a Java to run it, from a lock of its own.
SPARK: Final = "spark"


def declared(lock: str) -> list[Requirement]:
    """Everything that pyproject.toml asks for and this lock has: to run, by extra, and to build."""
    metadata = tree.pyproject()
    extras = metadata["project"]["optional-dependencies"]
    lines = list(extras[SPARK])
    if lock == "lock.txt":
        lines = [*metadata["project"]["dependencies"], *metadata["build-system"]["requires"]]
        lines += [line for extra, wanted in extras.items() if extra != SPARK for line in wanted]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_dependency_to_a_version_that_pyproject_allows(lock: str) -> None:
    pins = {canonicalize_name(name): version for name, version in PIN.findall(LOCKS[lock])}
    for requirement in declared(lock):
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not in the lock: make lock"
        assert requirement.specifier.contains(pinned), f"{requirement} but {pinned}: make lock"


def test_no_package_is_in_both_locks() -> None:
    """They are installed into one environment, one after the other."""
    one, other = ({canonicalize_name(name) for name, _ in PIN.findall(LOCKS[at])} for at in LOCKS)
    assert not one & other


def test_what_runs_a_node_has_the_pins_and_hashes_of_the_lock() -> None:
    pinned, all_pinned = blocks(RUN), blocks(LOCKS["lock.txt"])
    assert {name: all_pinned.get(name) for name in pinned} == pinned
    metadata = tree.pyproject()["project"]
    wanted = [*metadata["dependencies"], *metadata["optional-dependencies"]["fast"]]
    names = {canonicalize_name(Requirement(each).name) for each in wanted}
    assert names <= pinned.keys()
    assert not pinned.keys() & {"hatchling", "mypy", "pytest", "setuptools"}


def blocks(lock: str) -> dict[str, list[str]]:
    """The pin and the hashes of each package."""
    found = dict[str, list[str]]()
    for block in re.split(r"\n(?=\S+==)", lock)[1:]:
        lines = [line.rstrip(" \\") for line in block.splitlines() if "#" not in line]
        found[canonicalize_name(lines[0].partition("==")[0])] = [each for each in lines if each]
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_is_a_pin_a_hash_or_a_comment(lock: str) -> None:
    """No line names an index or a folder: each machine fetches from where it is set up to."""
    allowed = re.compile(
        r"|\s*#(?!.*(://|/\w+/)).*"
        r"|[\w.-]+==\S+ \\"
        r"|    --hash=sha256:[0-9a-f]{64}( \\)?"
    )
    found = [line for line in LOCKS[lock].splitlines() if not allowed.fullmatch(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash(lock: str) -> None:
    for pin in re.split(r"\n(?=\S+==)", LOCKS[lock])[1:]:
        assert "--hash=sha256:" in pin, pin


def test_the_document_lists_exactly_the_declared_dependencies() -> None:
    names = sorted(requirement.name for lock in LOCKS for requirement in declared(lock))
    assert sorted(DOCUMENTED.findall(DOCUMENT)) == names

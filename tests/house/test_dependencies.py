"""The dependencies in pyproject.toml, in the lock and in docs/dependencies.md are the same ones."""

import re
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import tree

LOCK: Final = (tree.ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")
DOCUMENT: Final = (tree.ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\$", re.MULTILINE)
DOCUMENTED: Final = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
# Spark is installed by those who want the lag reports, from a lock of its own.
EXTRAS_OUTSIDE_THE_LOCK: Final = {"spark"}


def declared(*, outside_the_lock: bool) -> list[Requirement]:
    """Everything that pyproject.toml asks for: to run, by extra, and to build."""
    metadata = tree.pyproject()
    lines = [*metadata["project"]["dependencies"], *metadata["build-system"]["requires"]]
    for extra, wanted in metadata["project"]["optional-dependencies"].items():
        if outside_the_lock or extra not in EXTRAS_OUTSIDE_THE_LOCK:
            lines += wanted
    return [Requirement(line) for line in lines]


def test_the_lock_pins_every_dependency_to_a_version_that_pyproject_allows() -> None:
    pins = {canonicalize_name(name): version for name, version in PIN.findall(LOCK)}
    for requirement in declared(outside_the_lock=False):
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not in the lock: make lock"
        assert requirement.specifier.contains(pinned), f"{requirement} but {pinned}: make lock"


def test_every_line_of_the_lock_is_a_pin_a_hash_or_a_comment() -> None:
    """No line names an index or a folder: each machine fetches from where it is set up to."""
    allowed = re.compile(
        r"|\s*#(?!.*(://|/\w+/)).*"
        r"|[\w.-]+==\S+ \\"
        r"|    --hash=sha256:[0-9a-f]{64}( \\)?"
    )
    found = [line for line in LOCK.splitlines() if not allowed.fullmatch(line)]
    assert not found, "\n".join(found)


def test_every_pin_has_a_hash() -> None:
    for pin in re.split(r"\n(?=\S+==)", LOCK)[1:]:
        assert "--hash=sha256:" in pin, pin


def test_the_document_lists_exactly_the_declared_dependencies() -> None:
    names = sorted(requirement.name for requirement in declared(outside_the_lock=True))
    assert sorted(DOCUMENTED.findall(DOCUMENT)) == names

"""docs/quorum.md and docs/moves.md: every named holder of a promise exists."""

import ast
import re
from typing import Final

import pytest

from tests.support import tree

DOCS: Final = tree.ROOT / "docs"
BEGINS: Final = {"quorum.md": "# What the quorum promises", "moves.md": "## What is promised"}
"""The start of the tables of promises on each page."""
TRANSCRIPTS: Final = tree.ROOT / "tests" / "transcripts"
RULE: Final = re.compile(r"\b[RLP]\d+\b")
NAMED: Final = re.compile(r"`([^`]+)`")


def promises() -> list[tuple[str, str]]:
    """Each promise of the pages, and what is said to hold it."""
    rows = [
        tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))
        for page, begins in BEGINS.items()
        for line in (DOCS / page).read_text(encoding="utf-8").partition(begins)[2].splitlines()
        if line.startswith("|")
    ]
    tables = [row for row in rows if not row[0].startswith(("---", "promise", "what happened"))]
    assert all(len(row) == 3 for row in tables), [row for row in tables if len(row) != 3]
    return [(row[0], row[-1]) for row in tables]


def rules() -> set[str]:
    """The invariants that the simulation can find violated, by the strings that name them."""
    return {
        node.value
        for path in tree.python_files("chaos")
        if RULE.search(text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and RULE.fullmatch(node.value)
    }


def test_every_named_holder_of_a_promise_exists() -> None:
    known = {*tree.names_of_tests(), *rules(), *(path.stem for path in TRANSCRIPTS.glob("*.txt"))}
    found = [
        f"{name}: {promise}"
        for promise, holders in promises()
        for name in (*NAMED.findall(holders), *RULE.findall(NAMED.sub("", holders)))
        if name not in known
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: str(promise[0]))
def test_every_promise_has_a_holder(promise: tuple[str, str]) -> None:
    assert NAMED.search(promise[1]) or RULE.search(promise[1]), promise[0]

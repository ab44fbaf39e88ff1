"""Docstrings open with a noun phrase or an imperative, not with a bare relative clause."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support import tree

RELATIVE: Final = re.compile(
    r"(Who|What|Whom|Whose|Whether|How|Where|When|Which|Why)(ever|soever)?\b"
)
QUOTED: Final = re.compile(rf"[\"'](\\\n|\s)*{RELATIVE.pattern}")
"""Any string that opens with one: only a file that has one is parsed."""


@pytest.mark.parametrize("package", [*tree.PACKAGES, "tests", "bench"])
def test_docstrings_do_not_open_with_a_relative_clause(package: str) -> None:
    found = [
        f"{tree.shown(path)}:{line} {text}"
        for path in tree.python_files(package)
        if QUOTED.search(path.read_text(encoding="utf-8"))
        for line, text in first_lines(path)
        if RELATIVE.match(text)
    ]
    assert not found, "\n".join(found)


def first_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The first line of each docstring of the file, with its number."""
    for node in tree.statements(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text.partition("\n")[0]

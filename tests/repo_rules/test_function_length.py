"""The length of functions in the pure packages."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support import tree

FUNCTION_LINES_MAX: Final = 40


def test_no_function_of_the_pure_cores_has_more_than_40_lines() -> None:
    found = [
        f"{name}: {lines} lines"
        for path in tree.python_files("quorum/core", "statemachine")
        for name, lines in function_lengths(path)
        if lines > FUNCTION_LINES_MAX
    ]
    assert not found, "\n".join(found)


def function_lengths(path: Path) -> Iterator[tuple[str, int]]:
    """Every function of the file, by file, line and name, with its lines from `def` to its end."""
    for node in tree.statements(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            yield f"{tree.shown(path)}:{node.lineno} {node.name}", lines

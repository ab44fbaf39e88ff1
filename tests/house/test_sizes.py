"""Sizes, held from the first day. There is no list of exceptions, and there will be none."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support import tree

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 40
SOURCE_SUFFIXES: Final = {".py", ".js", ".css", ".html", ".sh"}


def test_no_source_file_has_more_than_400_lines() -> None:
    lengths = [
        (tree.shown(path), len(path.read_text(encoding="utf-8").splitlines()))
        for path in tree.files(*tree.FOLDERS)
        if path.suffix in SOURCE_SUFFIXES
    ]
    assert lengths
    found = [f"{name}: {lines} lines" for name, lines in lengths if lines > FILE_LINES_MAX]
    assert not found, "\n".join(found)


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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            yield f"{tree.shown(path)}:{node.lineno} {node.name}", lines

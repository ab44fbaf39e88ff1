"""The files of the project, for the rules of the repository. It reads, and never imports them."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("quorum", "statemachine", "controller", "broker", "admin", "lag", "chaos")
FOLDERS: Final = (*PACKAGES, "tests", "bench", "docs", "deploy", "requirements", ".ci")
_DEFINITION: Final = re.compile(r"^[ \t]*(?:async )?def (\w+)", re.MULTILINE)
TOP_LEVEL_FILES: Final = ("Makefile", "hatch_build.py", "README.md", "pyproject.toml", ".gitignore")


def pyproject() -> dict[str, Any]:
    """The contents of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def files(*folders: str) -> list[Path]:
    """Every file below `folders` that a person wrote, sorted. Folders yet to come are empty."""
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def python_files(*folders: str) -> list[Path]:
    """Every Python file below `folders`, sorted; never none, lest a rule checks nothing."""
    found = [path for path in files(*folders) if path.suffix == ".py"]
    assert found, f"no Python file below {', '.join(folders)}"
    return found


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project with its content; files that are not UTF-8 are data."""
    for path in [*files(*FOLDERS), *map(ROOT.joinpath, TOP_LEVEL_FILES)]:
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def shown(path: Path) -> str:
    """`path` as a message of a rule names it: from the root of the project."""
    return path.relative_to(ROOT).as_posix()


def statements(path: Path) -> Iterator[ast.AST]:
    """The module of the file and every statement in it; a tenth of the nodes of `ast.walk`."""
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        yield node
        for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, blocks, ())


@cache
def names_of_tests() -> frozenset[str]:
    """The names of all tests, and of what helps them: of functions, by the lines that begin them.

    The parser takes ten times as long.
    """
    return frozenset(
        name
        for path in python_files("tests")
        for name in _DEFINITION.findall(path.read_text(encoding="utf-8"))
    )

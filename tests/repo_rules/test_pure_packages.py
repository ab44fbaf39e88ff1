"""The permitted imports of the pure cores, as a closed list.

The import contracts in pyproject.toml name what is forbidden; the standard library is larger than
any such list. So here is what is allowed: modules that hold values and compute with them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support import tree

VALUES: Final = frozenset(
    {
        "__future__",
        "abc",
        "array",
        "base64",
        "bisect",
        "collections",
        "copy",
        "dataclasses",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "math",
        "operator",
        "random",
        "re",
        "string",
        "types",
        "typing",
        "uuid",
    }
)
STATE_MACHINE: Final = VALUES | {"statemachine", "difflib", "kio.static", "msgspec", "pyroaring"}
RECORDS: Final = STATE_MACHINE | {"io", "kio.serial", "struct"}


def test_the_core_of_quorum_imports_only_values_of_the_standard_library() -> None:
    found = list(strangers(tree.python_files("quorum/core"), VALUES | {"quorum.core"}))
    assert not found, "\n".join(found)


def test_the_state_machine_imports_only_values_and_its_three_libraries() -> None:
    paths = tree.python_files("statemachine")
    codecs = [path for path in paths if tree.shown(path).startswith("statemachine/records/")]
    others = [path for path in paths if path not in codecs]
    found = [*strangers(others, STATE_MACHINE), *strangers(codecs, RECORDS)]
    assert not found, "\n".join(found)


def strangers(paths: list[Path], allowed: frozenset[str]) -> Iterator[str]:
    """Every import in `paths` of a module that is neither in `allowed` nor inside one of it."""
    for path in paths:
        for line, module in imports(path):
            if not any(f"{module}.".startswith(f"{name}.") for name in allowed):
                yield f"{tree.shown(path)}:{line} imports {module}"


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that the file imports, anywhere in it, with its line."""
    for node in tree.statements(path):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield node.lineno, module
            case _:
                continue

"""docs/glossary.md: modules, classes and functions do not use retired terms."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.support import tree

PAGE: Final = tree.ROOT / "docs" / "glossary.md"


def retired() -> set[str]:
    """The terms of the first column of the table of retired names."""
    _, found, rest = PAGE.read_text(encoding="utf-8").partition("<!-- retired -->\n")
    table, closed, _ = rest.partition("<!-- /retired -->")
    assert found
    assert closed
    rows = [line.strip("|").split("|")[0] for line in table.splitlines()[2:]]
    return {term for row in rows for term in re.findall(r"\w+", row)}


def public_names(terms: set[str]) -> Iterator[tuple[str, str]]:
    """Every module, and the public classes and functions of those that define one of `terms`."""
    defined = re.compile(rf"(?i)^(async\s+)?(class|def)\s+({'|'.join(terms)})\b", re.MULTILINE)
    for path in tree.python_files(*tree.PACKAGES):
        yield path.stem, tree.shown(path)
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if defined.search(text) else ():
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, f"{tree.shown(path)}:{node.lineno} {node.name}"


def test_retired_terms_are_no_names_any_more() -> None:
    terms = retired()
    found = [where for name, where in public_names(terms) if name.lower() in terms]
    assert not found, "\n".join(found)

"""The modules of a compiled wheel, and the constructs that they must not use."""

import ast
import re
from typing import Final

from hatch_build import listed
from tests.support import tree

WITH_BASES: Final = re.compile(r"\bclass\s+\w+[\s\\]*[\[(]")
"""A class that extends another; Python 3.12 may have type parameters before its bases."""


def classes(file: str) -> list[ast.ClassDef]:
    return [node for node in nodes(file) if isinstance(node, ast.ClassDef)]


def nodes(file: str) -> list[ast.AST]:
    return list(tree.statements(tree.ROOT / file))


def modules() -> list[str]:
    build = tree.pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    for pattern in [*build["modules"], *build["interpreted"]]:
        assert list(tree.ROOT.glob(pattern)), f"pyproject.toml lists {pattern}, which is not there"
    return listed(tree.ROOT, build["modules"], build["interpreted"])


def test_no_class_that_is_compiled_is_defined_by_keywords() -> None:
    """mypyc drops `frozen=True` and its like without a word, and a Struct would be another one."""
    found = [
        f"{module}:{each.lineno} {each.name}"
        for module in modules()
        for each in classes(module)
        if each.keywords
    ]
    assert not found, "\n".join(found)


def test_no_class_that_is_interpreted_extends_one_that_is_compiled() -> None:
    """Making the first object of it would fail, where nobody may have looked."""
    compiled = {
        (module.removesuffix(".py").removesuffix("/__init__").replace("/", "."), each.name)
        for module in modules()
        for each in classes(module)
    }
    found, listed_modules = [], set(modules())
    for path in tree.python_files(*tree.PACKAGES, "tests", "bench"):
        file = tree.shown(path)
        if file in listed_modules or not WITH_BASES.search(path.read_text(encoding="utf-8")):
            continue
        all_nodes = nodes(file)
        imported = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in all_nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        found += [
            f"{file}:{each.lineno} {each.name} extends {ast.unparse(base)}"
            for each in all_nodes
            if isinstance(each, ast.ClassDef)
            for base in each.bases
            if imported.get(ast.unparse(base)) in compiled
        ]
    assert not found, "\n".join(found)

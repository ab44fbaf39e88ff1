"""The layout of the tree, and files that it must not have."""

import ast
import importlib
import re
from collections import Counter
from typing import Final

from hatch_build import TREE_ONLY
from tests.support import tree

# Folders that exist on one machine only. What runs elsewhere takes its paths as arguments.
PATH_OF_A_MACHINE: Final = re.compile(r"(?<![\w.~$}/-])/(?:home|root|work|Users|tmp/v)/")


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{tree.shown(path)}:{number} {line.strip()}"
        for path, text in tree.texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if PATH_OF_A_MACHINE.search(line)
    ]
    assert not found, "\n".join(found)


def test_no_test_sleeps() -> None:
    """A pause is too short on a busy machine and too long on any other. `sleep(0)` only yields."""
    found = [
        f"{tree.shown(path)}:{node.lineno}"
        for path in tree.python_files("tests")
        if "sleep" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and sleeps(node)
    ]
    assert not found, "\n".join(found)


def sleeps(call: ast.Call) -> bool:
    """True if `call` is a sleep of any module for more than no time."""
    match call.func:
        case ast.Attribute(attr="sleep") | ast.Name(id="sleep"):
            return not any(isinstance(a, ast.Constant) and a.value == 0 for a in call.args)
        case _:
            return False


def test_file_names_of_tests_are_unique() -> None:
    """A failure is then found by the name of its file alone."""
    names = Counter(path.name for path in tree.python_files("tests"))
    found = [name for name, files in names.items() if name.startswith("test_") and files > 1]
    assert not found, "\n".join(found)


def test_every_package_of_the_product_obeys_the_import_contracts_and_is_shipped() -> None:
    tool = tree.pyproject()["tool"]
    present = {name for name in tree.PACKAGES if tree.files(name)}
    assert present <= set(tool["importlinter"]["root_packages"])
    shipped = tool["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["packages"]
    assert set(tree.PACKAGES) == {*shipped}
    assert all((tree.ROOT / each).exists() for each in TREE_ONLY)


def test_every_installed_command_exists() -> None:
    for command, entry_point in tree.pyproject()["project"]["scripts"].items():
        module, _, function = entry_point.partition(":")
        assert callable(getattr(importlib.import_module(module), function, None)), command

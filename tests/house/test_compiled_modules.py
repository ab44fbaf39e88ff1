"""Which modules a compiled wheel compiles, and what must not stand in them."""

import ast

from hatch_build import listed
from tests.support import tree


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
        for each in ast.walk(ast.parse((tree.ROOT / module).read_text(encoding="utf-8")))
        if isinstance(each, ast.ClassDef) and each.keywords
    ]
    assert not found, "\n".join(found)

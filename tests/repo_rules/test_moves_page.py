"""docs/moves.md: its tables of reasons and settings equal the code."""

import ast
from typing import Final

from statemachine.reassignment.settings import CLUSTER_CONFIGS
from statemachine.reassignment.step import Reason
from tests.support import tree

PAGE: Final = tree.ROOT / "docs" / "moves.md"
REASONS: Final = tree.ROOT / "statemachine" / "reassignment" / "step.py"


def table(name: str) -> list[list[str]]:
    """The rows of the table between the marks of this name, without its head."""
    _, found, after = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    lines, end, _ = after.partition(f"<!-- /{name} -->")
    assert found, f"no table of {name}"
    assert end, f"the table of {name} does not end"
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in lines.splitlines()]
    return rows[2:]


def meanings() -> list[str]:
    """The text of the code for each reason, by its name."""
    (reasons,) = (
        node
        for node in ast.parse(REASONS.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == Reason.__name__
    )
    return [
        str(node.value.value)
        for node in reasons.body[1:]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]


def test_every_reason_is_on_the_page_with_its_meaning_and_what_helps() -> None:
    rows = table("reasons")
    codes = [f"`{reason.value}`" for reason in Reason]
    said = [list(each) for each in zip(codes, meanings(), strict=True)]
    assert [row[:2] for row in rows] == said
    assert all(row[2] for row in rows)


def test_every_setting_is_on_the_page_as_the_code_has_it() -> None:
    said = [
        [f"`{setting.name}`", f"`{setting.default}`", setting.documentation]
        for setting in CLUSTER_CONFIGS.values()
    ]
    assert table("settings") == said

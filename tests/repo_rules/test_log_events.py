"""Every message of a node names its event, and docs/logging.md lists them."""

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from quorum.log_events import LogEvent
from tests.support import tree
from tests.support.logging_page import PAGE, with_table

LEVELS: Final = {"info", "warning", "error", "exception", "critical", "log"}
AUDIT: Final = "quorum/transport/audit_log.py"
"""Its lines are JSON of their own."""


def calls(package: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls of loggers above DEBUG, with the place of each."""
    for path in tree.python_files(package):
        text = path.read_text(encoding="utf-8")
        if tree.shown(path) == AUDIT or "logger" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"), attr=attr)) if (
                    attr in LEVELS
                ):
                    yield f"{tree.shown(path)}:{node.lineno}", node


@pytest.mark.parametrize("package", ["quorum", "controller", "broker", "admin"])
def test_every_message_names_its_event(package: str) -> None:
    without = [
        place
        for place, call in calls(package)
        if "extra" not in [each.arg for each in call.keywords]
    ]
    assert not without, f"extra=LogEvent.X.extra is missing: {without}"


def test_every_event_is_of_a_message_and_has_a_name_of_its_own() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for package in ("quorum", "controller", "broker", "admin")
        for path in tree.python_files(package)
    )
    unused = [each.name for each in LogEvent if f"LogEvent.{each.name}" not in code]
    assert not unused
    names = [each.event for each in LogEvent]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each) for each in names)


def test_the_page_lists_the_events() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page)

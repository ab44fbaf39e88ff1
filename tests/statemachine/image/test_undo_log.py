"""The undo log of uncommitted changes, and its end at the commit."""

from typing import Any

import pytest

from statemachine.image import undo_log
from statemachine.image.undo_log import UndoLog


def undo(*_: Any) -> None:
    """Stands for a method of an image."""


def noted(count: int) -> UndoLog:
    """One change for each offset from 0 on."""
    made = UndoLog(0)
    for offset in range(count):
        made.offset = offset
        made.note(undo, "what", offset)
    return made


def test_the_newest_comes_first_with_its_offset_and_arguments() -> None:
    assert noted(3).since(1) == [(2, undo, "what", 2), (1, undo, "what", 1)]


def test_committed_entries_are_dropped_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_log, "FORGOTTEN_AT_ONCE", 10)
    made = noted(5)
    # Held fast, as a transaction holds it, and much comes.
    made.forget_below(0)
    for offset in range(5, 100):
        made.offset = offset
        made.note(undo)
    made.forget_below(0)
    made.forget_below(90)
    assert made.start == 90
    assert [entry[0] for entry in made.since(90)] == list(range(99, 89, -1))
    left = len(made.since(0))
    assert left == 90
    for _ in range(8):
        made.forget_below(90)
    assert [entry[0] for entry in made.since(0)] == list(range(99, 89, -1))


def test_it_never_keeps_more_than_has_come_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_log, "FORGOTTEN_AT_ONCE", 1)
    made = noted(0)
    for offset in range(0, 1_000, 20):
        for each in range(offset, offset + 20):
            made.offset = each
            made.note(undo)
        made.forget_below(offset + 20)
        assert not made.since(0)

"""docs/recovery.md: the drill of the page, every command in order, with a real cluster."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.process.terminal import Terminal
from tests.support.console_page import difference, played
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

PAGE: Final = ROOT / "docs" / "recovery.md"
NEEDED: Final = ("bash", "sed")


@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="needs bash and sed")
def test_each_command_of_the_drill_answers_as_the_page_says(tmp_path: Path, rewrite: bool) -> None:
    page = PAGE.read_text(encoding="utf-8")
    with Terminal(tmp_path) as terminal:
        now = played(page, terminal.answer)
    if rewrite:
        PAGE.write_text(now, encoding="utf-8")
        return
    if now != page:
        raise AssertionError(difference(page, now, PAGE.name))

"""docs/transcripts.md: every transcript is listed, and contains the quoted scenes."""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support import tree
from tests.support.transcript import parse

PAGE: Final = tree.ROOT / "docs" / "transcripts.md"
FOLDER: Final = tree.ROOT / "tests" / "transcripts"
STORIES: Final = sorted(
    path.stem
    for kind in ("folder", "moves", "quorum", "discovery")
    for path in FOLDER.glob(f"{kind}_*.txt")
)
SCENE: Final = re.compile(r'`(\w+)`(?: "([^"]+)")?')
NAMED: Final = re.compile(r"`(test_\w+)`")
COMMENT_WIDTH: Final = 100
SENTENCES_OF_RAFT_MIN: Final = 26


def rules() -> list[tuple[str, str]]:
    """Each rule on the page, and where it is shown."""
    return [(cells[0], cells[-1]) for cells in rows("rule")] + [
        (f"{cells[0]} {cells[1]}", cells[-1]) for cells in rows("no.")
    ]


def rows(first_title: str) -> Iterator[list[str]]:
    """The rows of the tables whose first column has this title."""
    title = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            title = ""
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        title = title or cells[0]
        if title == first_title and cells[0] != title and not cells[0].startswith("---"):
            yield cells


def said(story: str) -> str:
    """All comments of a story, as running text."""
    path = FOLDER / f"{story}.txt"
    comments = (
        line.removeprefix("#").strip()
        for scene in parse(path.read_text(encoding="utf-8"), path)
        for line in scene.comments
    )
    return " ".join(comments)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule[0]))
def test_every_rule_has_a_transcript_with_the_named_scene(rule: tuple[str, str]) -> None:
    scenes = SCENE.findall(rule[1])
    assert scenes, f"nothing shows: {rule[0]}"
    for story, words in scenes:
        assert (FOLDER / f"{story}.txt").exists(), f"there is no story {story}"
        assert words in said(story), f"no comment of {story} says: {words}"


@pytest.mark.parametrize("story", STORIES)
def test_every_transcript_is_on_the_page(story: str) -> None:
    shown = {name for _, where in rules() for name, _ in SCENE.findall(where)}
    assert story in shown, f"no rule in {PAGE.name} names {story}"


@pytest.mark.parametrize("story", STORIES)
def test_every_transcript_and_scene_has_a_comment(story: str) -> None:
    path = FOLDER / f"{story}.txt"
    first, *scenes = parse(path.read_text(encoding="utf-8"), path)
    assert not first.command, "begin with a comment that stands alone"
    assert len(" ".join(first.comments)) > 60, "say what is shown, and why it matters"
    assert len(scenes) >= 2
    mute = [scene.line for scene in scenes if scene.command and not scene.comments]
    assert not mute, f"say what happens in the scenes at lines {mute}"
    wide = [line for scene in scenes for line in scene.comments if len(line) > COMMENT_WIDTH]
    assert not wide, wide


def test_the_sentences_of_the_raft_paper_are_counted_without_a_gap() -> None:
    numbers = [int(cells[0]) for cells in rows("no.")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= SENTENCES_OF_RAFT_MIN


def test_rules_without_a_transcript_name_tests_that_exist() -> None:
    known = tree.names_of_tests()
    held = [(cells[0], NAMED.findall(cells[-1])) for cells in rows("what")]
    assert held
    assert all(names for _, names in held)
    found = [f"{name}: {what}" for what, names in held for name in names if name not in known]
    assert not found, "\n".join(found)

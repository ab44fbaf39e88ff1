"""The transcript harness, on small transcripts that it must accept, refuse or record."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.transcript import MalformedTranscriptError, Transcripts

STORY = """\
# A counter.

# It starts at nothing.
show
----
0

add 2
add 3
----
2
5
"""


def count(command: str) -> str:
    """The answer of a counter at 0 to one command of a line or more."""
    total, said = 0, []
    for line in command.splitlines():
        if line != "show":
            total += int(line.removeprefix("add "))
        said.append(str(total))
    return "\n".join(said)


def write(folder: Path, text: str) -> Path:
    path = folder / "story.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_transcript_that_is_repeated_as_recorded_passes(tmp_path: Path) -> None:
    write(tmp_path, STORY)
    Transcripts(tmp_path, rewrite=False).check("story", count)


def test_another_answer_fails_with_the_lines_that_differ(tmp_path: Path) -> None:
    write(tmp_path, STORY.replace("\n5\n", "\n6\n"))
    with pytest.raises(AssertionError, match=r"(?s)make golden.*\n 2\n-6\n\+5$"):
        Transcripts(tmp_path, rewrite=False).check("story", count)


def test_rewriting_records_the_answers_and_keeps_the_comments(tmp_path: Path) -> None:
    path = write(tmp_path, STORY.replace("\n5\n", "\n6\n").replace("----\n0\n", "----\n"))
    Transcripts(tmp_path, rewrite=True).check("story", count)
    assert path.read_text(encoding="utf-8") == STORY


def test_a_blank_line_of_an_answer_is_recorded_as_a_dot(tmp_path: Path) -> None:
    path = write(tmp_path, "print\n----\n")
    Transcripts(tmp_path, rewrite=True).check("story", lambda _: "one  \n\n.two\n")
    assert path.read_text(encoding="utf-8") == "print\n----\none\n.\n..two\n"
    Transcripts(tmp_path, rewrite=False).check("story", lambda _: "one\n\n.two")


def test_an_error_while_answering_says_which_line_it_was_about(tmp_path: Path) -> None:
    path = write(tmp_path, "show\n----\n0\n\nadd two\n----\n")
    with pytest.raises(ValueError, match="two") as raised:
        Transcripts(tmp_path, rewrite=False).check("story", count)
    assert raised.value.__notes__ == [f"while answering 'add two', {path}:5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "story.txt: write at least one command"),
        ("# Nothing is asked.\n", "story.txt: write at least one command"),
        ("# One.\nshow\n\n", "story.txt:2: write a line ---- below"),
        ("show\n----\n0\n\n----\n0\n", "story.txt:5: write a command before the line ----"),
    ],
)
def test_a_malformed_transcript_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    write(tmp_path, text)
    with pytest.raises(MalformedTranscriptError, match=message):
        Transcripts(tmp_path, rewrite=True).check("story", count)


LINES = st.lists(st.sampled_from(["", " ", "x", "# x", "----", ".", "..x"]), max_size=5)


@given(said=LINES.map("\n".join), other=LINES.map("\n".join))
def test_a_recorded_transcript_passes_and_any_other_fails(said: str, other: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), "# Why.\nsay\nit\n----\n")
        Transcripts(Path(folder), rewrite=True).check("story", lambda _: said)
        replayed = Transcripts(Path(folder), rewrite=False)
        replayed.check("story", lambda _: said)
        if visible(said) != visible(other):
            with pytest.raises(AssertionError):
                replayed.check("story", lambda _: other)


def visible(text: str) -> list[str]:
    """The lines that a reader of `text` sees: no space at a line's end, none blank around it."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n").split("\n")

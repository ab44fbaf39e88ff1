"""Golden transcripts: commands to a system, and all its answers.

A transcript is a text file of scenes, set apart by blank lines:

    # Voter 2 hears nothing for a whole election timeout.
    tick 2
    ----
    2 is candidate (epoch 1, vote for 2)

A scene is comment lines, a command of one or more lines, a line of four dashes, and the answer.
Comments may also stand alone, as a heading. A blank line of an answer, which would end the
scene, is written as a dot, and a line that begins with a dot gets one more. The commands are
written by hand, the answers are recorded: `make golden` writes them, and whoever commits them
can explain every line of the difference.

The harness never interprets a command: the test that owns the transcript answers it.
"""

import difflib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

RULE: Final = "----"


class MalformedTranscriptError(Exception):
    """A transcript that cannot be read; the message names the file, the line and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One exchange, or a heading when there is no command.

    `line` is where it begins, from 1; `answer` is as it stands in the file, dots included.
    """

    line: int
    comments: tuple[str, ...]
    command: str
    answer: str

    def __str__(self) -> str:
        if not self.command:
            return "\n".join(self.comments)
        parts = [*self.comments, self.command, RULE, self.answer]
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Transcripts:
    """The transcripts of the suite under one folder: compared, or recorded anew."""

    folder: Path
    rewrite: bool

    def check(self, name: str, answer: Callable[[str], str]) -> None:
        """Play `name`.txt: `answer` gets each command in order and returns what to show.

        Fails with the difference when anything but the recorded answers comes back. An error
        of `answer` passes through with a note that says which line it was about.
        """
        __tracebackhide__ = True  # The difference says it all; the harness is not at fault.
        path = self.folder / f"{name}.txt"
        recorded = path.read_text(encoding="utf-8")
        scenes = list(parse(recorded, path))
        if not any(scene.command for scene in scenes):
            raise MalformedTranscriptError(f"{path}: write at least one command")
        played = render([_played(scene, answer, path) for scene in scenes])
        if played == recorded:
            return
        if self.rewrite:
            path.write_text(played, encoding="utf-8")
            return
        raise AssertionError(_difference(recorded, played, path))


def parse(text: str, path: Path) -> Iterator[Scene]:
    """The scenes of `text`; `path` only serves the messages of `MalformedTranscriptError`."""
    numbered = enumerate((line.rstrip() for line in text.splitlines()), start=1)
    for blank, group in itertools.groupby(numbered, key=lambda pair: not pair[1]):
        if not blank:
            block = list(group)
            yield _scene([line for _, line in block], block[0][0], path)


def render(scenes: list[Scene]) -> str:
    """The file that holds `scenes`, in the one form in which transcripts are kept."""
    return "\n\n".join(str(scene) for scene in scenes) + "\n"


def _scene(block: list[str], line: int, path: Path) -> Scene:
    """The scene that is `block`, lines without a blank one among them, beginning at `line`."""
    comments = tuple(itertools.takewhile(lambda text: text.startswith("#"), block))
    asked = block[len(comments) :]
    rule_at = asked.index(RULE) if RULE in asked else len(asked)
    if asked and rule_at in (0, len(asked)):
        wanted = f"a command before the line {RULE}" if rule_at == 0 else f"a line {RULE} below"
        raise MalformedTranscriptError(f"{path}:{line + len(comments)}: write {wanted}")
    return Scene(
        line=line,
        comments=comments,
        command="\n".join(asked[:rule_at]),
        answer="\n".join(asked[rule_at + 1 :]),
    )


def _played(scene: Scene, answer: Callable[[str], str], path: Path) -> Scene:
    if not scene.command:
        return scene
    try:
        said = answer(scene.command)
    except Exception as error:
        error.add_note(f"while answering {scene.command!r}, {path}:{scene.line}")
        raise
    # Editors drop spaces at the end of a line, so none are recorded.
    lines = "\n".join(line.rstrip() for line in said.splitlines()).strip("\n").splitlines()
    dotted = [f".{line}" if not line or line.startswith(".") else line for line in lines]
    return replace(scene, answer="\n".join(dotted))


def _difference(recorded: str, played: str, path: Path) -> str:
    changes = difflib.unified_diff(
        recorded.splitlines(),
        played.splitlines(),
        fromfile=f"{path.name} as recorded",
        tofile=f"{path.name} as played",
        lineterm="",
        n=4,
    )
    return "\n".join(
        [f"{path} tells another story; if the new one is right, make golden.", *changes]
    )

"""Pages of docs/ whose console blocks are a session in a terminal.

A block of ```console has commands, each after `$ ` (a line that ends with a backslash goes on in
the next one), and below each its output. `...` stands for any text within a line, and alone in a
line for any number of lines. `MASKS` says what else may differ from run to run.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

PROMPT: Final = "$ "
FENCE: Final = "```"
ANY: Final = "..."

_MEASURE: Final = r"(\d+ h )?(\d+ min )?\d+(\.\d+)? (ms|s|B|KiB|MiB)(/s)?(?!\w)"

MASKS: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
    (rf"(?:at least )?(?:{_MEASURE})|\bunknown\b", "<measured>"),
    (r"(process|TopicId:) [\w-]+", r"\1 <id>"),
    # The leader of the quorum, and the replicas of partitions, are drawn by lot.
    (r"(controller-|Controller |LeaderId: +|[Vv]oter |local restart )\d\b", r"\1<controller>"),
    (r"(LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): +-?\d+", r"\1: <n>"),
    (r"^\d+( +-?\d+){3} +(?=Leader|Follower|Observer)", "<replica> "),
    (r"\b10\d(,10\d)+\b|(?<=Leader: )10\d|(?<=in sync yet: )10\d", "<brokers>"),
    (r"\borders-\d+\b", "<partition>"),
    (r" +", " "),
)
"""Patterns of what differs between two runs, and what stands for it when they are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A command of the page and its output, in the lines [`begin`, `end`) of the page."""

    command: str
    output: tuple[str, ...]
    begin: int
    end: int

    def allows(self, output: str) -> bool:
        """Check an output of another run."""
        return self._matched(output) is not None

    def replaced_by(self, output: str) -> list[str]:
        """The lines of an output of another run; what the page leaves out stays out."""
        lines, matched = lines_of(output), self._matched(output)
        if matched is None:
            return lines
        found, at = [], 0
        for line, group in zip(self.output, matched.groups(), strict=True):
            found.append(line if ANY in line else lines[at])
            at += group.count("\n")
        return found

    def _matched(self, output: str) -> re.Match[str] | None:
        """A match with a group for each line of the page."""
        pattern = "".join(f"({_pattern(masked(line))})" for line in self.output)
        return re.fullmatch(pattern, "".join(f"{masked(line)}\n" for line in lines_of(output)))


def masked(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, instead in MASKS:
        line = re.sub(pattern, instead, line)
    return line.rstrip()


def lines_of(output: str) -> list[str]:
    """The lines of an output as pages have them: without spaces and empty lines at the end."""
    return [line.rstrip() for line in output.rstrip().expandtabs().splitlines()]


def _pattern(line: str) -> str:
    if line.strip() == ANY:
        return r"(?:[^\n]*\n)*"
    return r"[^\n]*".join(map(re.escape, line.split(ANY))) + r"\n"


def exchanges(page: str) -> Iterator[Exchange]:
    """The session of a page."""
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        if lines[at] != f"{FENCE}console":
            at += 1
            continue
        at += 1
        while lines[at] != FENCE:
            assert lines[at].startswith(PROMPT), f"line {at + 1}: a block begins with a command"
            asked = [*takewhile(lambda line: line.endswith("\\"), lines[at:])]
            asked.append(lines[at + len(asked)])
            begin = at + len(asked)
            said = tuple(takewhile(_is_output, lines[begin:]))
            at = begin + len(said)
            command = "\n".join(asked).removeprefix(PROMPT)
            yield Exchange(command=command, output=said, begin=begin, end=at)
        at += 1


def _is_output(line: str) -> bool:
    return line != FENCE and not line.startswith(PROMPT)


def played(page: str, answer: Callable[[str], str]) -> str:
    """The page as it is if it allows for what `answer` says to each command, else with that."""
    answered = [(each, answer(each.command)) for each in exchanges(page)]
    if all(each.allows(output) for each, output in answered):
        return page
    lines = page.splitlines()
    # From the end, so that the lines above keep their numbers.
    for each, output in reversed(answered):
        lines[each.begin : each.end] = each.replaced_by(output)
    return "\n".join(lines) + "\n"


def difference(page: str, now: str, name: str) -> str:
    """The lines in which a page differs from what has been played."""
    before, after = ([masked(line) for line in text.splitlines()] for text in (page, now))
    found = difflib.unified_diff(
        before, after, f"{name} as written", f"{name} as played", lineterm=""
    )
    return "\n".join(
        [f"{name} is not true any more; if the new one is right, make golden.", *found]
    )

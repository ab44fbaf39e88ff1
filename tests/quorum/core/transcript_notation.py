"""The notation of answers in transcripts, the same for all kinds."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from quorum.core.vocabulary import uuid_from_text

WIDTH: Final = 100
DIRECTORY: Final = re.compile(r"\b(\d+)/([1-9])[0-9a-f]{7}\b")
DIRECTORY_ID: Final = re.compile(r"\b([1-9])[0-9a-f]{7}-0000-0000-0000-0{12}\b")
WRITTEN_KEY: Final = re.compile(r"\b(\d+):([\w-]{22})(?![\w-])")
WRITTEN_DIRECTORY: Final = re.compile(r"\bdirectory ([\w-]{22})(?![\w-])")
LETTERS: Final = "-abcdefghi"
VOTERS: Final = re.compile(r"\bvoters-([\d+/a-z]+)(?:->([\d+/a-z]+))?(?:=([\w-]+))?")


def written(command: str, obey: Callable[[str], Iterable[str]]) -> str:
    """The answer to a scene; each of several commands is repeated before what came of it."""
    lines = command.splitlines()
    said: list[str] = []
    for line in lines:
        said += [f"> {line}"] if len(lines) > 1 else []
        said += map(readable, obey(line))
    return "\n".join(said)


def readable(line: str) -> str:
    """With `2/b` for replica 2 on the second disk it has had, and records of voters spelt out."""
    line = WRITTEN_KEY.sub(lambda found: f"{found[1]}/{_letter(found[2])}", line)
    line = WRITTEN_DIRECTORY.sub(lambda found: f"directory {_letter(found[1])}", line)
    line = DIRECTORY.sub(lambda found: f"{found[1]}/{LETTERS[int(found[2])]}", line)
    line = DIRECTORY_ID.sub(lambda found: LETTERS[int(found[1])], line)
    return VOTERS.sub(_voters, line)


def listed(logs: Iterable[tuple[int, str]]) -> Iterator[str]:
    """The logs of some nodes, those that are the same in one line, folded where they are long."""
    owners: dict[str, list[int]] = {}
    for owner, log in logs:
        owners.setdefault(readable(log), []).append(owner)
    for log, same in owners.items():
        who = ", ".join(map(str, same))
        yield from textwrap.wrap(
            f"{who}: {log}", WIDTH, subsequent_indent="   ", break_on_hyphens=False
        )


def _letter(written: str) -> str:
    return LETTERS[int(str(uuid_from_text(written))[0])]


def _voters(found: re.Match[str]) -> str:
    current, target, cluster = found.groups()
    aim = f"->{target.replace('+', ',')}" if target else ""
    named = f",cluster={cluster}" if cluster else ""
    return f"voters({current.replace('+', ',')}{aim}{named})"

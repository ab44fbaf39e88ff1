"""How transcripts are written down: one notation for the answers of every stage."""

import re
from collections.abc import Callable, Iterable
from typing import Final

DIRECTORY: Final = re.compile(r"\b(\d+)/([1-9])[0-9a-f]{7}\b")
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
    line = DIRECTORY.sub(lambda found: f"{found[1]}/{'_abcdefghi'[int(found[2])]}", line)
    return VOTERS.sub(_voters, line)


def _voters(found: re.Match[str]) -> str:
    current, target, cluster = found.groups()
    aim = f" -> {target.replace('+', ' ')}" if target else ""
    named = f", cluster {cluster}" if cluster else ""
    return f"voters({current.replace('+', ' ')}{aim}{named})"

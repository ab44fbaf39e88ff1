"""Java's properties files: `name=value`, `name: value` or `name value`, as Kafka's tools take them.

A backslash at the end of a line continues it, and inside one it escapes the next character.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*(?P<at>\s*[=:]\s*|\s+)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class InvalidProperties(ValueError):
    """A line that is no property. It may be part of a key or a password, so it is not shown."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__("it is not name=value")
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Property:
    """A property, and the number of the line that it begins in."""

    name: str
    value: str = field(repr=False)
    line: int


def read_properties(text: str) -> Iterator[Property]:
    """Yield the properties of a text in order; raises `InvalidProperties`."""
    for number, line in _logical_lines(text):
        found = _SEPARATOR.search(line)
        if found is None:
            raise InvalidProperties(number, line)
        name, value = line[: found.start("at")], line[found.end("at") :]
        yield Property(_unescaped(name), _unescaped(value), number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are properties, each with those that continue it."""
    begun, begun_at = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        part = line.lstrip()
        if not begun_at and (not part or part[0] in "#!"):
            continue
        begun_at = begun_at or number
        slashes = len(part) - len(part.rstrip("\\"))
        if slashes % 2:
            begun += part[:-1]
            continue
        yield begun_at, begun + part
        begun, begun_at = "", 0
    if begun_at and begun:
        yield begun_at, begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _ESCAPED.get(escaped, escaped)

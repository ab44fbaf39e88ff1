"""The audit log: one line for each request of an admin client and its answer."""

import logging
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

_audit = logging.getLogger("audit")

CHARACTERS_MAX: Final = 500
"""Characters of a request, and of an answer, in a line."""


def note(who: str, request: object, answer: object) -> None:
    """Log a request of `who` and its answer."""
    _audit.info("%s asked for %s: %s", who, _shown(request), _shown(answer))


def _shown(value: object) -> str:
    """Return the value as one line, cut if it is long."""
    text = str(_brief(value))
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."


def _brief(value: object) -> object:
    """Cut long fields before formatting: 100,000 partitions take half a second."""
    if not isinstance(value, Struct):
        return value
    brief: dict[str, object] = {}
    for name in value.__struct_fields__:
        part = getattr(value, name)
        if isinstance(part, tuple) and len(part) > CHARACTERS_MAX:
            brief[name] = part[:CHARACTERS_MAX]
        elif isinstance(part, Struct):
            brief[name] = _brief(part)
    return replace(value, **brief) if brief else value

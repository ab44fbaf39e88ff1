"""Who asked for what, and what was answered: one line each, in the log called "audit"."""

import logging
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

_audit = logging.getLogger("audit")

CHARACTERS_MAX: Final = 500
"""Of a request, and of its answer, in a line."""


def note(who: str, request: object, answer: object) -> None:
    """Write down that `who` has asked for this, and was answered so."""
    _audit.info("%s asked for %s: %s", who, _shown(request), _shown(answer))


def _shown(value: object) -> str:
    """The value in one line of the log, cut where a request is large."""
    text = str(_brief(value))
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."


def _brief(value: object) -> object:
    """The value without what would be cut: to write out 100,000 partitions takes half a second."""
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

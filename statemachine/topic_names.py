"""Which names a topic may have, and which would be taken for one another. Pure functions.

The rules and the words are those of Kafka's `Topic` and `ReplicationControlManager`.
"""

import re
from collections.abc import Iterator, Mapping, Set
from itertools import product
from typing import Final

from statemachine.limits import TOPIC_NAME_CHARACTERS_MAX

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_ALIKE: Final = re.compile(r"[._]")
_SPELLINGS_MAX: Final = 256


def name_refusal(name: str) -> str | None:
    """Why no topic may have this name, or None."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_CHARACTERS_MAX:
        reason = (
            f"the length of '{name}' is longer than the max allowed length"
            f" {TOPIC_NAME_CHARACTERS_MAX}"
        )
    elif _LEGAL.fullmatch(name) is None:
        reason = (
            f"{name!r} contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {reason}"


def colliding(name: str, *taken: Set[str] | Mapping[str, object]) -> str | None:
    """Another name among those taken that is the same in metrics, where a dot is an underscore."""
    parts = _ALIKE.split(name)
    if len(parts) == 1:
        return None
    unified = "_".join(parts)
    for names in taken:
        few = 2 ** (len(parts) - 1) <= min(_SPELLINGS_MAX, len(names))
        candidates = _spellings(parts) if few else iter(names)
        for other in candidates:
            if other != name and other in names and other.replace(".", "_") == unified:
                return other
    return None


def _spellings(parts: list[str]) -> Iterator[str]:
    for marks in product("._", repeat=len(parts) - 1):
        yield parts[0] + "".join(map("".join, zip(marks, parts[1:], strict=True)))

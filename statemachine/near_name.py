"""The name that was probably meant, for errors about unknown names."""

import difflib
from collections.abc import Iterable
from typing import Final

CHARACTERS_MAX: Final = 1_000
"""The time to compare names rises with the square of their length."""
LIKENESS_MIN: Final = 0.6


def near_name(name: str, known: Iterable[str], likeness: float = LIKENESS_MIN) -> str | None:
    """Return the known name that is most like `name`, or None if none is (0 to 1) as like."""
    if len(name) > CHARACTERS_MAX:
        return None
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=likeness)), None)


def did_you_mean(name: str, known: Iterable[str], likeness: float = LIKENESS_MIN) -> str:
    """Return the end of a sentence about an unknown name, empty if no known one is like it."""
    near = near_name(name, known, likeness)
    return "" if near is None else f"; did you mean {near}?"

"""Short excerpts of JSON values from outside, for error messages."""

import json
from itertools import islice
from typing import Any, Final

SHOWN_CHARACTERS_MAX: Final = 60

_ENCODER: Final = json.JSONEncoder()


def excerpt(value: Any) -> str:
    """The value as JSON, cut to `SHOWN_CHARACTERS_MAX` characters; no more of it is encoded."""
    # Piece by piece, a character or more each: encoding all of it would follow every nesting.
    text = "".join(islice(_ENCODER.iterencode(value), SHOWN_CHARACTERS_MAX + 1))
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[: SHOWN_CHARACTERS_MAX - 3]}..."

"""How a message quotes a JSON value that came from outside: briefly, whatever it is."""

import json
from itertools import islice
from typing import Any, Final

SHOWN_CHARACTERS_MAX: Final = 60

_ENCODER: Final = json.JSONEncoder()


def shown(value: Any) -> str:
    """The beginning of the value as JSON has it, all of it where it is short.

    Of what is large or deeply nested no more is looked at than is shown.
    """
    # Piece by piece, each of a character or more: one call for all of it follows every nesting.
    text = "".join(islice(_ENCODER.iterencode(value), SHOWN_CHARACTERS_MAX + 1))
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[: SHOWN_CHARACTERS_MAX - 3]}..."

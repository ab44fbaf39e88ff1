"""A password or a key that never shows in a log line, an error or a traceback's `repr`."""

import hmac
from typing import Final

HIDDEN: Final = "[hidden]"


class Secret:
    """A text whose `repr` and `str` are `[hidden]`, as those of Kafka's Password."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text. Pass it on only to what must have it."""
        return self._text

    def matches(self, offered: bytes) -> bool:
        """Return whether these bytes are the secret, in a time that does not tell how close."""
        return hmac.compare_digest(self._text.encode(), offered)

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

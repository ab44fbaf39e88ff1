"""L3: what was asked with one key was carried out once, whoever led and however often it was asked.

Read from the log: the requests that are remembered, and the moves that say with which key they
were begun.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from chaos.cluster.facts import Fact
from chaos.violation import Violation

_BEGUN: Final = 10_000
_REMEMBERED: Final = 10_006
_KEY_TAG: Final = 1
_ID: Final = Struct(">q")
_ID_AND_KIND: Final = 9
_TIME_AND_COUNTS: Final = 16
_VERSION_BYTES: Final = 1


class Keys:
    """Knows which keys were used."""

    def __init__(self) -> None:
        self.moves: list[int] = []
        """The ids of all moves that have begun."""
        self.remembered: set[str] = set()
        self._begun: set[str] = set()

    def take(self, facts: Sequence[Fact]) -> None:
        """The facts of one batch."""
        for each in facts:
            if _REMEMBERED in each.said:
                key, _ = _text(each.said[_REMEMBERED], _VERSION_BYTES)
                self._note(key, self.remembered, each.offset)
            if _BEGUN in each.said:
                self.moves += _ID.unpack_from(each.said[_BEGUN], _VERSION_BYTES)
                key = _key_of_move(each.said[_BEGUN])
                if key:
                    self._note(key, self._begun, each.offset)

    def _note(self, key: str, known: set[str], offset: int) -> None:
        if key in known:
            raise Violation("L3", f"what was asked with {key} is carried out again at {offset}")
        known.add(key)


def _key_of_move(data: bytes) -> str:
    _, at = _text(data, _VERSION_BYTES + _ID_AND_KIND)
    at += _TIME_AND_COUNTS
    count, at = _count(data, at)
    for _ in range(count):
        tag, at = _count(data, at)
        size, at = _count(data, at)
        if tag == _KEY_TAG:
            return _text(data, at)[0]
        at += size
    return ""


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _count(data, at)
    end = at + max(0, size - 1)
    return data[at:end].decode(), end


def _count(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at

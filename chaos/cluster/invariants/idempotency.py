"""Invariant L3: a request with an idempotency key is carried out once.

The log has the remembered requests, and the moves with the keys that began them. A key may be
forgotten only when it has expired by the fastest clock: for a controller whose time of day is days
ahead, every key has expired.
"""

from collections.abc import Callable, Container, Sequence
from struct import Struct
from typing import Final

from chaos.cluster.invariants.record_parser import ParsedRecord
from chaos.violation import Violation

_BEGUN: Final = 10_000
_REMEMBERED: Final = 10_006
_FORGOTTEN: Final = 10_007
_KEPT_MS: Final = 86_400_000
_BETWEEN: Final = 3
"""The number of texts between the key and the time of a remembered request."""
_KEY_TAG: Final = 1
_ID: Final = Struct(">q")
_ID_AND_KIND: Final = 9
_TIME_AND_COUNTS: Final = 16
_VERSION_BYTES: Final = 1


class IdempotencyInvariant:
    """The idempotency keys in the log of one run."""

    def __init__(self) -> None:
        self.moves: list[int] = []
        """The ids of all moves that have begun."""
        self.remembered: dict[str, int] = {}
        """The time of each remembered request by its key, in ms."""
        self.latest_ms: Callable[[], int] = lambda: 0
        """Returns the latest time of day of all machines, in ms."""
        self._begun: set[str] = set()

    def take(self, facts: Sequence[ParsedRecord]) -> None:
        """Check the records of one batch."""
        for each in facts:
            if _REMEMBERED in each.fields:
                self._remember(each.fields[_REMEMBERED], each.offset)
            if _FORGOTTEN in each.fields:
                (through_ms,) = _ID.unpack_from(each.fields[_FORGOTTEN], _VERSION_BYTES)
                self._forget(through_ms, each.offset)
            if _BEGUN in each.fields:
                self.moves += _ID.unpack_from(each.fields[_BEGUN], _VERSION_BYTES)
                key = _key_of_move(each.fields[_BEGUN])
                if key:
                    _check_new(key, self._begun, each.offset)
                    self._begun.add(key)

    def _remember(self, data: bytes, offset: int) -> None:
        key, at = _text(data, _VERSION_BYTES)
        for _ in range(_BETWEEN):
            size, at = _count(data, at)
            at += size - 1
        _check_new(key, self.remembered, offset)
        (self.remembered[key],) = _ID.unpack_from(data, at)

    def _forget(self, through_ms: int, offset: int) -> None:
        early_ms = through_ms + _KEPT_MS - self.latest_ms()
        if early_ms > 0:
            raise Violation("L3", f"a request is forgotten {early_ms} ms early at {offset}")
        for key in [key for key, at_ms in self.remembered.items() if at_ms <= through_ms]:
            del self.remembered[key]
            self._begun.discard(key)


def _check_new(key: str, known: Container[str], offset: int) -> None:
    if key in known:
        raise Violation("L3", f"the request with key {key} is carried out again at {offset}")


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

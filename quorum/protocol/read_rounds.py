"""The round of reads (`quorum.core.read_index`) in Fetch: a tagged field of our own, tag 10000.

Kafka's nodes skip tags that they do not know, so they take such a message for one without it. The
field is the last of the message, and its eight bytes are the last of all: what stands before
them is the same in every message, and can be kept by whoever reads or writes many of them.
Messages without a round are, byte for byte, those of Kafka.
"""

from struct import Struct
from typing import Final

from quorum.records.varint import read_uvarint, uvarint

ROUND_TAG: Final = 10_000
_ROUND: Final = Struct(">Q")
_MARK: Final = uvarint(ROUND_TAG) + uvarint(_ROUND.size)
_MARK_BYTES: Final = len(_MARK)
_COUNT_MAX: Final = 126
"""Tagged fields before ours, so that their number, ours included, stays one byte."""


def prepared(message_end: bytes, tags_at: int) -> bytes:
    """`message_end` with room for a round: eight bytes of it are missing at the end.

    At `tags_at` stands the number of tagged fields, behind it they and nothing else.
    """
    count = message_end[tags_at]
    assert count <= _COUNT_MAX, f"{count} tagged fields"
    return b"".join((message_end[:tags_at], bytes((count + 1,)), message_end[tags_at + 1 :], _MARK))


NO_ROUND: Final = _ROUND.pack(0)
"""In place of the bytes that `split` cut off, to read what is before them."""


def pack(round: int) -> bytes:
    """The eight bytes that `prepared` left out."""
    return _ROUND.pack(round)


def split(message_end: bytes) -> tuple[bytes, int] | None:
    """Split the tail into the part before the round, and the round; None if there is none.

    The bytes may look so by chance: `ends_with_round` says whether they are meant so.
    """
    round_at = len(message_end) - _ROUND.size
    if message_end[round_at - _MARK_BYTES : round_at] != _MARK:
        return None
    (round_,) = _ROUND.unpack_from(message_end, round_at)
    return message_end[:round_at], round_


def ends_with_round(before: bytes, tags_at: int) -> bool:
    """Return True if the last tagged field at `tags_at` is the round that `split` cut off."""
    tag, size, end = _last_tag(before, tags_at)
    return (tag, size, end) == (ROUND_TAG, _ROUND.size, len(before) + _ROUND.size)


def after_tags(message_end: bytes, at: int) -> int:
    """The position behind the tagged fields at `at`; the message is well-formed."""
    return _last_tag(message_end, at)[2]


def _last_tag(data: bytes, at: int) -> tuple[int, int, int]:
    """The last of the tagged fields at `at`: its tag, its size, and the position behind it."""
    count, at = read_uvarint(data, at)
    tag = size = 0
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
    return tag, size, at

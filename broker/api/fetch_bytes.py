"""The answer to a Fetch as bytes, by hand: it is the largest and most frequent one of a broker.

For the flexible versions, 12 to 17; older ones are written by kio. The records are handed on as
they came from the log, not copied. Byte-identical to what kio writes, which a test says.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from quorum.core.vocabulary import LogEnd
from quorum.protocol.shape import Data
from quorum.protocol.varints import uvarint

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13

_TOP: Final = Struct(">ihi")
_PARTITION: Final = Struct(">ihqqqBi")
_DIVERGING: Final = Struct(">BBBiqB")
_NO_TAGS: Final = b"\x00"
_NO_REPLICA: Final = -1
_EPOCH_AND_OFFSET_BYTES: Final = 13
_NULL: Final = 0
_EMPTY: Final = 1


class PartitionAnswer(NamedTuple):
    """What is said of one partition; offsets of -1 stand for unknown ones."""

    number: int
    error_code: int
    high_watermark: int
    log_start: int
    diverging: LogEnd | None
    records: bytes


TopicAnswer: TypeAlias = tuple[str | UUID, Sequence[PartitionAnswer]]
"""A topic by name in version 12, by id from 13 on, and its partitions."""


def write_answer(
    error_code: int, topics: Sequence[TopicAnswer], *, is_read_committed: bool
) -> list[Data]:
    """The body of the answer, in parts. No session is ever named, nor any node."""
    head = bytearray(_TOP.pack(0, error_code, 0))
    head += uvarint(len(topics) + 1)
    parts: list[Data] = []
    for topic, partitions in topics:
        head += _name(topic)
        head += uvarint(len(partitions) + 1)
        head = _write_partitions(partitions, head, parts, is_read_committed=is_read_committed)
        head += _NO_TAGS
    head += _NO_TAGS
    parts.append(bytes(head))
    return parts


def _name(topic: str | UUID) -> bytes:
    if isinstance(topic, UUID):
        return topic.bytes
    encoded = topic.encode()
    return uvarint(len(encoded) + 1) + encoded


def _write_partitions(
    partitions: Iterable[PartitionAnswer],
    head: bytearray,
    parts: list[Data],
    *,
    is_read_committed: bool,
) -> bytearray:
    """Append to `head`; where records come, `head` and they become parts, and a new one begins."""
    # There are no transactions, so none were aborted (KIP-98).
    aborted = _EMPTY if is_read_committed else _NULL
    pack = _PARTITION.pack
    for number, error_code, high_watermark, log_start, diverging, records in partitions:
        head += pack(
            number, error_code, high_watermark, high_watermark, log_start, aborted, _NO_REPLICA
        )
        head += uvarint(len(records) + 1)
        if records:
            parts += (bytes(head), records)
            head = bytearray()
        if diverging is None:
            head += _NO_TAGS
        else:
            head += _DIVERGING.pack(
                1, 0, _EPOCH_AND_OFFSET_BYTES, diverging.epoch, diverging.offset, 0
            )
    return head

"""The answer to AlterPartitionReassignments (45) as bytes, by hand: it may be about 100,000.

What Kafka's clients read of it is what kio would have written; a test says so. What is decided is
not known here.
"""

from collections.abc import Sequence
from itertools import groupby
from struct import Struct
from typing import Final

from controller.apis.request import bounded
from quorum.protocol.varints import uvarint
from statemachine.commands import ReassignmentAltered

_MAY_CHANGE_FROM: Final = 1
"""The version that says whether the number of replicas may change."""
_PARTITION: Final = Struct(">ih")
_NO_TAGS: Final = b"\x00"
_NONE: Final = b"\x01"
"""A compact array of nothing."""
_NULL: Final = b"\x00"


def with_partitions(empty: bytes, version: int, partitions: Sequence[ReassignmentAltered]) -> bytes:
    """The answer that `empty` is without its partitions, and these with what came of each."""
    # Throttle time, from version 1 on the permission, error code and no message stand before them.
    at = 4 + (version >= _MAY_CHANGE_FROM) + 2 + len(_NULL)
    assert empty[at : at + 1] == _NONE, "the answer has partitions already"
    topics = [
        _topic(name, list(group))
        for name, group in groupby(partitions, key=lambda each: each.topic)
    ]
    return b"".join((empty[:at], uvarint(len(topics) + 1), *topics, empty[at + 1 :]))


def _topic(name: str, partitions: Sequence[ReassignmentAltered]) -> bytes:
    said = [
        b"".join(
            (
                _PARTITION.pack(each.partition, each.error.code),
                _string(bounded(each.message)) if each.message else _NULL,
                _NO_TAGS,
            )
        )
        for each in partitions
    ]
    return b"".join((_string(name), uvarint(len(said) + 1), *said, _NO_TAGS))


def _string(text: str) -> bytes:
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw

"""Snapshots: an image from the records that it was written as. It reads no file.

A snapshot holds the records that lead to an image, not those that led to it: a deleted topic is in
none of them, a change is part of what it changed. Beginning a transaction is never in it.
"""

from collections.abc import Iterable

from statemachine.image import Image
from statemachine.replay import replay
from statemachine.serde import decode


def load(image: Image, values: Iterable[bytes], end_offset: int) -> None:
    """Let an empty image be what the records of a snapshot that ends at `end_offset` say.

    The records have no offsets of their own, so each counts as the last that the snapshot
    contains, as in Kafka. For the two things that an image takes from an offset this errs on the
    safe side: a broker that registered or began to stop earlier is waited for until it has read
    up to the snapshot's end, which is at or behind the record that it has to have read.

    Raises `MalformedRecord`.
    """
    assert image.end_offset == 0, "a snapshot is loaded before anything is replayed"
    for value in values:
        replay(image, decode(value), end_offset - 1)
    image.advance(end_offset)

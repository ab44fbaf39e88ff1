"""The log of a controller, and the image that it gives when replayed from the first record on."""

from quorum.core.vocabulary import Offset
from quorum.records.batch import outlines
from quorum.records.decode import decode as decode_records
from statemachine.image.image import Image
from statemachine.records import kafka_records
from statemachine.records.codec import decode
from statemachine.replay import replay
from tests.support.controllers import Node


def log_of(node: Node) -> bytes:
    """All that a node knows to be committed."""
    return node.opened.quorum.replica.read_committed(Offset(0), 1 << 30)


def records_of(log: bytes) -> list[kafka_records.Record]:
    """Its metadata records."""
    values = [each.value for each in decode_records(log) if not each.control]
    return [decode(value) for value in values if value is not None]


def folded(log: bytes) -> Image:
    """The image of a log."""
    image = Image()
    for record in decode_records(log):
        if not record.control:
            assert record.value is not None
            replay(image, decode(record.value), record.offset)
    if log:
        image.advance(outlines(log)[-1].end)
    return image

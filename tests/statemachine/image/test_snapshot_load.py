"""An image loaded from a snapshot, in cases that the real files do not have."""

from uuid import UUID

import pytest

from statemachine.image.snapshot import load
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.records.primitives import MalformedRecord
from statemachine.replay import replay


def test_a_snapshot_without_records_ends_where_its_name_says() -> None:
    image = load([], 40)
    assert image.end_offset == 40


def test_offsets_in_an_image_from_a_snapshot_are_its_last_offset() -> None:
    """A broker may be unfenced once it has read its registration: this errs on the safe side."""
    registration = kafka_records.RegisterBroker(
        broker_id=1,
        incarnation_id=UUID(int=1),
        broker_epoch=7,
        endpoints=(),
        features=(),
        rack=None,
        in_controlled_shutdown=True,
    )
    image = load([encode(registration, 29)], 40)
    broker = image.brokers[1]
    assert (broker.broker_epoch, broker.registered_at, broker.stopping_at) == (7, 39, 39)
    replay(image, kafka_records.NoOp(), 40)
    assert image.end_offset == 41


def test_a_record_that_is_none_is_named() -> None:
    with pytest.raises(MalformedRecord, match="version 9 of record type 2"):
        load([bytes((1, 2, 9))], 40)

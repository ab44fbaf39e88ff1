"""The checkers' parser of metadata records against the product's, on the same bytes."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from chaos.cluster.invariants.record_parser import LAYOUTS, fact
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from tests.statemachine.support.kafka_schemas import KAFKA
from tests.statemachine.support.random_records import struct_of
from tests.support.parameters import at_most_in_quick

READ = [layout.name for layout in LAYOUTS.values()]
VERSIONS = {0: 15, 1: 17, 2: 29}
"""A level of metadata.version at which that version of a partition's records is written."""


@pytest.mark.parametrize("name", READ)
@settings(max_examples=at_most_in_quick(25))
@given(data=st.data(), version=st.sampled_from(sorted(VERSIONS)))
def test_a_record_is_read_as_the_product_has_written_it(
    name: str, data: st.DataObject, version: int
) -> None:
    shape = getattr(kafka_records, name)
    level = VERSIONS[version]
    version = {kafka_records.RegisterBroker: {0: 1, 1: 3, 2: 3}}.get(shape, {}).get(
        version, version
    )
    record = data.draw(struct_of(shape, KAFKA[shape][1], version))
    found = fact(7, encode(record, level))
    assert (found.offset, found.type) == (7, name)
    for field, value in found.fields.items():
        if isinstance(field, str):
            assert value == plain(getattr(record, field)), field


@given(data=st.data())
def test_fields_that_a_change_does_not_have_are_absent(data: st.DataObject) -> None:
    rows = KAFKA[kafka_records.PartitionChange][1]
    record = data.draw(struct_of(kafka_records.PartitionChange, rows))
    parsed = fact(0, encode(record, 29)).fields
    fields = {name for name in record.__struct_fields__ if getattr(record, name) is not None}
    assert {name for name in parsed if isinstance(name, str)} == fields - {"directories"}
    assert (8 in parsed) == ("directories" in fields)


def test_other_records_are_parsed_by_their_offset_only() -> None:
    record = kafka_records.ProducerIds(broker_id=1, broker_epoch=2, next_producer_id=3)
    assert fact(9, encode(record, 29)) == (9, "", {})


def plain(value: Any) -> Any:
    """As the judges have it: ids as text, numbers for yes and no, tuples for structures."""
    match value:
        case UUID():
            return value.hex
        case Struct():
            return tuple(plain(getattr(value, name)) for name in value.__struct_fields__)
        case tuple():
            return tuple(plain(each) for each in value)
        case _:
            return value

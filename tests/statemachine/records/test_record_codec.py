"""Records as bytes: kio's generic writer and reader are the oracle, in every version."""

from typing import Any, Final, get_args
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from statemachine.records import kafka_records, own_records
from statemachine.records.codec import decode, encode
from statemachine.records.primitives import MalformedRecord
from tests.statemachine.support.kafka_schemas import KAFKA, Oracle
from tests.statemachine.support.random_records import struct_of
from tests.support.parameters import at_most_in_quick

LEVELS: Final[dict[type, dict[int, int]]] = {
    kafka_records.RegisterBroker: {0: 6, 1: 7, 2: 16, 3: 17, 4: 30},
    kafka_records.Partition: {0: 15, 1: 17, 2: 23},
    kafka_records.PartitionChange: {0: 16, 1: 22, 2: 29},
    kafka_records.BrokerRegistrationChange: {3: 30},
}
VERSIONS: Final = [(shape, version) for shape in KAFKA for version in LEVELS.get(shape, {0: 29})]


def test_the_oracle_knows_every_record() -> None:
    ours = get_args(own_records.OurRecord)
    assert {*KAFKA, *ours, kafka_records.Unknown} == set(get_args(kafka_records.Record))


@pytest.mark.parametrize(
    ("shape", "version"), VERSIONS, ids=[f"{shape.__name__}-{v}" for shape, v in VERSIONS]
)
@settings(max_examples=at_most_in_quick(40))
@given(data=st.data())
def test_bytes_are_those_of_kio_and_come_back(
    shape: type[Struct], version: int, data: st.DataObject
) -> None:
    record = data.draw(struct_of(shape, KAFKA[shape][1], version))
    level = LEVELS.get(shape, {0: 29})[version]
    if isinstance(record, kafka_records.BrokerRegistrationChange):
        # This one's version follows from what it says.
        version = 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
        version = version if record.cordoned_log_dirs is None else 3
    oracle = Oracle.of(shape, version)
    value = encode(record, level)
    assert value == oracle.write(record)
    assert oracle.read(value) == oracle.as_kio(record)
    assert decode(memoryview(value)) == record


def test_a_field_that_the_version_lacks_is_never_lost_in_silence() -> None:
    change = kafka_records.PartitionChange(partition_id=0, topic_id=UUID(int=1))
    for level, fields in (
        (16, {"directories": ()}),
        (22, {"elr": ()}),
        (22, {"last_known_elr": ()}),
    ):
        record = kafka_records.PartitionChange(**{**_fields(change), **fields})
        with pytest.raises(AssertionError, match="cannot carry"):
            encode(record, level)
        assert decode(encode(record, level + 1)) == record
    partition = kafka_records.Partition(
        partition_id=0,
        topic_id=UUID(int=1),
        replicas=(1,),
        isr=(),
        leader=-1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(UUID(int=1),),
        elr=(1,),
    )
    for level, missing in ((16, "directories"), (22, "elr")):
        with pytest.raises(AssertionError, match=f"cannot carry {missing}"):
            encode(partition, level)
    broker = kafka_records.RegisterBroker(
        broker_id=1,
        incarnation_id=UUID(int=1),
        broker_epoch=1,
        endpoints=(),
        features=(),
        rack=None,
        log_dirs=(UUID(int=1),),
    )
    with pytest.raises(AssertionError, match="cannot carry log_dirs"):
        encode(broker, 16)


def _fields(record: Struct) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_tags_that_nobody_knows_are_skipped() -> None:
    change = kafka_records.PartitionChange(
        partition_id=3, topic_id=UUID(int=7), isr=(1, 2), target=(2,)
    )
    plain = encode(change, 29)
    assert plain[23] == 2
    strange = b"\xa0\x9c\x01" + b"\x81\x01" + b"z" * 129
    value = plain[:23] + b"\x03" + plain[24:] + strange
    assert decode(value) == change
    topic = kafka_records.Topic(name="t", topic_id=UUID(int=7))
    assert decode(encode(topic, 29)[:-1] + b"\x01\x63\x02ab") == topic


def test_unchanged_may_be_said_explicitly() -> None:
    """Kafka leaves such tags out; a null list, leader -2 and recovery -1 mean the same."""
    head = encode(kafka_records.PartitionChange(partition_id=3, topic_id=UUID(int=7)), 29)[:-1]
    tags = b"\x00\x01\x00" + b"\x01\x04\xff\xff\xff\xfe" + b"\x05\x01\xff" + b"\x08\x01\x00"
    assert decode(head + b"\x04" + tags) == kafka_records.PartitionChange(
        partition_id=3, topic_id=UUID(int=7)
    )


def test_an_unknown_type_is_kept_as_it_is() -> None:
    unknown = kafka_records.Unknown(type_id=300, version=9, body=b"anything")
    value = encode(unknown, 29)
    assert value == b"\x01\xac\x02\x09anything"
    assert decode(value) == unknown


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "ends early"),
        (b"\x01\x05\x00", "ends early"),
        (b"\x01\x05\x02" + bytes(20), "ends early"),
        (b"\x00\x05\x00", "frame version 0"),
        (b"\x02\x05\x00" + bytes(30), "frame version 2"),
        (b"\x01\x05\x03" + bytes(30), "version 3 of record type 5"),
        (b"\x01\x03\x07" + bytes(30), "version 7 of record type 3"),
        (b"\x01\x00\x05" + bytes(30), "version 5 of record type 0"),
        (b"\x01\x14\x00\x00\x00", "ends at byte 4 of 5"),
        (b"\x01\x05\x01" + bytes(20) + b"\x00\x00", "ends at byte 24 of 25"),
        (b"\x01\x05\x01" + bytes(20) + b"\x80\x01", "ends early"),
        (b"\x01\x05\x01" + bytes(20) + b"\x01\x00\x02\x02\x00", "ends early"),
        (b"\x01\x05\x01" + bytes(20) + b"\x01\x01\x05\x00\x00\x00\x01\x00", "tag 1 (leader)"),
        (b"\x01\x05\x01" + bytes(20) + b"\x01\x08\x02\x03" + bytes(16), "32 bytes are announced"),
        (b"\x01\x05\x01" + bytes(20) + b"\x01\x50\x7f", "ends at byte 153"),
        (b"\x01\x03\x00" + bytes(20) + b"\x00" * 40, "null before"),
        (b"\x01\x02\x00\x00", "null before"),
        (b"\x01\x02\x00\x05ab", "4 bytes are announced"),
        (b"\x01\x02\x00\x02a" + bytes(18), "ends at byte 22 of 23"),
        (b"\x01\x02\x00\x80\x00" + b"a" * 126 + bytes(17), "null before byte 5"),
        (b"\x01\x02\x00\x03\xff\xff" + bytes(17), "not UTF-8"),
        (b"\x01\x0e\x00\x00", "null before"),
        (b"\x01\x0e\x00\xff\xff\xff\xff\x0f", "too many"),
        (b"\x01\x0e\x00\xff\xff\xff\xff\xff\x01", "longer than 32 bits"),
        (b"\x01\x17\x00\x01\x00\x04\x03abc", "not as long as its value"),
    ],
)
def test_bytes_that_are_no_record_are_refused_with_the_reason(value: bytes, reason: str) -> None:
    with pytest.raises(MalformedRecord) as refused:
        decode(value)
    assert reason in str(refused.value)


@given(st.binary(max_size=80), st.sampled_from(sorted(type_id for type_id, _ in KAFKA.values())))
def test_no_bytes_do_more_harm_than_being_refused(noise: bytes, type_id: int) -> None:
    for version in range(4):
        try:
            record = decode(bytes((1, type_id, version)) + noise)
        except MalformedRecord:
            continue
        assert type(record) in {*KAFKA, *get_args(own_records.OurRecord)}

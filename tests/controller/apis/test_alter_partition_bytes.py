"""AlterPartition by hand against kio: the same values are read, the same bytes written."""

from datetime import timedelta
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apis import alter_partition
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from statemachine.commands import (
    AlterPartition,
    IsrMember,
    IsrProposal,
    PartitionAltered,
    PartitionsAltered,
)
from statemachine.errors import Error
from tests.quorum.protocol.unknown_tag_strategies import grown, written
from tests.support.kio_values import make, nested

API: Final = ApiKey.ALTER_PARTITION
VERSIONS: Final = (2, 3)

USUAL: Final = AlterPartition(
    broker_id=1,
    broker_epoch=20,
    proposals=tuple(
        IsrProposal(
            topic_id=UUID(int=7),
            partition=partition,
            leader_epoch=3,
            partition_epoch=4,
            isr=(IsrMember(1), IsrMember(2)),
        )
        for partition in (5, 6)
    ),
)

int8 = st.integers(-(2**7), 2**7 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
# Longer than 126 members: the count then takes two bytes.
lengths = st.one_of(st.integers(0, 5), st.integers(125, 129))
broker_ids = lengths.flatmap(lambda n: st.lists(int32, min_size=n, max_size=n)).map(tuple)
topics = st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)])


@st.composite
def commands(draw: st.DrawFn, version: int) -> AlterPartition:
    def member(broker_id: int) -> IsrMember:
        return IsrMember(broker_id) if version < 3 else IsrMember(broker_id, draw(int64))

    proposals = [
        IsrProposal(
            topic_id=topic_id,
            partition=draw(int32),
            leader_epoch=draw(int32),
            partition_epoch=draw(int32),
            isr=tuple(member(each) for each in draw(broker_ids)),
            recovery=draw(int8),
        )
        for topic_id in draw(st.lists(topics, max_size=5))
    ]
    return AlterPartition(
        broker_id=draw(int32), broker_epoch=draw(int64), proposals=tuple(proposals)
    )


@st.composite
def answers(draw: st.DrawFn) -> PartitionsAltered:
    partitions = [
        PartitionAltered(
            topic_id=topic_id,
            partition=draw(int32),
            error=draw(st.sampled_from(Error)),
            leader=draw(int32),
            leader_epoch=draw(int32),
            isr=draw(broker_ids),
            recovery=draw(int8),
            partition_epoch=draw(int32),
        )
        for topic_id in draw(st.lists(topics, max_size=5))
    ]
    return PartitionsAltered(error=draw(st.sampled_from(Error)), partitions=tuple(partitions))


def kio_request(command: AlterPartition, version: int) -> bytes:
    """The bytes that kio writes for the command."""
    schema = codec.request_schema(API, version)
    of_topic = nested(schema, "TopicData")
    written = [
        make(of_topic, topic_id=topic_id, partitions=tuple(_asked(schema, each) for each in of))
        for topic_id, of in groupby(command.proposals, key=lambda each: each.topic_id)
    ]
    request = make(
        schema,
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        topics=tuple(written),
    )
    return codec.encode_request_body(API, version, request)


def _asked(schema: type[Any], proposal: IsrProposal) -> Any:
    if hasattr(nested(schema, "PartitionData"), "new_isr"):
        isr: dict[str, Any] = {"new_isr": tuple(each.broker_id for each in proposal.isr)}
    else:
        of_broker = nested(schema, "BrokerState")
        members = [
            make(of_broker, broker_id=each.broker_id, broker_epoch=each.broker_epoch)
            for each in proposal.isr
        ]
        isr = {"new_isr_with_epochs": tuple(members)}
    return make(
        nested(schema, "PartitionData"),
        partition_index=proposal.partition,
        leader_epoch=proposal.leader_epoch,
        leader_recovery_state=proposal.recovery,
        partition_epoch=proposal.partition_epoch,
        **isr,
    )


def kio_answer(answer: PartitionsAltered, version: int) -> bytes:
    """The bytes that kio writes for the answer."""
    schema = codec.response_schema(API, version)
    of_topic, of_partition = nested(schema, "TopicData"), nested(schema, "PartitionData")

    def written(altered: PartitionAltered) -> Any:
        return make(
            of_partition,
            partition_index=altered.partition,
            error_code=codec.error_code(altered.error.code),
            leader_id=altered.leader,
            leader_epoch=altered.leader_epoch,
            isr=altered.isr,
            leader_recovery_state=altered.recovery,
            partition_epoch=altered.partition_epoch,
        )

    response = make(
        schema,
        throttle_time=timedelta(0),
        error_code=codec.error_code(answer.error.code),
        topics=tuple(
            make(of_topic, topic_id=topic_id, partitions=tuple(map(written, of)))
            for topic_id, of in groupby(answer.partitions, key=lambda each: each.topic_id)
        ),
    )
    return codec.encode_response_body(API, version, response)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_a_command_is_read_from_what_kio_writes_for_it(version: int, data: st.DataObject) -> None:
    command = data.draw(commands(version))
    body = kio_request(command, version)
    assert alter_partition.read_request(version, body) == command
    assert alter_partition.read_request(version, memoryview(body)) == command


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
def test_with_any_byte_damaged_it_is_read_as_kio_reads_it_or_not_at_all(version: int) -> None:
    body = kio_request(USUAL, version)
    for at in range(len(body)):
        for byte in range(256):
            damaged = body[:at] + bytes((byte,)) + body[at + 1 :]
            assert_read_alike(version, damaged)


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_anywhere_or_continued_it_is_malformed(version: int) -> None:
    body = kio_request(USUAL, version)
    for wrong in [*(body[:end] for end in range(len(body))), body + b"\x00"]:
        with pytest.raises(Malformed):
            alter_partition.read_request(version, wrong)


def assert_read_alike(version: int, body: bytes) -> None:
    """By hand and by kio the same command comes out, or none does."""
    try:
        command = alter_partition.read_request(version, body)
    except Malformed:
        assert kio_refuses(version, body)
    else:
        assert command == as_command(codec.decode_request(API, version, body))


def kio_refuses(version: int, body: bytes) -> bool:
    """True if kio rejects the bytes too, or reads null where Kafka has no null."""
    try:
        message = codec.decode_request(API, version, body)
    except Malformed:
        return True
    return message.topics is None or any(
        topic.partitions is None or any(isr_of(each) is None for each in topic.partitions)
        for topic in message.topics
    )


def isr_of(partition: Any) -> Any:
    """The ISR of kio's partition, under whichever name its version has."""
    return getattr(partition, "new_isr", getattr(partition, "new_isr_with_epochs", None))


def as_command(message: Any) -> AlterPartition:
    """kio's request as a command."""
    return AlterPartition(
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        proposals=tuple(
            IsrProposal(
                topic_id=topic.topic_id or UUID(int=0),
                partition=each.partition_index,
                leader_epoch=each.leader_epoch,
                partition_epoch=each.partition_epoch,
                isr=_members(each),
                recovery=each.leader_recovery_state,
            )
            for topic in message.topics
            for each in topic.partitions
        ),
    )


def _members(partition: Any) -> tuple[IsrMember, ...]:
    if hasattr(partition, "new_isr"):
        return tuple(map(IsrMember, partition.new_isr))
    return tuple(IsrMember(each.broker_id, each.broker_epoch) for each in isr_of(partition))


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_unknown_tagged_fields_at_any_level_are_skipped(version: int, data: st.DataObject) -> None:
    plain = kio_request(data.draw(commands(version)), version)
    later = written(grown(codec.decode_request(API, version, plain), data))
    assert alter_partition.read_request(version, later) == alter_partition.read_request(
        version, plain
    )
    with pytest.raises(Malformed):
        alter_partition.read_request(version, later[: data.draw(st.integers(0, len(later) - 1))])


@pytest.mark.parametrize("version", VERSIONS)
@given(answer=answers())
def test_an_answer_has_the_bytes_that_kio_writes(version: int, answer: PartitionsAltered) -> None:
    assert alter_partition.write_answer(answer) == kio_answer(answer, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("error", [Error.NOT_CONTROLLER, Error.STALE_BROKER_EPOCH])
def test_a_refusal_has_the_bytes_that_kio_writes(version: int, error: Error) -> None:
    written = alter_partition.write_refusal(error.code)
    assert written == kio_answer(PartitionsAltered(error=error), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_where_kafka_has_no_null_is_malformed(version: int) -> None:
    body = kio_request(AlterPartition(broker_id=1, broker_epoch=2, proposals=()), version)
    null, no_tags = b"\x00", b"\x00"
    with pytest.raises(Malformed):
        alter_partition.read_request(version, body[:-2] + null + no_tags)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_claim_of_a_length_is_believed_before_its_items_are_there(version: int) -> None:
    body = kio_request(AlterPartition(broker_id=1, broker_epoch=2, proposals=()), version)
    claim = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(Malformed):
        alter_partition.read_request(version, body[:-2] + claim + bytes(64))

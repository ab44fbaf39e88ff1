"""A Kafka broker starts on our controller at every kind of level, and skips our records."""

from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from admin.client.producer import Producer
from quorum.persistent_state import LOG_FOLDER
from quorum.records.encode import ClientRecord
from quorum.records.varint import uvarint
from statemachine.records import kafka_records
from statemachine.replay import replay
from tests.controller.controller_commands import asked, join, move
from tests.process.one_kafka_broker import BROKER_ID, is_unfenced, kafka_broker
from tests.support.controllers import Node, a_controller
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

NOBODY = 102
OUR_TAG = 10_000
PAYLOAD = b"what only we understand"
NO_OP_WITH_PAYLOAD = (
    bytes([1, 20, 0]) + uvarint(1) + uvarint(OUR_TAG) + uvarint(len(PAYLOAD)) + PAYLOAD
)


def append_no_op_with_payload(node: Node) -> None:
    """As the controller appends, in words of ours that it does not use yet."""
    quorum, image = node.opened.quorum, node.controller.image
    base = quorum.replica.propose([NO_OP_WITH_PAYLOAD])
    assert base == image.end_offset
    replay(image, kafka_records.NoOp(), base)


@pytest.mark.parametrize(
    ("version", "metadata_version"),
    [("3.9.1", 15), ("3.9.1", 21), ("4.2.0", 15), ("4.2.0", 29), ("4.3.1", 30)],
)
async def test_a_broker_comes_up_takes_records_and_skips_what_is_ours(
    version: str, metadata_version: int, tmp_path: Path
) -> None:
    """Level 15 has static voters and no directories; from 21 on both are in the log."""
    java = runtime(version)
    async with (
        a_controller(
            tmp_path,
            metadata_version=metadata_version,
            kraft_version=int(metadata_version >= 21),
        ) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=metadata_version) as broker,
    ):
        await broker.until(node, is_unfenced)
        async with AdminClient([broker.address], is_controller=False) as client:
            await client.create_topic("orders", partitions=2, replication_factor=1)
            async with Producer([broker.address]) as producer:
                sent = await producer.send("orders", 1, [ClientRecord(1, None, b"value")])
                assert (await sent)[0].offset == 0

        # The target of a reassignment travels in tagged fields of PartitionChange.
        await join(node.controller, NOBODY)
        await asked(node.controller, move("orders", BROKER_ID, NOBODY))
        append_no_op_with_payload(node)
        end = node.controller.image.end_offset

        def has_applied(_image: object) -> bool:
            (observer,) = [
                each for each in node.opened.quorum.node.replicas() if each.replica.id == BROKER_ID
            ]
            return (observer.log_end or 0) >= end

        await broker.until(node, has_applied)
        async with AdminClient([broker.address], is_controller=False) as client:
            await client.create_topic("payments", partitions=1, replication_factor=1)
        assert broker.complaints == []
        (copy,) = (broker.storage / LOG_FOLDER).glob("*.log")
        assert NO_OP_WITH_PAYLOAD in copy.read_bytes()

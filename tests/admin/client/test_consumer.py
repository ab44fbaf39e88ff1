"""The consumer against brokers that cut batches, move leaders and send broken bytes."""

from collections.abc import Mapping
from contextlib import aclosing

import pytest

from admin.client.consumer import Consumer, Span
from admin.client.librdkafka import UnknownTopic
from admin.faults import AdminError
from quorum.protocol.apis import ApiKey
from quorum.records.encode import ClientRecord, encode_client
from quorum.transport.address import Address
from tests.admin.client.memory_brokers import FIRST_ID, TOPIC, MemoryBrokers
from tests.admin.scripted_node import Asked, ScriptedNode, listening


def filled(*batches: tuple[int, list[str]]) -> MemoryBrokers:
    brokers = MemoryBrokers()
    for partition, values in batches:
        records = [ClientRecord(1_000, b"k", value.encode()) for value in values]
        brokers.partitions[partition].append(bytes(encode_client(records)))
    return brokers


async def read(
    addresses: list[Address], start: Mapping[int, int], end: Mapping[int, int]
) -> list[tuple[int, int, bytes | None]]:
    found: list[tuple[int, int, bytes | None]] = []
    async with (
        Consumer(addresses, TOPIC, timeout_ms=2_000) as reader,
        aclosing(reader.read(start, end)) as chunks,
    ):
        async for records in chunks:
            found += [(each.partition, each.offset, each.value) for each in records]
    return found


async def test_the_ends_of_all_partitions_are_known() -> None:
    brokers = filled((0, ["a", "b"]), (1, ["c"]))
    async with brokers.listening() as addresses, Consumer(addresses, TOPIC) as reader:
        assert await reader.spans() == {0: Span(0, 2), 1: Span(0, 1)}


async def test_a_new_leader_that_does_not_know_its_end_yet_is_asked_again() -> None:
    """KIP-207: OFFSET_NOT_AVAILABLE, until its high watermark has passed its own beginning."""
    brokers = filled((0, ["a", "b"]), (1, ["c"]))
    answers = [78, 78]
    brokers.before_list = lambda _: answers.pop() if answers else None
    async with brokers.listening() as addresses, Consumer(addresses, TOPIC) as reader:
        assert await reader.spans() == {0: Span(0, 2), 1: Span(0, 1)}
    assert not answers


async def test_everything_is_read_in_order_though_batches_arrive_cut() -> None:
    brokers = filled((0, ["a", "b"]), (1, ["c"]), (0, ["d"]), (0, ["e", "f"]))
    async with brokers.listening() as addresses:
        found = await read(addresses, {0: 0, 1: 0}, {0: 5, 1: 1})
    assert sorted(found) == [
        (0, 0, b"a"),
        (0, 1, b"b"),
        (0, 2, b"d"),
        (0, 3, b"e"),
        (0, 4, b"f"),
        (1, 0, b"c"),
    ]


async def test_records_outside_the_range_are_skipped_although_their_batch_is_read() -> None:
    brokers = filled((0, ["a", "b", "c", "d"]))
    async with brokers.listening() as addresses:
        found = await read(addresses, {0: 1}, {0: 3})
    assert found == [(0, 1, b"b"), (0, 2, b"c")]


async def test_the_reader_follows_the_lead() -> None:
    brokers = filled((0, ["a"]), (0, ["b"]))
    async with brokers.listening() as addresses, Consumer(addresses, TOPIC) as reader:
        for offset, value in enumerate((b"a", b"b")):
            async with aclosing(reader.read({0: offset}, {0: offset + 1})) as chunks:
                assert [each.value async for records in chunks for each in records] == [value]
            brokers.partitions[0].leader = FIRST_ID + 1


async def test_a_damaged_batch_is_refused_with_its_place() -> None:
    brokers = filled((0, ["a"]))
    damaged = bytearray(brokers.partitions[0].batches[0])
    damaged[-2] ^= 1
    brokers.partitions[0].batches[0] = bytes(damaged)
    async with brokers.listening() as addresses:
        with pytest.raises(AdminError, match=r"offset 0.*CRC32C"):
            await read(addresses, {0: 0}, {0: 1})


async def test_a_reader_without_a_leader_gives_up_in_time() -> None:
    brokers = filled((0, ["a"]))
    brokers.partitions[0].leader = -1
    async with (
        brokers.listening() as addresses,
        Consumer(addresses, TOPIC, timeout_ms=100) as reader,
    ):
        with pytest.raises(AdminError, match=r"orders-0 cannot be read for 100 ms: "):
            await reader.spans([0])


async def test_a_topic_that_is_not_there_is_named() -> None:
    brokers = MemoryBrokers()
    async with brokers.listening() as addresses, Consumer(addresses, "nope") as reader:
        with pytest.raises(UnknownTopic, match="there is no topic nope"):
            await reader.spans()


async def test_an_offset_that_is_not_held_is_an_error() -> None:
    brokers = filled((0, ["a"]))
    for node in brokers.nodes:
        _refuse_fetches(node)
    async with listening(*brokers.nodes) as addresses:
        with pytest.raises(AdminError, match=r"topic orders cannot be read: .*out of range"):
            await read(addresses, {0: 0}, {0: 1})


def _refuse_fetches(node: ScriptedNode) -> None:
    def script(asked: Asked) -> object:
        (topic,) = asked.message.topics
        partitions = tuple(
            asked.part(
                "PartitionData",
                error=1,
                partition_index=each.partition,
                high_watermark=-1,
                last_stable_offset=-1,
                log_start_offset=-1,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=b"",
            )
            for each in topic.partitions
        )
        found = asked.part("FetchableTopicResponse", topic_id=topic.topic_id, partitions=partitions)
        return asked.respond(0, session_id=0, responses=(found,))

    node.scripts[ApiKey.FETCH] = script

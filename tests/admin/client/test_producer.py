"""The producer against brokers that lose answers, move leaders, and refuse."""

import asyncio
import gzip
from collections.abc import Sequence

import pytest

from admin.client.librdkafka import UnknownTopic
from admin.client.producer import (
    ANY_PARTITION,
    NO_OFFSET,
    DeliveryFailed,
    Position,
    Producer,
)
from admin.faults import AdminError
from quorum.protocol.apis import ApiKey
from quorum.records.batch import HEADER_BYTES, header_at
from quorum.records.encode import ClientRecord
from statemachine.vocabulary import NO_LEADER
from tests.admin.client.memory_brokers import FIRST_ID, TOPIC, MemoryBrokers, once
from tests.admin.scripted_node import HangUp

NOT_ENOUGH_REPLICAS = 19
DUPLICATE_SEQUENCE_NUMBER = 46
MESSAGE_TOO_LARGE = 10
NOT_LEADER = 6
GZIP = 1


def records(*values: str) -> Sequence[ClientRecord]:
    return [ClientRecord(1_000, None, value.encode()) for value in values]


async def test_each_send_is_told_where_its_records_are() -> None:
    brokers = MemoryBrokers()
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        sent = [await producer.send(TOPIC, 1, records(f"{n}a", f"{n}b")) for n in range(3)]
        await producer.flush()
    assert [future.result() for future in sent] == [
        [Position(1, n), Position(1, n + 1)] for n in (0, 2, 4)
    ]
    assert brokers.values(1) == [b"0a", b"0b", b"1a", b"1b", b"2a", b"2b"]


async def test_records_without_a_key_go_to_the_partitions_with_a_leader_in_turn() -> None:
    brokers = MemoryBrokers(partitions=6)
    brokers.partitions[4].leader = NO_LEADER
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        await producer.check(TOPIC, ANY_PARTITION)
        for _ in range(5):
            await producer.send(TOPIC, ANY_PARTITION, records("a", "b"))
        keyed = ClientRecord(1_000, b"k", b"keyed")
        await producer.send(TOPIC, ANY_PARTITION, [keyed, keyed])
        await producer.flush()
    values = [brokers.values(number) for number in range(6)]
    assert [len([v for v in each if v != b"keyed"]) for each in values] == [2, 2, 2, 2, 0, 2]
    assert [each.count(b"keyed") for each in values if b"keyed" in each] == [2]


async def test_batches_have_the_compression_and_records_the_headers_that_are_asked_for() -> None:
    brokers = MemoryBrokers()
    async with brokers.listening() as addresses, Producer(addresses, compression="gzip") as it:
        await (await it.send(TOPIC, 0, [ClientRecord(1_000, None, b"a" * 500, [("h", b"v")])]))
    (batch,) = brokers.partitions[0].batches
    assert header_at(batch).codec == GZIP
    assert b"\x02h\x02v" in gzip.decompress(batch[HEADER_BYTES:])


@pytest.mark.parametrize("trouble", [HangUp, NOT_LEADER, NOT_ENOUGH_REPLICAS])
async def test_a_batch_whose_answer_is_lost_is_written_once(trouble: int | type[HangUp]) -> None:
    """KIP-98: it is sent again with the same sequence number, and the broker knows it."""
    brokers = MemoryBrokers()
    brokers.after_append = once(trouble)
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        sent = [await producer.send(TOPIC, 0, records(str(number))) for number in range(5)]
        await producer.flush()
    assert brokers.values(0) == [b"0", b"1", b"2", b"3", b"4"]
    assert [future.result()[0].offset for future in sent] == [0, 1, 2, 3, 4]


async def test_a_batch_that_was_not_taken_is_sent_again() -> None:
    brokers = MemoryBrokers()
    brokers.before_append = once(NOT_ENOUGH_REPLICAS)
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        await (await producer.send(TOPIC, 0, records("a")))
    assert brokers.values(0) == [b"a"]
    assert len(brokers.asked(ApiKey.PRODUCE)) == 2


async def test_a_batch_that_the_broker_no_longer_knows_the_place_of_is_written() -> None:
    brokers = MemoryBrokers()
    brokers.after_append = once(DUPLICATE_SEQUENCE_NUMBER)
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        sent = await (await producer.send(TOPIC, 0, records("a")))
    assert sent[0].offset == NO_OFFSET


async def test_the_producer_follows_the_lead() -> None:
    brokers = MemoryBrokers()
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        await (await producer.send(TOPIC, 0, records("a")))
        brokers.partitions[0].leader = FIRST_ID + 1
        await (await producer.send(TOPIC, 0, records("b")))
    assert brokers.values(0) == [b"a", b"b"]


async def test_partitions_have_one_batch_under_way_and_gather_the_next_meanwhile() -> None:
    brokers = MemoryBrokers()
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        for _ in range(2):
            for number in range(100):
                await producer.send(TOPIC, 0, records(str(number)))
            await producer.flush()
    batches = [header_at(batch) for batch in brokers.partitions[0].batches]
    assert 2 <= len(batches) < 10
    assert [each.base_sequence for each in batches] == [each.base_offset for each in batches]


async def test_a_refusal_fails_the_producer_for_good() -> None:
    """Nothing that was sent later may be written: it would overtake what was not."""
    brokers = MemoryBrokers()
    brokers.before_append = once(MESSAGE_TOO_LARGE)
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        first = await producer.send(TOPIC, 0, records("a"))
        second = await producer.send(TOPIC, 0, records("b"))
        with pytest.raises(AdminError, match=r"records for orders-0 were not written: .*too large"):
            await producer.flush()
        for sent in (first, second):
            with pytest.raises(AdminError):
                await sent
        with pytest.raises(AdminError):
            await producer.send(TOPIC, 1, records("c"))
    assert brokers.values(0) == []


async def test_records_that_cannot_be_delivered_in_time_are_reported() -> None:
    brokers = MemoryBrokers()
    brokers.before_append = lambda _: NOT_ENOUGH_REPLICAS
    async with (
        brokers.listening() as addresses,
        Producer(addresses, delivery_ms=150) as producer,
    ):
        sent = await producer.send(TOPIC, 0, records("a"))
        with pytest.raises(
            DeliveryFailed, match=r"orders-0 were not written: .*timed out.*in-sync"
        ):
            await sent


async def test_with_acks_of_the_leader_alone_batches_have_no_numbers() -> None:
    brokers = MemoryBrokers()
    async with brokers.listening() as addresses, Producer(addresses, acks="1") as producer:
        await (await producer.send(TOPIC, 0, records("a")))
    assert not brokers.asked(ApiKey.INIT_PRODUCER_ID)
    (asked,) = brokers.asked(ApiKey.PRODUCE)
    assert asked.message.acks == 1
    header = header_at(brokers.partitions[0].batches[0])
    assert (header.producer_id, header.base_sequence) == (-1, -1)


async def test_send_waits_while_too_much_is_under_way() -> None:
    brokers = MemoryBrokers()
    async with (
        brokers.listening() as addresses,
        Producer(addresses, buffer_bytes_max=1_024) as producer,
    ):
        first = await producer.send(TOPIC, 0, records("x" * 1_000))
        waiting = asyncio.get_running_loop().create_task(
            producer.send(TOPIC, 1, records("y" * 500))
        )
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not first.done()
        await (await waiting)
        assert first.done()


async def test_closing_gives_up_what_is_under_way() -> None:
    brokers = MemoryBrokers()
    brokers.before_append = lambda _: NOT_ENOUGH_REPLICAS
    async with brokers.listening() as addresses:
        async with Producer(addresses) as producer:
            sent = await producer.send(TOPIC, 0, records("a"))
        with pytest.raises(DeliveryFailed, match="was closed before"):
            await sent


@pytest.mark.parametrize(
    ("topic", "partition", "message"),
    [("nope", 0, "there is no topic nope"), (TOPIC, 2, "partitions 0 to 1, and not 2")],
)
async def test_a_partition_that_is_not_there_is_named(
    topic: str, partition: int, message: str
) -> None:
    brokers = MemoryBrokers()
    async with brokers.listening() as addresses, Producer(addresses) as producer:
        with pytest.raises(UnknownTopic, match=message):
            await producer.check(topic, partition)
        with pytest.raises(DeliveryFailed, match=r"Unknown (topic or )?partition"):
            await (await producer.send(topic, partition, records("a")))

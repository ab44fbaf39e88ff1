"""Decisions with more records than a batch holds: whole topics, brokers with many partitions."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from controller.ports import Unavailable
from controller.record_appender import CUT_RECORDS_MAX, TRANSACTION_RECORDS_MAX, batching
from quorum.core.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from quorum.records.batch import outlines
from quorum.records.decode import decode as decode_records
from statemachine import commands
from statemachine.errors import Error
from statemachine.limits import LEAVING_PARTITIONS_MAX
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.slices import whole
from tests.controller.controller_commands import (
    asked,
    busy,
    heartbeat,
    join,
    looked,
    registration,
    topic,
)
from tests.controller.logs import folded, log_of, records_of
from tests.statemachine.support.reference_checks import contents
from tests.support.controllers import SESSION_TIMEOUT_MS, a_controller

pytestmark = pytest.mark.thorough


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def many(name: str, count: int) -> commands.CreateTopics:
    """A topic of so many partitions, two replicas each."""
    asked_for = commands.NewTopic(
        name=name, topic_id=UUID(int=0x70 << 96 | 1), partition_count=count, replication_factor=2
    )
    return commands.CreateTopics(topics=(asked_for,))


async def test_a_topic_larger_than_a_batch_counts_as_a_whole(tmp_path: Path) -> None:
    """KIP-868: Kafka's brokers show nothing of a transaction before it has ended."""
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101, 102)
        answer = await asked(controller, many("large", 30_000))
        assert isinstance(answer, commands.TopicsCreated)
        assert answer.topics[0].error is Error.NONE
        log = log_of(node)
        written = records_of(log)
        first = next(i for i, each in enumerate(written) if isinstance(each, kafka_records.Topic))
        assert isinstance(written[first - 1], kafka_records.BeginTransaction)
        assert isinstance(written[-1], kafka_records.EndTransaction)
        assert len(written) == first + 1 + 30_000 + 1
        assert all(each.end - each.base <= BATCH_RECORDS_MAX for each in outlines(log))
        image = contents(controller.image)
        assert contents(folded(log)) == image
        assert image["transaction"] is None
        before = image["topics"]
    async with a_controller(tmp_path) as node:
        assert contents(node.controller.image)["topics"] == before


async def test_a_broker_with_more_partitions_than_a_batch_holds_is_fenced(tmp_path: Path) -> None:
    clock = Clock()
    async with a_controller(tmp_path, session_clock=clock) as node:
        controller = node.controller
        await join(controller, 101, 102)
        await asked(controller, many("large", 25_000))
        assert controller.heartbeats is not None
        controller.heartbeats.touch(101, clock(), 0)
        clock.ms += SESSION_TIMEOUT_MS
        controller.heartbeats.touch(102, clock(), 0)
        controller.sweep()
        # The work of one decision is bounded; that it is not over shows: the broker is not fenced.
        image = controller.image
        assert image.index.count(image.index.isr_of, 101) == 25_000 - LEAVING_PARTITIONS_MAX
        assert not image.brokers[101].fenced
        controller.sweep()
        state = await looked(
            controller,
            lambda image: (
                image.brokers[101].fenced,
                image.index.count(image.index.isr_of, 101),
                image.index.count(image.index.leader_of, 102),
            ),
        )
        assert state == (True, 0, 25_000)
        end = image.end_offset
        controller.sweep()
        assert image.end_offset == end
        assert contents(folded(log_of(node))) == contents(image)


async def test_such_a_broker_comes_back_stops_and_is_forgotten(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101, 102)
        await asked(controller, many("large", 25_000))
        stopping = heartbeat(controller, 101)
        stopping = commands.BrokerHeartbeat(
            broker_id=101,
            broker_epoch=stopping.broker_epoch,
            metadata_offset=stopping.metadata_offset,
            want_shut_down=True,
        )
        answer = await asked(controller, stopping)
        # It lives and would be in sync again before a second part had its turn: all at once.
        assert isinstance(answer, commands.HeartbeatAnswered)
        index = controller.image.index
        assert index.count(index.leader_of, 102) == 25_000
        assert controller.image.brokers[101].stopping_at is not None
        fenced = await asked(controller, commands.FenceBrokers(broker_ids=(101, 102)))
        assert fenced is Unavailable.OVERLOADED  # The first part of it is done.
        fenced = await asked(controller, commands.FenceBrokers(broker_ids=(101, 102)))
        assert isinstance(fenced, commands.BrokersFenced)
        assert fenced.broker_ids == (101, 102)
        assert index.count(index.leader_of, -1) == 25_000
        risen = await asked(controller, heartbeat(controller, 102))
        assert risen is Unavailable.OVERLOADED
        assert index.count(index.leader_of, 102) == LEAVING_PARTITIONS_MAX
        risen = await asked(controller, heartbeat(controller, 102))
        assert isinstance(risen, commands.HeartbeatAnswered)
        assert not risen.fenced
        assert index.count(index.leader_of, 102) == 25_000
        forgotten = [
            await asked(controller, commands.UnregisterBroker(broker_id=102)) for _ in range(2)
        ]
        assert forgotten == [Unavailable.OVERLOADED, commands.Done()]
        assert 102 not in controller.image.brokers


async def test_a_large_decision_is_undone_as_a_whole_when_the_lead_is_lost(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101, 102)
        before = contents(controller.image)
        async with busy(node.opened.disk):
            answer = asked(controller, many("large", 12_000))
            stopping = asyncio.get_running_loop().create_task(node.stop())
            assert await answer is Unavailable.LEAD_LOST
            assert contents(controller.image) == before
        await stopping


async def test_a_transaction_that_a_leader_left_open_is_ended_by_the_next_one(
    tmp_path: Path,
) -> None:
    """Or everything after it would be part of it, and never count for Kafka's brokers."""
    half = (
        kafka_records.BeginTransaction(name="half"),
        kafka_records.Topic(name="half", topic_id=UUID(int=0x70 << 96 | 2)),
    )
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101)
        await asked(node.controller, topic("kept", 101))
        node.opened.quorum.replica.propose([encode(each, 29) for each in half])
        while not isinstance(records_of(log_of(node))[-1], kafka_records.Topic):
            await node.opened.quorum.leader_changed(within_seconds=0.005)
    async with a_controller(tmp_path) as node:
        image = node.controller.image
        assert image.transaction is None
        assert set(image.topic_ids) == {"kept"}
        written = records_of(log_of(node))
        after = written[written.index(half[1]) + 1]
        assert isinstance(after, kafka_records.AbortTransaction)
        await asked(node.controller, topic("after", 101))
        assert contents(folded(log_of(node))) == contents(image)
        assert set(image.topic_ids) == {"kept", "after"}


async def test_a_broker_epoch_is_the_offset_of_its_record_however_much_may_be_lost(
    tmp_path: Path,
) -> None:
    """The records before a registration exceed a batch; the registration is in one."""
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101, 102)
        await asked(controller, many("large", 12_000))
        await asked(controller, commands.FenceBrokers(broker_ids=(101, 102)))
        index = controller.image.index
        assert index.count(index.elr_of, 101) == 12_000
        restarted = replace(registration(101), incarnation_id=UUID(int=0xB1))
        for left in (7_000, 2_000):
            assert await asked(controller, restarted) is Unavailable.OVERLOADED
            assert index.count(index.elr_of, 101) == left
        answer = await asked(controller, restarted)
        assert isinstance(answer, commands.BrokerRegistered)
        written = {
            record.offset: decode(record.value)
            for record in decode_records(log_of(node))
            if not record.control and record.value is not None
        }
        epochs = {
            offset: record.broker_epoch
            for offset, record in written.items()
            if isinstance(record, kafka_records.RegisterBroker)
        }
        assert len(epochs) == 3
        assert all(offset == epoch for offset, epoch in epochs.items())
        assert answer.broker_epoch == max(epochs) == controller.image.brokers[101].broker_epoch


def test_a_registration_is_never_part_of_a_transaction() -> None:
    """Its opening record would come before, and shift the epoch away from the offset."""
    filling: list[kafka_records.Record] = [kafka_records.NoOp()] * BATCH_RECORDS_MAX
    registered = kafka_records.RegisterBroker(
        broker_id=1,
        incarnation_id=UUID(int=1),
        broker_epoch=BATCH_RECORDS_MAX,
        endpoints=(),
        features=(),
        rack=None,
    )
    assert whole(batching([*filling[1:], registered], 29)) is not None
    with pytest.raises(AssertionError):
        whole(batching([*filling, registered], 29))


def test_a_decision_is_one_batch_if_it_fits_and_whole_batches_otherwise() -> None:
    def changes(count: int, name_bytes: int = 1) -> list[kafka_records.Record]:
        return [kafka_records.ClearElr(topic_name="n" * name_bytes) for _ in range(count)]

    def sizes(appended: list[kafka_records.Record]) -> list[int] | None:
        batches = whole(batching(appended, 29))
        if batches is None:
            return None
        for batch in batches:
            assert len(batch.values) == len(batch.records)
            assert sum(map(len, batch.values)) <= BATCH_BYTES_MAX
            assert batch.values == [encode(each, 29) for each in batch.records]
        together = [each for batch in batches for each in batch.records]
        assert [each for each in together if isinstance(each, kafka_records.ClearElr)] == appended
        return [len(batch.records) for batch in batches]

    assert sizes(changes(1)) == [1]
    assert sizes(changes(BATCH_RECORDS_MAX)) == [BATCH_RECORDS_MAX]
    cut = [CUT_RECORDS_MAX] * (BATCH_RECORDS_MAX // CUT_RECORDS_MAX)
    assert sizes(changes(BATCH_RECORDS_MAX + 1)) == [*cut, 3]
    megabyte = changes(20, 1024 * 1024)
    assert sizes(megabyte) == [8, 7, 7]
    assert sizes(changes(1, BATCH_BYTES_MAX)) is None
    assert sizes(changes(TRANSACTION_RECORDS_MAX + 1)) is None

"""Produce requests to real brokers over real sockets: appended, acknowledged, refused."""

import asyncio
from pathlib import Path

import pytest

from bench import frames
from quorum.protocol.apis import SPOKEN, ApiKey
from quorum.records.decode import decode
from tests.broker.client_requests import batch, fetch, produce, produce_request
from tests.broker.embedded_cluster import cluster, until


def values(records: bytes) -> list[bytes | None]:
    return [record.value for record in decode(records)]


async def test_records_acknowledged_by_all_are_read_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        first = await produce(brokers[1], "t", batch(b"a", b"b"))
        second = await produce(brokers[1], "t", batch(b"c"))
        assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
        answer = await fetch(brokers[1], "t", 0)
        assert values(answer.records) == [b"a", b"b", b"c"]
        assert answer.high_watermark == 3
        assert brokers[2].partition("t").log_end == 3


async def test_the_follower_has_the_bytes_of_the_leader(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        for value in (b"a", b"b", b"c"):
            await produce(brokers[1], "t", batch(value, value))
        leader, follower = (brokers[each].partition("t") for each in (1, 2))
        assert leader.log.read(leader.log.start, leader.log.end.offset, 1 << 20) == (
            follower.log.read(follower.log.start, follower.log.end.offset, 1 << 20)
        )


@pytest.mark.parametrize("version", range(3, 12))
async def test_every_version_is_answered(tmp_path: Path, version: int) -> None:
    assert version in SPOKEN[ApiKey.PRODUCE]
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        good = await produce(brokers[1], "t", batch(b"a"), acks=1, version=version)
        bad = await produce(brokers[1], "t", b"nonsense", acks=1, version=version)
        assert (good.error_code, bad.error_code) == (0, 2)


async def test_a_batch_sent_twice_is_kept_once_and_acknowledged_twice(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        sent = batch(b"a", b"b", producer=(7, 0, 0))
        answers = [await produce(brokers[1], "t", sent) for _ in range(3)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0)] * 3
        assert brokers[1].partition("t").log_end == 2


async def test_a_gap_and_an_old_epoch_are_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await produce(brokers[1], "t", batch(b"a", producer=(7, 1, 0)))
        gap = await produce(brokers[1], "t", batch(b"c", producer=(7, 1, 2)))
        old = await produce(brokers[1], "t", batch(b"b", producer=(7, 0, 1)))
        assert (gap.error_code, old.error_code) == (45, 47)


async def test_a_follower_knows_the_producers_when_it_becomes_leader(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        sent = batch(b"a", producer=(7, 0, 0))
        await produce(brokers[1], "t", sent)
        await brokers.stop(1)
        brokers.controller.fence(1)
        answer = await produce(brokers[2], "t", sent)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert brokers[2].partition("t").log_end == 1


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(None, 87, id="nothing"),
        pytest.param(b"too short", 2, id="no header"),
        pytest.param(batch(b"a")[:-1], 2, id="cut short"),
        pytest.param(batch(b"a")[:-1] + b"\xff", 2, id="wrong checksum"),
        pytest.param(batch(b"a") + batch(b"b"), 87, id="two batches"),
        pytest.param(batch(b"x" * (1 << 20) + b"x" * 100), 10, id="too large"),
        pytest.param(batch(b"a")[:16] + b"\x01" + batch(b"a")[17:], 43, id="old format"),
        pytest.param(batch(b"a", producer=(7, 0, -1)), 87, id="a producer without a sequence"),
    ],
)
async def test_a_bad_batch_gets_its_own_error_and_is_not_appended(
    tmp_path: Path, sent: bytes | None, code: int
) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        answer = await produce(brokers[1], "t", sent)
        assert answer.error_code == code
        assert answer.error_message
        assert brokers[1].partition("t").log_end == 0


async def test_the_size_of_a_batch_is_the_topics(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,), max_message_bytes="100")
        assert (await produce(brokers[1], "t", batch(b"x" * 100))).error_code == 10
        assert (await produce(brokers[1], "t", batch(b"x"))).error_code == 0


async def test_a_broker_that_does_not_lead_names_the_leader(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        unknown = await produce(brokers[1], "nowhere", batch(b"a"))
        follower = await produce(brokers[2], "t", batch(b"a"), version=11)
        assert (unknown.error_code, follower.error_code) == (3, 6)
        assert (follower.current_leader.leader_id, follower.current_leader.leader_epoch) == (1, 0)


async def test_acks_of_no_meaning_are_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        assert (await produce(brokers[1], "t", batch(b"a"), acks=2)).error_code == 21
        assert brokers[1].partition("t").log_end == 0


async def test_acks_0_is_not_answered_and_holds_up_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        reader, writer = await asyncio.open_connection("127.0.0.1", brokers[1].port)
        for correlation_id, acks in ((1, 0), (2, 1)):
            request = produce_request(9, "t", batch(b"a"), acks=acks)
            writer.write(frames.encode_request(ApiKey.PRODUCE, 9, correlation_id, "test", request))
        answer = await reader.readexactly(8)
        assert int.from_bytes(answer[4:]) == 2
        writer.close()
        await writer.wait_closed()
        assert brokers[1].partition("t").log_end == 2


async def test_acks_0_that_fails_closes_the_connection(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        reader, writer = await asyncio.open_connection("127.0.0.1", brokers[1].port)
        request = produce_request(9, "t", b"nonsense", acks=0)
        writer.write(frames.encode_request(ApiKey.PRODUCE, 9, 1, "test", request))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_too_few_in_sync_replicas_refuse_before_the_append(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2), min_insync_replicas="2")
        brokers.controller.fence(2)
        answer = await produce(brokers[1], "t", batch(b"a"))
        assert answer.error_code == 19
        assert brokers[1].partition("t").log_end == 0
        assert (await produce(brokers[1], "t", batch(b"a"), acks=1)).error_code == 0


async def test_too_few_left_in_sync_are_told_after_the_append(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2), min_insync_replicas="2")
        await brokers.stop(2)
        partition = brokers[1].partition("t")
        waiting = brokers.spawn(produce(brokers[1], "t", batch(b"a")))
        await until(lambda: partition.waiting == 1)
        brokers.controller.fence(2)
        assert (await waiting).error_code == 20


async def test_followers_that_do_not_confirm_in_time_are_a_timeout(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        await brokers.stop(2)
        answer = await produce(brokers[1], "t", batch(b"a"), timeout_ms=50)
        assert answer.error_code == 7


async def test_a_deposed_leader_answers_waiting_requests(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        await brokers.stop(2)
        partition = brokers[1].partition("t")
        waiting = brokers.spawn(produce(brokers[1], "t", batch(b"a")))
        await until(lambda: partition.waiting == 1)
        brokers.controller.delete("t")
        assert (await waiting).error_code == 6


async def test_append_time_is_the_brokers(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,), message_timestamp_type="LogAppendTime")
        answer = await produce(brokers[1], "t", batch(b"a", time_ms=1))
        assert answer.log_append_time is not None
        records = (await fetch(brokers[1], "t", 0)).records
        (record,) = decode(records)
        assert record.timestamp_ms == round(answer.log_append_time.timestamp() * 1_000)

"""Fetching from real brokers over real sockets, as consumers do."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.records.batch import outlines
from quorum.records.decode import decode
from quorum.transport.outcomes import RequestFailed
from tests.broker.client_requests import batch, fetch, fetch_request, produce
from tests.broker.embedded_cluster import Node, cluster, until


def values(records: bytes) -> list[bytes | None]:
    return [record.value for record in decode(records)]


async def write(node: Node, *sent: bytes) -> None:
    for value in sent:
        assert (await produce(node, "t", batch(value))).error_code == 0


@pytest.mark.parametrize("version", range(4, 18))
async def test_every_version_reads_what_is_there(tmp_path: Path, version: int) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await write(brokers[1], b"a", b"b")
        answer = await fetch(brokers[1], "t", 1, version=version)
        assert answer.error_code == 0
        assert values(answer.records) == [b"b"]
        assert (answer.high_watermark, answer.last_stable_offset) == (2, 2)


async def test_a_consumer_reads_only_what_is_committed(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        await write(brokers[1], b"a")
        await brokers.stop(2)
        assert (await produce(brokers[1], "t", batch(b"b"), acks=1)).error_code == 0
        answer = await fetch(brokers[1], "t", 0)
        assert values(answer.records) == [b"a"]
        assert answer.high_watermark == 1


async def test_a_fetch_waits_for_the_first_record(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        node = brokers[1]
        await brokers.create("t", (1,))
        waiting = brokers.spawn(fetch(node, "t", 0, wait_ms=20_000))
        await until(lambda: len(node.fetch_api.delayed) == 1)
        # On the same connection: the answer to the first request leaves first.
        await write(node, b"a")
        assert values((await waiting).records) == [b"a"]
        assert len(node.fetch_api.delayed) == 0


async def test_fetches_that_wait_are_bounded_for_each_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that names the same partition 15,000 times keeps some MiB until it is answered."""
    monkeypatch.setattr("broker.apis.fetch.DELAYED_PARTITIONS_MAX", 4 * 15_000)
    async with cluster(tmp_path, 1) as brokers:
        node = brokers[1]
        await brokers.create("t", (1,))
        request = fetch_request(node, "t", 0, wait_ms=20_000)
        (topic,) = request.topics
        many = replace(request, topics=(replace(topic, partitions=topic.partitions * 15_000),))
        waiting = [brokers.spawn(node.call(ApiKey.FETCH, 12, many)) for _ in range(2)]
        await until(lambda: len(node.fetch_api.delayed) == 2)
        other = node.connect()
        body = codec.encode_request_body(ApiKey.FETCH, 12, request)
        reply = await other.call(ApiKey.FETCH, body, timeout_ms=20_000, version=12)
        assert reply.decode().responses[0].partitions[0].records == b""
        assert len(node.fetch_api.delayed) == 2
        await other.close()
        await write(node, b"a")
        for answer in await asyncio.gather(*waiting):
            assert values(answer.responses[0].partitions[0].records) == [b"a"]
        # Now that they are answered, there is room again.
        later = brokers.spawn(fetch(node, "t", 1, wait_ms=20_000))
        await until(lambda: len(node.fetch_api.delayed) == 1)
        await write(node, b"b")
        assert values((await later).records) == [b"b"]


async def test_the_fetches_of_followers_go_first(tmp_path: Path) -> None:
    """A node that is no replica of the partition is a client like any other."""
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        leader = brokers[1]
        await write(leader, b"a")
        request = replace(fetch_request(leader, "t", 0), replica_id=3)
        answer = await leader.call(ApiKey.FETCH, 12, request)
        assert answer.responses[0].partitions[0].error_code == 6
        first = [each.is_served_first for each in leader.server._connections]
        assert sorted(first) == [False, True]


async def test_a_fetch_waits_no_longer_than_its_connection(tmp_path: Path) -> None:
    """Neither that of a consumer nor that of a follower."""
    async with cluster(tmp_path, 1, 2) as brokers:
        node = brokers[1]
        api = node.fetch_api
        await brokers.create("t", (1, 2))
        await until(lambda: len(api._replicas) == 1)

        async def consume() -> None:
            with pytest.raises(RequestFailed):
                await fetch(node, "t", 0, wait_ms=30_000)

        waiting = brokers.spawn(consume())
        await until(lambda: len(api.delayed) == 2)
        await brokers.stop(2)
        await node.client.close()
        await until(lambda: node.server.connections == 0)
        assert not api.delayed
        assert not api._replicas
        assert not api._by_partition
        await waiting


async def test_a_fetch_that_waits_in_vain_is_answered_empty(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        answer = await fetch(brokers[1], "t", 0, wait_ms=30)
        assert (answer.error_code, answer.records) == (0, b"")


async def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        node = brokers[1]
        await brokers.create("t", (1,))
        one = len(batch(b"a"))
        waiting = brokers.spawn(fetch(node, "t", 0, wait_ms=20_000, min_bytes=2 * one))
        await until(lambda: len(node.fetch_api.delayed) == 1)
        # Behind it on the same connection, so that their answers come after its own.
        first = brokers.spawn(write(node, b"a"))
        await until(lambda: node.partition("t").high_watermark == 1)
        assert len(node.fetch_api.delayed) == 1
        second = brokers.spawn(write(node, b"b"))
        assert values((await waiting).records) == [b"a", b"b"]
        await asyncio.gather(first, second)


async def test_a_batch_larger_than_asked_for_is_given_alone(tmp_path: Path) -> None:
    """KIP-74: or its reader would never get past it."""
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await write(brokers[1], b"x" * 1_000, b"b")
        answer = await fetch(brokers[1], "t", 0, partition_bytes=10)
        assert len(outlines(answer.records)) == 1
        answer = await fetch(brokers[1], "t", 0, max_bytes=10)
        assert len(outlines(answer.records)) == 1


@pytest.mark.parametrize("offset", [-1, 3])
async def test_an_offset_outside_the_log_is_said_to_be(tmp_path: Path, offset: int) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await write(brokers[1], b"a", b"b")
        assert (await fetch(brokers[1], "t", offset)).error_code == 1


async def test_leader_epochs_are_fenced_both_ways(tmp_path: Path) -> None:
    """KIP-320."""
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        brokers.controller.fence(1)
        await write(brokers[2], b"a")
        assert (await fetch(brokers[2], "t", 0, leader_epoch=0)).error_code == 74
        assert (await fetch(brokers[2], "t", 0, leader_epoch=1)).error_code == 0
        assert (await fetch(brokers[2], "t", 0, leader_epoch=2)).error_code == 75
        assert (await fetch(brokers[1], "t", 0)).error_code == 6


async def test_a_consumer_is_told_where_its_log_parts_from_the_leaders(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await write(brokers[1], b"a")
        answer = await fetch(brokers[1], "t", 5, last_epoch=0, version=12)
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)


async def test_unknown_topics_are_reported_by_name_and_by_id(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        assert (await fetch(brokers[1], "nowhere", 0, version=12)).error_code == 3
        assert (await fetch(brokers[1], "nowhere", 0, version=13)).error_code == 100
        assert (await fetch(brokers[1], "t", 0, number=1)).error_code == 3


async def test_a_session_is_not_kept(tmp_path: Path) -> None:
    """KIP-227: an answer with session 0 tells the client to name all partitions each time."""
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        request = fetch_request(brokers[1], "t", 0, version=12, session_id=7, session_epoch=1)
        answer = await brokers[1].call(ApiKey.FETCH, 12, request)
        assert (answer.error_code, answer.session_id) == (70, 0)
        answer = await brokers[1].call(ApiKey.FETCH, 12, fetch_request(brokers[1], "t", 0))
        assert (answer.error_code, answer.session_id) == (0, 0)


async def test_those_who_wait_are_told_when_the_leader_changes(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        waiting = brokers.spawn(fetch(brokers[1], "t", 0, wait_ms=20_000))
        await until(lambda: any(not each.is_replica for each in brokers[1].fetch_api.delayed))
        brokers.controller.fence(1)
        assert (await waiting).error_code == 6


async def test_a_malformed_request_closes_its_connection_and_no_other(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        reader, writer = await asyncio.open_connection("127.0.0.1", brokers[1].port)
        frame = (1).to_bytes(2) + (12).to_bytes(2) + bytes(4) + b"\xff\xff" + b"\x00" + b"\xff" * 9
        writer.write(len(frame).to_bytes(4) + frame)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert (await fetch(brokers[1], "t", 0)).error_code == 0

"""Attacks of a client without a name on a running cluster, each in a process of its own."""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import product
from typing import Any, Final
from uuid import UUID

import msgspec

from chaos.fuzz.values import FUZZED_TOPIC
from quorum.process import loop_factory
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response, request_body
from quorum.protocol.headers import response_body_start, write_request_header
from quorum.protocol.raft_types import METADATA_TOPIC, METADATA_TOPIC_ID
from quorum.records.batch import HEADER
from quorum.records.encode import ClientRecord, encode_client
from quorum.records.varint import uvarint

MIB: Final = 1024 * 1024
SOURCE: Final = ("127.0.0.2", 0)
"""Where the connections come from; the well-behaved client has another address."""
EPOCH_LEAP: Final = 1 << 24
WAIT_SECONDS: Final = 5.0
FORGING_SECONDS: Final = 8.0
FORGED_FETCHES: Final = "Fetch in the name of voters that stand still, 0.1 s at a time"
GUESSES: Final = 4
"""A forged fetch names each of so many ends of the log, from the high watermark on."""

Place = tuple[str, int]


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """The listeners of the cluster; the leader is the first controller."""

    cluster_id: str
    epoch: int
    ids: tuple[int, ...]
    controllers: tuple[Place, ...]
    broker: Place
    http: Place


async def send(place: Place, *frames: bytes, reads: bool = True, hold: float = 0.0) -> None:
    """Send bytes on a connection; read until the node closes it, or has had its time."""
    with suppress(OSError, TimeoutError, RuntimeError):
        async with asyncio.timeout(WAIT_SECONDS + hold):
            reader, writer = await asyncio.open_connection(*place, local_addr=SOURCE)
            try:
                for each in frames:
                    writer.write(each)
                    await writer.drain()
                if reads:
                    while await reader.read(1 << 16):
                        pass
                await asyncio.sleep(hold)
            finally:
                writer.transport.abort()


async def ask(place: Place, *frames: bytes) -> None:
    """Send requests, and read so many answers."""
    with suppress(OSError, EOFError, TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS):
            reader, writer = await asyncio.open_connection(*place, local_addr=SOURCE)
            try:
                writer.write(b"".join(frames))
                for _ in frames:
                    await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            finally:
                writer.transport.abort()


def framed(api_key: int, version: int, body: bytes) -> bytes:
    data = write_request_header(api_key, version, 1, "x") + body
    return len(data).to_bytes(4, "big") + data


def election(**partition: Any) -> dict[str, Any]:
    found = {"partition_index": 0, "voter_directory_id": None, **partition}
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [found]}]}


async def votes(to: Targets) -> None:
    for place, node in zip(to.controllers, to.ids, strict=True):
        frames = [
            framed(
                ApiKey.VOTE,
                1,
                request_body(
                    ApiKey.VOTE,
                    1,
                    cluster_id=None,
                    voter_id=node,
                    **election(
                        replica_id=99,
                        replica_directory_id=UUID(int=99),
                        replica_epoch=min(to.epoch + number * EPOCH_LEAP, 2**31 - 1),
                        last_offset_epoch=0,
                        last_offset=1 << 40,
                    ),
                ),
            )
            for number in range(1, 129)
        ]
        await ask(place, *frames)


async def forged_leaders(to: Targets) -> None:
    for place in to.controllers:
        frames = []
        for forged in (99, *to.ids):
            body = request_body(
                ApiKey.BEGIN_QUORUM_EPOCH,
                1,
                cluster_id=to.cluster_id,
                voter_id=to.ids[0],
                leader_endpoints=(),
                **election(leader_id=forged, leader_epoch=to.epoch + 1),
            )
            frames.append(framed(ApiKey.BEGIN_QUORUM_EPOCH, 1, body))
        await ask(place, *frames * 20)


async def rumours(to: Targets) -> None:
    for place in to.controllers:
        frames = [
            framed(
                ApiKey.DISCOVER_BROKERS,
                0,
                request_body(
                    ApiKey.DISCOVER_BROKERS,
                    0,
                    replica_id=victim,
                    boot_timestamp=1 << 62,
                    host="127.0.0.1",
                    port=1,
                    cluster_id=to.cluster_id,
                    directory_id=None,
                ),
            )
            for victim in to.ids
        ]
        await ask(place, *frames)


async def huge_frames(to: Targets) -> None:
    tags = uvarint(4_000_000) + b"\x00\x00" * 4_000_000
    quorum_header = write_request_header(ApiKey.DESCRIBE_QUORUM, 0, 1, None)
    names = (8_000_000).to_bytes(4, "big") + bytes(15_900_000)
    bodies = [
        write_request_header(ApiKey.METADATA, 1, 1, None) + names,
        quorum_header + uvarint(8_000_001) + b"\x01" * 8_000_000,
        quorum_header[:-1] + tags,
        write_request_header(ApiKey.LIST_OFFSETS, 7, 1, None) + b"\x00" * 5 + b"\xff" * 15_000_000,
        write_request_header(ApiKey.PRODUCE, 9, 1, None) + b"\x00" * 7 + b"\x01" * 15_000_000,
        write_request_header(ApiKey.CREATE_TOPICS, 5, 1, None)
        + uvarint(1_000_001)
        + b"\x01" * 15_000_000,
    ]
    for place in (to.controllers[0], to.broker):
        for each in bodies:
            await send(place, len(each).to_bytes(4, "big"), each)


async def cut_bodies(to: Targets) -> None:
    size = 63 * MIB
    head = (
        f"POST /v1/reassignments HTTP/1.1\r\nHost: {to.http[0]}:{to.http[1]}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()
    zeros = bytes(MIB)
    await asyncio.gather(
        *(send(to.http, head, *[zeros] * 62, zeros[:-1], hold=1.0) for _ in range(48))
    )


async def idle(to: Targets) -> None:
    held = [send(to.controllers[0], reads=False, hold=3.0) for _ in range(1_100)]
    await asyncio.gather(*held)


async def foreign_pages(to: Targets) -> None:
    for path in ("/v1/reassignments:pause", "/v1/quorum/leader:transfer") * 50:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {to.http[0]}:{to.http[1]}\r\nConnection: close\r\n"
            "Origin: http://evil.example\r\nContent-Length: 0\r\n\r\n"
        )
        await send(to.http, head.encode())


async def unread_pipelines(to: Targets) -> None:
    flood = framed(ApiKey.API_VERSIONS, 0, b"") * 2_000
    for place in (to.controllers[0], to.broker):
        await asyncio.gather(*(send(place, flood, reads=False, hold=3.0) for _ in range(40)))


async def many_unread(to: Targets) -> None:
    """All connections that one address may have; their sockets take as little as they can."""
    flood = framed(ApiKey.API_VERSIONS, 0, b"") * 2_000

    async def hold(place: Place) -> None:
        with socket.socket() as each, suppress(OSError, TimeoutError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            each.setblocking(False)
            each.bind(SOURCE)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(WAIT_SECONDS):
                await loop.sock_connect(each, place)
                await loop.sock_sendall(each, flood)
            await asyncio.sleep(WAIT_SECONDS)

    for place in (to.controllers[0], to.broker):
        await asyncio.gather(*(hold(place) for _ in range(2_000)))


async def unfinished_frames(to: Targets) -> None:
    size = 15 * MIB
    header = size.to_bytes(4, "big") + write_request_header(ApiKey.CREATE_TOPICS, 5, 1, "x")
    parts = [header, *[bytes(MIB)] * 14, bytes(MIB - len(header) + 3)]
    for place in (to.controllers[0], to.broker):
        await asyncio.gather(*(send(place, *parts, reads=False, hold=2.0) for _ in range(60)))


async def forged_fetches(to: Targets) -> None:
    """In the name of each follower, acknowledge what the leader may have appended."""
    now = asyncio.get_running_loop().time
    end, committed = now() + FORGING_SECONDS, 0
    with suppress(OSError, EOFError):
        reader, writer = await asyncio.open_connection(*to.controllers[0], local_addr=SOURCE)
        while now() < end:
            for offset in range(committed, committed + GUESSES):
                for version, frame in _fetches(to, offset):
                    writer.write(frame)
                    size = int.from_bytes(await reader.readexactly(4))
                    answer = await reader.readexactly(size)
                    start = response_body_start(answer, ApiKey.FETCH, version)
                    decoded = decode_response(ApiKey.FETCH, version, answer[start:])
                    (partition,) = decoded.responses[0].partitions
                    committed = max(committed, partition.high_watermark)
        writer.transport.abort()


def _fetches(to: Targets, log_end: int) -> Iterator[tuple[int, bytes]]:
    """Without a directory id, as up to version 16, and with one that was made up."""
    for replica, version in product(to.ids[1:], (16, 17)):
        partition = {
            "partition": 0,
            "current_leader_epoch": to.epoch,
            "fetch_offset": log_end,
            "last_fetched_epoch": to.epoch if log_end else 0,
            "log_start_offset": -1,
            "partition_max_bytes": MIB,
            "replica_directory_id": UUID(int=99),
        }
        body = request_body(
            ApiKey.FETCH,
            version,
            cluster_id=to.cluster_id,
            replica_state={"replica_id": replica},
            max_wait=timedelta(0),
            min_bytes=0,
            max_bytes=MIB,
            topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
            forgotten_topics_data=(),
        )
        yield version, framed(ApiKey.FETCH, version, body)


async def bad_batches(to: Targets) -> None:
    good = bytes(encode_client([ClientRecord(2**63 - 1, None, b"x")]))
    garbage = good[: HEADER.size] + b"\xff" * (len(good) - HEADER.size)
    claims = bytearray(good)
    claims[57:61] = (2**31 - 1).to_bytes(4, "big")
    frames = []
    for records in (good, garbage, bytes(claims[:61])) * 100:
        data = [{"name": FUZZED_TOPIC, "partition_data": [{"index": 0, "records": records}]}]
        wait = timedelta(seconds=1)
        body = request_body(ApiKey.PRODUCE, 9, acks=-1, timeout=wait, topic_data=data)
        frames.append(framed(ApiKey.PRODUCE, 9, body))
    await ask(to.broker, *frames)


async def foreign_clusters(to: Targets) -> None:
    """Votes of another cluster, whose id has bytes that no terminal should get."""
    body = request_body(
        ApiKey.VOTE,
        1,
        cluster_id="\x00\x1b[2J",
        voter_id=to.ids[0],
        **election(
            replica_id=to.ids[1],
            replica_directory_id=UUID(int=99),
            replica_epoch=to.epoch + 1,
            last_offset_epoch=to.epoch,
            last_offset=1 << 40,
        ),
    )
    for place in to.controllers:
        await ask(place, *[framed(ApiKey.VOTE, 1, body)] * 1_000)


async def malformed_http(to: Targets) -> None:
    request = b"GET / HTTP/1.1\r\nHost: a\r\nsecret\x01: \xff\r\n\r\n"
    for _ in range(40):
        await asyncio.gather(*(send(to.http, request) for _ in range(25)))


ROWS: Final[Mapping[str, Callable[[Targets], Awaitable[None]]]] = {
    "128 rounds of Vote to each controller, 2^24 epochs on": votes,
    "frames of 16 MiB with millions of empty elements": huge_frames,
    "DiscoverBrokers that moves every voter": rumours,
    "48 bodies of 63 MiB over HTTP without their last byte": cut_bodies,
    "1,100 idle connections": idle,
    "POST of a foreign page: pause, transfer of the lead": foreign_pages,
    "BeginQuorumEpoch with a forged leader": forged_leaders,
    FORGED_FETCHES: forged_fetches,
    "40 connections that pipeline 2,000 requests and never read": unread_pipelines,
    "2,000 connections that pipeline 2,000 requests and never read": many_unread,
    "60 frames of 15 MiB, each one byte short": unfinished_frames,
    "batches with garbage, 2^31-1 records, the last timestamp": bad_batches,
    "1,000 malformed HTTP requests": malformed_http,
    "1,000 votes to each controller, with a NUL in a foreign cluster id": foreign_clusters,
}


def main() -> None:
    """Carry out the row that is named, on the targets on standard input."""
    targets = msgspec.json.decode(sys.stdin.buffer.read(), type=Targets)

    async def row() -> None:
        await ROWS[sys.argv[1]](targets)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(row())


if __name__ == "__main__":
    main()

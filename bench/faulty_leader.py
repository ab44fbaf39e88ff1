"""A network whose proxies forge a leader's answers to the fetches of one follower."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Any, Final

from chaos.processes.faults import Link
from chaos.processes.proxies import Proxies, opening, until_either_ends
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.headers import (
    read_request_prefix,
    response_body_start,
    write_framed_response_header,
)

AHEAD: Final = 5
"""The distance of a forged epoch from the leader's."""
_LENGTH_BYTES: Final = 4

Frame = Callable[[bytes], bytes]


class FaultyLeader(Proxies):
    """Proxies that pass everything on, but for the answers of a leader that is made faulty."""

    def __init__(self, nodes: Iterable[int]) -> None:
        super().__init__(nodes)
        self._forged: Link | None = None
        self._snapshots = cycle((_half_an_id, _offer_of_a_later_epoch))
        self.forgeries = 0
        """The number of answers that were forged."""

    @contextmanager
    def forging(self, leader: int, follower: int) -> Iterator[None]:
        """Forge the answers of this leader to the fetches of this follower for as long."""
        self._forged = (leader, follower)
        try:
            yield
        finally:
            self._forged = None

    async def _relay(self, node: int, reader: StreamReader, writer: StreamWriter) -> None:
        source, first = await opening(reader)
        # Of each request under way: what its answer is.
        asked: dict[int, tuple[int, int]] = {}

        def request(frame: bytes) -> bytes:
            api_key, version, correlation_id = read_request_prefix(frame)
            asked[correlation_id] = api_key, version
            return _framed(frame)

        def answer(frame: bytes) -> bytes:
            correlation_id = int.from_bytes(frame[:_LENGTH_BYTES])
            api_key, version = asked.pop(correlation_id)
            if api_key != ApiKey.FETCH or self._forged != (node, source):
                return _framed(frame)
            return self._forgery(frame, correlation_id, version)

        inner_reader, inner_writer = await asyncio.open_connection(*self.listener_of(node))
        try:
            await until_either_ends(
                _pump(reader, inner_writer, request, begun=first),
                _pump(inner_reader, writer, answer),
            )
        finally:
            inner_writer.transport.abort()

    def _forgery(self, frame: bytes, correlation_id: int, version: int) -> bytes:
        start = response_body_start(frame, ApiKey.FETCH, version)
        answer = codec.decode_response(ApiKey.FETCH, version, frame[start:])
        if not answer.responses:
            return _framed(frame)
        self.forgeries += 1
        (topic,) = answer.responses
        (partition,) = topic.partitions
        forged = next(self._snapshots)(partition)
        answer = replace(answer, responses=(replace(topic, partitions=(forged,)),))
        body = codec.encode_response_body(ApiKey.FETCH, version, answer)
        return write_framed_response_header(correlation_id, len(body), flexible=True) + body


def _half_an_id(partition: Any) -> Any:
    id_ = replace(partition.snapshot_id, end_offset=AHEAD, epoch=-1)
    return replace(partition, records=b"", snapshot_id=id_)


def _offer_of_a_later_epoch(partition: Any) -> Any:
    """Return the offer of a snapshot that no leader of this epoch can have."""
    epoch = partition.current_leader.leader_epoch + AHEAD
    id_ = replace(partition.snapshot_id, end_offset=partition.high_watermark, epoch=epoch)
    return replace(partition, records=b"", snapshot_id=id_)


def _framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(_LENGTH_BYTES, "big") + frame


async def _pump(
    reader: StreamReader, writer: StreamWriter, passed: Frame, *, begun: bytes = b""
) -> None:
    """Carry frame by frame, the first of which has begun with these bytes."""
    while True:
        begun += await reader.readexactly(max(0, _LENGTH_BYTES - len(begun)))
        length = int.from_bytes(begun[:_LENGTH_BYTES])
        rest = await reader.readexactly(length + _LENGTH_BYTES - len(begun))
        writer.write(passed(begun[_LENGTH_BYTES:] + rest))
        await writer.drain()
        begun = b""

"""The proxies before the nodes of a run: bytes that pass, are held back, or reset."""

import asyncio
import gc
import socket
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chaos.processes.proxies import Proxies
from quorum.protocol.frames import FrameSplitter
from quorum.protocol.headers import write_request_header
from tests.support.bell import PATIENCE_SECONDS

FIRST = write_request_header(18, 3, 0, "replica-1")
STRANGER = write_request_header(18, 3, 0, "metaquorum-admin")


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


class Node2:
    """The server of node 2: it keeps what it receives, and echoes each whole frame."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        while data := await reader.read(1_000):
            splitter.feed(data)
            while (frame := splitter.take()) is not None:
                self.heard.put_nowait(frame)
                writer.write(framed(frame))
        writer.close()


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Proxies, Node2]]:
    proxies, node = Proxies((1, 2)), Node2()
    async with await asyncio.start_server(node.serve, *proxies.listener_of(2)):
        await proxies.up(2)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                yield proxies, node
        finally:
            await proxies.close()


async def say(proxies: Proxies, first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*proxies.address_of(2))
    writer.write(framed(first))
    return reader, writer


async def test_requests_and_answers_pass_unread() -> None:
    async with two() as (proxies, node):
        reader, writer = await say(proxies, FIRST)
        assert await node.heard.get() == FIRST
        assert await reader.readexactly(4 + len(FIRST)) == framed(FIRST)
        writer.close()


async def test_a_link_that_is_cut_holds_back_what_it_carries_until_it_is_healed() -> None:
    async with two() as (proxies, node):
        await proxies.cut([(1, 2)])
        _, held = await say(proxies, FIRST)
        _, passes = await say(proxies, STRANGER)
        assert await node.heard.get() == STRANGER
        assert node.heard.empty()
        await proxies.heal()
        assert await node.heard.get() == FIRST
        held.close()
        passes.close()


async def test_a_link_is_cut_for_one_direction() -> None:
    async with two() as (proxies, node):
        reader, writer = await say(proxies, FIRST)
        await reader.readexactly(4 + len(FIRST))
        await node.heard.get()
        await proxies.cut([(2, 1)])
        writer.write(framed(b"second"))
        assert await node.heard.get() == b"second"
        answer = asyncio.get_running_loop().create_task(reader.readexactly(10))
        await asyncio.wait({answer}, timeout=0.05)
        assert not answer.done()
        await proxies.heal()
        assert await answer == framed(b"second")
        writer.close()


async def test_nobody_listens_for_a_node_that_is_down() -> None:
    async with two() as (proxies, node):
        reader, writer = await say(proxies, FIRST)
        await node.heard.get()
        await reader.readexactly(4 + len(FIRST))
        proxies.down(2)
        assert await reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*proxies.address_of(2))
        writer.close()
        await proxies.up(2)
        again, writer = await say(proxies, FIRST)
        assert await again.readexactly(4 + len(FIRST)) == framed(FIRST)
        writer.close()


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_was_just_accepted_ends_with_its_node(turns: int) -> None:
    """The connection waits in the kernel, was accepted in this turn, or is being served."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with two() as (proxies, _):
            with socket.create_connection(proxies.address_of(2)) as peer:
                for _ in range(turns):
                    await asyncio.sleep(0)
                proxies.down(2)
                await proxies.close()
                gc.collect()
                peer.settimeout(PATIENCE_SECONDS)
                assert ended(peer)
    assert [str(each.message) for each in warned] == []


def ended(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True

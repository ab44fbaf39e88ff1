"""Controllers on loopback addresses, each reached through a proxy: works on any machine.

The first request on a connection names the calling node in its client id. A link that is cut holds
back its bytes in connections that stay open. A lost packet is the pause until it would have been
sent again.
"""

import asyncio
import contextlib
import random
import re
import shutil
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import ExitStack
from struct import Struct
from typing import Any, Final

from chaos.processes.faults import Link
from chaos.processes.network import NetworkFault
from quorum.transport.address import Address

CHUNK_BYTES: Final = 64 * 1024
_PREFIX: Final = Struct(">ihhih")
"""Length, api key, version, correlation id, and the length of the client id."""
_NODE: Final = re.compile(rb"(?:replica|forwarder|registrar)-(\d+)")
_STRANGER: Final = 0
_ENDS_WITH_PARENT: Final = ("setpriv", "--pdeathsig", "KILL")
RETRANSMIT_MS: Final = 200
"""The least time after which Linux sends a lost segment again."""


class Proxies:
    """The network of a run whose nodes share this machine's loopback."""

    def __init__(self, nodes: Iterable[int]) -> None:
        nodes = tuple(nodes)
        places = free_addresses(2 * len(nodes))
        self._public = dict(zip(nodes, places[::2], strict=True))
        self._private = dict(zip(nodes, places[1::2], strict=True))
        self._listening: dict[int, socket.socket] = {}
        self._connections: dict[asyncio.Task[None], int] = {}
        self._cut: set[Link] = set()
        self._healed = asyncio.Event()
        self._delay_ms = 0
        self._loss_percent = 0

    def address_of(self, node: int) -> Address:
        return self._public[node]

    def listener_of(self, node: int) -> Address:
        return self._private[node]

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        # A node ends with this program, even if that is killed.
        return [*_ENDS_WITH_PARENT, *command] if shutil.which("setpriv") else list(command)

    async def up(self, node: int) -> None:
        listening = socket.create_server(self._public[node])
        listening.setblocking(False)
        self._listening[node] = listening
        asyncio.get_running_loop().add_reader(listening, self._accept, node, listening)

    def down(self, node: int) -> None:
        # As the kernel does it for a process that has ended: nobody listens, connections end.
        listening = self._listening.pop(node)
        asyncio.get_running_loop().remove_reader(listening)
        listening.close()
        for connection, target in self._connections.items():
            if target == node:
                connection.cancel()

    async def cut(self, links: Iterable[Link]) -> None:
        self._cut |= set(links)

    async def impair(self, *, delay_ms: int = 0, loss_percent: int = 0) -> None:
        self._delay_ms, self._loss_percent = delay_ms, loss_percent

    async def heal(self) -> None:
        self._delay_ms = self._loss_percent = 0
        self._cut.clear()
        healed, self._healed = self._healed, asyncio.Event()
        healed.set()

    async def close(self) -> None:
        for node in tuple(self._listening):
            self.down(node)
        if self._connections:
            await asyncio.wait(tuple(self._connections))

    def _accept(self, node: int, listening: socket.socket) -> None:
        """Accept one connection and own it, whatever happens to the node.

        The event loop's own server leaks a connection that it accepts in the turn in which it is
        closed (CPython 3.11, `Server._attach`).
        """
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            # Whoever came has gone again.
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(node, accepted))
        self._connections[task] = node

        def ended(_: object) -> None:
            # Also of a task that was cancelled before its first step, which has closed nothing.
            accepted.close()
            del self._connections[task]

        task.add_done_callback(ended)

    async def _serve(self, node: int, accepted: socket.socket) -> None:
        """Carry one connection to the node until either side ends it."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Cancelled: the node is down, and there is nobody left to be told.
            reader, writer = await asyncio.open_connection(sock=accepted)
            try:
                await self._relay(node, reader, writer)
            finally:
                writer.transport.abort()

    async def _relay(self, node: int, reader: StreamReader, writer: StreamWriter) -> None:
        source, first = await opening(reader)
        await self._open((source, node))
        inner_reader, inner_writer = await asyncio.open_connection(*self._private[node])
        try:
            inner_writer.write(first)
            await until_either_ends(
                self._pump((source, node), reader, inner_writer),
                self._pump((node, source), inner_reader, writer),
            )
        finally:
            inner_writer.transport.abort()

    async def _pump(self, link: Link, reader: StreamReader, writer: StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._open(link)
            writer.write(data)
            await writer.drain()

    async def _open(self, link: Link) -> None:
        """Wait until the link is whole, and as long as it delays."""
        if _STRANGER not in link:
            lost = _RNG.random() * 100 < self._loss_percent
            if self._delay_ms or lost:
                await asyncio.sleep((self._delay_ms + lost * RETRANSMIT_MS) / 1_000)
        while link in self._cut:
            await self._healed.wait()


async def until_either_ends(*ways: Coroutine[Any, Any, None]) -> None:
    """Carry bytes both ways until one side ends the connection."""
    loop = asyncio.get_running_loop()
    tasks = {loop.create_task(each) for each in ways}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def opening(reader: StreamReader) -> tuple[int, bytes]:
    """Return the node that opened the connection, 0 for none, and the bytes read to find out."""
    prefix = await reader.readexactly(_PREFIX.size)
    length = max(0, _PREFIX.unpack(prefix)[-1])
    client = await reader.readexactly(length)
    found = _NODE.fullmatch(client)
    return int(found[1]) if found else _STRANGER, prefix + client


HOST: Final = "127.0.0.1"
# Below the range from which systems take the ports of outgoing connections.
LOWEST: Final = 10_000
HIGHEST: Final = 32_000
TRIES: Final = 1_000
_RNG: Final = random.SystemRandom()
_given: set[int] = set()
"""The ports that this process has given; whoever asked for them may not listen yet."""


def free_addresses(count: int) -> list[Address]:
    """Free addresses of this machine, none of them given twice; raises `NetworkFault`."""
    found: list[Address] = []
    # Bound all at once, so that no two get the same.
    with ExitStack() as bound:
        for _ in range(TRIES):
            if len(found) == count:
                return found
            port = _RNG.randrange(LOWEST, HIGHEST)
            if port in _given:
                continue
            try:
                bound.enter_context(socket.create_server((HOST, port)))
            except OSError:
                continue
            _given.add(port)
            found.append(Address(HOST, port))
    raise NetworkFault(f"no {count} free ports between {LOWEST} and {HIGHEST}")

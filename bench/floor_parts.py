"""The processes of `bench.floor`: a leader and followers that pass bytes on and do nothing else.

    python -m bench.floor_parts FILE [PORT...]

Whoever is given ports leads those who listen there. Each says the port that it has taken, and ends
with its standard input.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, cast

from quorum.process import loop_factory

HOST: Final = "127.0.0.1"

# As long as the messages of one commit are, with their frames.
REQUEST: Final = bytes(106)
RECORDS: Final = bytes(228)
ACKNOWLEDGEMENT: Final = bytes(169)
ANSWER: Final = bytes(64)
BATCH: Final = bytes(107)

MAJORITY: Final = 2
"""Of three, the leader among them."""


class Disk:
    """A file to which every commit appends a batch."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._at = 0

    def append(self) -> None:
        """Return when it is durable."""
        self._at += os.pwrite(self._fd, BATCH, self._at)
        os.fdatasync(self._fd)


class Follower(asyncio.Protocol):
    """Appends what it is sent, and acknowledges it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is the leader's."""
        self._leader = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Records have come; they are so few that they come whole."""
        self._disk.append()
        self._leader.write(ACKNOWLEDGEMENT)


class Acknowledged(asyncio.Protocol):
    """The leader's connection to a follower."""

    def __init__(self, on_acknowledged: Callable[[], None]) -> None:
        self._on_acknowledged = on_acknowledged

    def data_received(self, data: bytes) -> None:
        """The follower has one more on disk."""
        self._on_acknowledged()


class Leader(asyncio.Protocol):
    """Tells followers first and appends then; answers when a majority has it."""

    def __init__(self, disk: Disk, followers: int) -> None:
        self._disk = disk
        self._asked = 0
        self._have = [0] * (1 + followers)
        """The number that each has on disk, the leader first."""
        self.followers: list[asyncio.Transport] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is the client's."""
        self._client = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """One request has come."""
        self._asked += 1
        for follower in self.followers:
            follower.write(RECORDS)
        asyncio.get_running_loop().call_soon(self._append)

    def has_one_more(self, who: int) -> None:
        """It answers for the one that completes the majority, and for no later one."""
        self._have[who] += 1
        have_it = self._have.count(self._asked) if self._have[who] == self._asked else 0
        # The client goes in the middle of a commit.
        if have_it == MAJORITY and not self._client.is_closing():
            self._client.write(ANSWER)

    def _append(self) -> None:
        self._disk.append()
        self.has_one_more(0)


async def serve(path: Path, ports: list[int]) -> None:
    """Until standard input ends."""
    loop, disk = asyncio.get_running_loop(), Disk(path)
    protocol: asyncio.Protocol = Follower(disk)
    if ports:
        protocol = leader = Leader(disk, len(ports))
        for place, port in enumerate(ports, start=1):
            link = Acknowledged(partial(leader.has_one_more, place))
            transport, _ = await loop.create_connection(partial(_itself, link), HOST, port)
            leader.followers.append(transport)
    server = await loop.create_server(partial(_itself, protocol), HOST, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    ended = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(ended), sys.stdin)
    await ended.read()


def _itself(protocol: asyncio.Protocol) -> asyncio.Protocol:
    return protocol


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(Path(sys.argv[1]), [int(port) for port in sys.argv[2:]]))

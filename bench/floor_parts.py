"""The processes of `bench.floor`: a leader and followers that only forward bytes.

    python -m bench.floor_parts FILE [PORT...]

A process that gets ports is the leader of the followers that listen there. Each process prints the
port on which it listens, and ends at the end of its standard input.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, cast

import click

from quorum.process import loop_factory

HOST: Final = "127.0.0.1"

# As long as the messages of one commit with their frames.
REQUEST: Final = bytes(106)
RECORDS: Final = bytes(228)
ACKNOWLEDGEMENT: Final = bytes(169)
ANSWER: Final = bytes(64)
BATCH: Final = bytes(107)

MAJORITY: Final = 2
"""The majority of three processes, including the leader."""


class Disk:
    """A file to which every commit appends a batch."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._at = 0

    def append(self) -> None:
        """Append one batch and return when it is durable."""
        self._at += os.pwrite(self._fd, BATCH, self._at)
        os.fdatasync(self._fd)


class Follower(asyncio.Protocol):
    """Appends and acknowledges every message."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection of the leader."""
        self._leader = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Append one message, which is so short that it is never split, and acknowledge it."""
        self._disk.append()
        self._leader.write(ACKNOWLEDGEMENT)


class Acknowledged(asyncio.Protocol):
    """The leader's connection to a follower."""

    def __init__(self, on_acknowledged: Callable[[], None]) -> None:
        self._on_acknowledged = on_acknowledged

    def data_received(self, data: bytes) -> None:
        """Count one more batch on the follower's disk."""
        self._on_acknowledged()


class Leader(asyncio.Protocol):
    """Sends each batch to the followers, then appends it; answers when a majority has it."""

    def __init__(self, disk: Disk, followers: int) -> None:
        self._disk = disk
        self._asked = 0
        self._have = [0] * (1 + followers)
        """The number of batches that each has on disk, the leader first."""
        self.followers: list[asyncio.Transport] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection of the client."""
        self._client = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Replicate and append the batch of one request."""
        self._asked += 1
        for follower in self.followers:
            follower.write(RECORDS)
        asyncio.get_running_loop().call_soon(self._append)

    def has_one_more(self, who: int) -> None:
        """Count a batch on disk; answer when it completes the majority, and not again later."""
        self._have[who] += 1
        have_it = self._have.count(self._asked) if self._have[who] == self._asked else 0
        # The client may disconnect in the middle of a commit.
        if have_it == MAJORITY and not self._client.is_closing():
            self._client.write(ANSWER)

    def _append(self) -> None:
        self._disk.append()
        self.has_one_more(0)


async def serve(path: Path, ports: list[int]) -> None:
    """Serve until standard input ends."""
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


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("ports", type=int, nargs=-1)
def main(file: Path, ports: tuple[int, ...]) -> None:
    """Run one process of `python -m bench.floor`; with PORTS it is the leader."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(file, list(ports)))


if __name__ == "__main__":
    main()

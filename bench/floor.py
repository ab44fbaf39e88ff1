"""The cost of consecutive commits without any computation: only wake-ups and disk writes.

    python -m bench.floor [--seconds 3] [--write docs/performance.md]

Three processes, and a client in this one, send as many bytes as a commit has, on the same event
loop and the same kind of sockets as the product. Followers write and sync before they acknowledge.
The leader answers when two of the three have the bytes on disk. There are no epochs, offsets,
checks or records. The result is the upper limit for a Python process on this machine.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, cast

import click

from bench import machine
from bench.faults import RunFailed
from bench.floor_parts import HOST, REQUEST
from bench.options import document_option, folder_option, workplace
from bench.report import Section

SECTION: Final = "floor"
WARM_UP_SECONDS: Final = 1.0


class Client(asyncio.Protocol):
    """Sends the next request upon each answer, and counts the answers."""

    def __init__(self) -> None:
        self.answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._leader = cast("asyncio.Transport", transport)
        self._leader.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        """Count the answer and send the next request; answers are so short that none is split."""
        self.answered += 1
        self._leader.write(REQUEST)


async def measure(folder: Path, seconds: float) -> float:
    """Return the answers per second."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as parts:
        ports = [await _start(parts, folder / f"follower-{number}") for number in (1, 2)]
        leader = await _start(parts, folder / "leader", *ports)
        transport, client = await loop.create_connection(Client, HOST, leader)
        parts.callback(transport.abort)
        await asyncio.wait({loop.create_future()}, timeout=WARM_UP_SECONDS)
        before, begun = client.answered, loop.time()
        await asyncio.wait({loop.create_future()}, timeout=seconds)
        answered, passed = client.answered - before, loop.time() - begun
    if not answered:
        raise RunFailed("no answer arrived during the measurement")
    return answered / passed


async def _start(parts: AsyncExitStack, path: Path, *ports: int) -> int:
    """Start a process that ends with `parts`; return its port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.floor_parts", str(path), *map(str, ports)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    parts.push_async_callback(process.wait)
    parts.callback(process.stdin.close)
    said = await process.stdout.readline()
    if not said:
        raise RunFailed("a process ended before it listened")
    return int(said)


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=3, show_default=True)
@folder_option
@document_option
def command(seconds: float, folder: Path | None, document: Path | None) -> None:
    """Measure the minimum time of a commit on this machine."""
    try:
        section = None if document is None else Section(document, SECTION)
        with workplace(folder) as (place, runner):
            p50_ms, p99_ms = machine.fdatasync_ms(place)
            per_second = runner.run(measure(place, seconds))
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    disk = f"{p50_ms:.2f} ms median, {p99_ms:.2f} ms p99, before the load"
    facts = {**machine.facts(), "fdatasync of 250 bytes": disk}
    facts.pop("Hot modules")
    found = f"{per_second:,.0f} a second, {1e6 / per_second:,.0f} µs each."
    if section is None:
        click.echo(found)
    else:
        section.write_run(f"python -m bench.floor --seconds {seconds:g}", facts, found)


if __name__ == "__main__":
    command()

"""Controllers on restored and recovered folders, in the process of a test, at free ports."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from click.testing import CliRunner, Result

from admin.cli.main import load
from quorum.clocks import monotonic_ms
from quorum.transport.address import Address
from tests.support.controllers import TEST_SECONDS_MAX, Node, a_place, start


def command(name: str, *arguments: object, stdin: str = "") -> Result:
    """Run a command of `metaquorum`."""
    words = [*map(str, arguments)]
    return CliRunner().invoke(load(name), words, input=stdin, catch_exceptions=False)


@asynccontextmanager
async def started(
    make: Callable[[Mapping[int, Address]], Mapping[int, Path]], *ids: int
) -> AsyncIterator[dict[int, Node]]:
    """The controllers whose data folders `make` returns, once it knows their addresses."""
    async with asyncio.timeout(TEST_SECONDS_MAX), AsyncExitStack() as parts:
        places = {node_id: await a_place() for node_id in ids}
        for place in places.values():
            parts.push_async_callback(place.server.close, within_ms=100)
        addresses = {node_id: place.address for node_id, place in places.items()}
        folders = await asyncio.to_thread(make, addresses)
        yield {
            node_id: await start(
                node_id, place, {}, folders[node_id], parts, session_clock=monotonic_ms
            )
            for node_id, place in places.items()
        }


def voters(addresses: Mapping[int, Address]) -> str:
    """The addresses as an option has them."""
    return ",".join(f"{node_id}@{address}" for node_id, address in addresses.items())

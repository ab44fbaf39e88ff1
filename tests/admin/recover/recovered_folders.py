"""Controllers on restored and recovered folders, in the process of a test, at free ports."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
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


RENAMES_MAX = 50
"""More renames than a command makes here."""


class Killed(BaseException):
    """The process has ended."""


def is_killed_at_rename(number: int, work: Callable[[], object]) -> bool:
    """Do the work, and from its rename of this number on change nothing on the disk any more, as if
    the process had been killed. Return whether it made so many."""
    left = iter(range(number))
    is_dead = False

    def rename(*names: Any, **more: Any) -> None:
        if is_dead or next(left, None) is None:
            die()
        real(*names, **more)

    def die(*_: Any, **__: Any) -> NoReturn:
        nonlocal is_dead
        is_dead = True
        raise Killed

    def alive(change: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *names, **more: die() if is_dead else change(*names, **more)

    real = os.rename
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", rename)
        for module, name in ((os, "unlink"), (os, "rmdir"), (os, "mkdir"), (shutil, "rmtree")):
            patch.setattr(module, name, alive(getattr(module, name)))
        with suppress(Killed):
            work()
    return is_dead


def voters(addresses: Mapping[int, Address]) -> str:
    """The addresses as an option has them."""
    return ",".join(f"{node_id}@{address}" for node_id, address in addresses.items())

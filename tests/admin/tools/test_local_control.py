"""The socket of a running local cluster, without the processes of the cluster."""

import asyncio
import json
import os
import random
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from admin.tools.local_cluster import START_MS, LocalCluster
from admin.tools.local_control import SOCKET_FILE, Action, LocalControl, ask
from admin.tools.local_plan import LocalError, Wanted, settle


class Stopping(LocalCluster):
    """A cluster whose nodes take for ever to stop, and are written down when they start."""

    def __init__(self, folder: Path) -> None:
        wanted = Wanted(controllers=1, brokers=1, base_port=0)
        super().__init__(folder, settle(folder, wanted, random.Random(1)))
        self.is_stopping = asyncio.Event()
        self.is_stopped = asyncio.Event()
        self.started: list[str] = []

    async def stop_node(self, name: str) -> bool:
        """Wait until the test lets the node stop."""
        self.is_stopping.set()
        return await self.is_stopped.wait()

    async def restart(self, name: str, *, within_ms: int = START_MS) -> None:
        """Write it down; a full disk lets no controller start."""
        if name.startswith("controller"):
            raise OSError("no space is left")
        self.started.append(name)


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[tuple[Stopping, LocalControl]]:
    cluster = Stopping(folder)
    control = LocalControl(cluster, lambda _: None)
    await control.listen()
    try:
        yield cluster, control
    finally:
        await control.close()


async def test_a_restart_under_way_starts_no_node_behind_a_cluster_that_is_stopped(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as (cluster, control), asyncio.TaskGroup() as group:

        async def refused(node: str) -> None:
            with pytest.raises(LocalError, match="the whole cluster is being stopped"):
                await asyncio.to_thread(ask, tmp_path, Action.RESTART, node)

        group.create_task(refused("101"))
        await cluster.is_stopping.wait()
        group.create_task(refused("1"))
        await control.give_up()
        cluster.is_stopped.set()
        await refused("broker-101")
    assert cluster.started == []


async def test_a_restart_without_a_cluster_that_is_stopped_starts_its_node(tmp_path: Path) -> None:
    async with listening(tmp_path) as (cluster, _):
        cluster.is_stopped.set()
        done = await asyncio.to_thread(ask, tmp_path, Action.RESTART, "101")
        assert done == "broker-101 is up, process None."
        assert cluster.started == ["broker-101"]
        with pytest.raises(LocalError, match="no space is left"):
            await asyncio.to_thread(ask, tmp_path, Action.RESTART, "1")


async def test_nobody_else_may_connect_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        async with listening(tmp_path):
            mode = (tmp_path / SOCKET_FILE).stat().st_mode
    finally:
        os.umask(umask)
    assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize("line", [b"[" * 4_000, b"\xff", b"{}", b"x" * 5_000, b"1"])
async def test_what_is_no_request_is_answered(tmp_path: Path, line: bytes) -> None:
    async with listening(tmp_path):
        reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET_FILE)
        writer.write(line + b"\n")
        answer = json.loads(await reader.readline())
        writer.close()
    assert answer["error"].startswith("this is no request: ")

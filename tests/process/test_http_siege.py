"""A stranger at the HTTP listener of a real controller: bounded, without a trace or an effect."""

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import LOG_FILE, NodePlan
from tests.process.controller_processes import three

pytestmark = pytest.mark.process

MIB: Final = 1024 * 1024
GROWTH_MIB_MAX: Final = 256
"""Two plans of the largest size, their buffers, and what the allocator keeps."""

SECONDS_MAX: Final = 60
"""A test that hangs ends."""


def rss_mib(cluster: LocalCluster, node: NodePlan) -> float:
    status = Path(f"/proc/{cluster.pid(node.name)}/status").read_text()
    (line,) = (each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


async def exchange(node: NodePlan, head: str, body: bytes = b"") -> tuple[int, Any]:
    """Send bytes on a connection of their own; the status and the JSON of the response."""
    assert node.http is not None
    reader, writer = await asyncio.open_connection(*node.http)
    try:
        writer.write(head.replace("\n", "\r\n").encode() + body)
        first = await reader.readuntil(b"\r\n\r\n")
        length = int(first.lower().partition(b"content-length:")[2].split()[0])
        return int(first.split()[1]), orjson.loads(await reader.readexactly(length))
    finally:
        writer.transport.abort()


async def quorum(node: NodePlan) -> Any:
    status, data = await exchange(node, f"GET /v1/quorum HTTP/1.1\nHost: {node.http}\n\n")
    assert status == 200
    return data


async def test_bodies_without_their_last_byte_do_not_fill_the_memory(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster, AsyncExitStack() as clients:
        node = cluster.plan.controllers[0]
        assert node.http is not None
        address = node.http
        before, size = rss_mib(cluster, node), 63 * MIB
        head = (
            f"POST /v1/reassignments HTTP/1.1\nHost: {node.http}\n"
            f"Content-Type: application/json\nContent-Length: {size}\n\n"
        ).replace("\n", "\r\n")
        zeros = memoryview(bytes(size - 1))

        async def send() -> None:
            reader, writer = await asyncio.open_connection(*address)
            clients.callback(writer.close)
            try:
                writer.write(head.encode())
                for at in range(0, len(zeros), MIB):
                    writer.write(zeros[at : at + MIB])
                    await writer.drain()
            except ConnectionError:
                return
            # Until the node refuses it, or has had the time to take it all.
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(1.0):
                    await reader.read(1)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(48):
                tasks.create_task(send())
        assert rss_mib(cluster, node) - before < GROWTH_MIB_MAX
        assert (await quorum(node))["leader_id"] > 0


async def test_a_foreign_page_and_a_foreign_name_change_nothing(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        node = cluster.plan.controllers[0]
        led = (await quorum(node))["leader_epoch"]
        for path in ("/v1/reassignments:pause", "/v1/quorum/leader:transfer"):
            head = f"POST {path} HTTP/1.1\nContent-Length: 0\n"
            page = f"{head}Host: {node.http}\nOrigin: http://evil.example\n\n"
            assert (await exchange(node, page))[0] == 403
            assert (await exchange(node, f"{head}Host: evil.example\n\n"))[0] == 421
        assert (await quorum(node))["leader_epoch"] == led
        listed = f"GET /v1/reassignments HTTP/1.1\nHost: {node.http}\n\n"
        assert (await exchange(node, listed))[1]["all_paused"] is None


async def test_malformed_requests_leave_one_line_in_the_log(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        node = cluster.plan.controllers[0]
        log = tmp_path / node.name / LOG_FILE
        before = len(log.read_text().splitlines())
        for _ in range(50):
            status, _problem = await exchange(node, "GET / HTTP/1.1\nHost: a\nsecret\x01: \xff\n\n")
            assert status == 400
        lines = log.read_text().splitlines()[before:]
        assert len([each for each in lines if "malformed" in each]) == 1
        assert not [each for each in lines if "Traceback" in each or "secret" in each]


async def test_idle_connections_of_one_address_keep_nobody_out(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster, AsyncExitStack() as clients:
        node = cluster.plan.controllers[0]
        assert node.http is not None
        readers = []
        for _ in range(300):
            reader, writer = await asyncio.open_connection(*node.http)
            clients.callback(writer.close)
            readers.append(reader)
        loop = asyncio.get_running_loop()
        reads = [loop.create_task(each.read()) for each in readers]
        clients.callback(lambda: [each.cancel() for each in reads])
        closed = asyncio.as_completed(reads, timeout=SECONDS_MAX)
        for _ in range(201):
            assert not await next(closed)
        descriptors = len(os.listdir(f"/proc/{cluster.pid(node.name)}/fd"))
        assert descriptors < 150

"""An etcd cluster according to "Clustering Guide: Static", on plain HTTP; each commit is a Put."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.faults import RunFailed
from bench.load import Connection, Make
from bench.peers.cluster import NODES, NotDone
from bench.peers.etcd_connection import EtcdConnection
from chaos.processes.proxies import free_addresses
from quorum.transport.address import Address

PROBE_SECONDS: Final = 1.0
WRITE_SECONDS: Final = 10.0


class Etcd:
    """Three members. Measured clients use gRPC; all other requests use the JSON gateway."""

    name = "etcd"

    def __init__(self, program: Path, flags: Sequence[str] = ()) -> None:
        """`flags` are additional to those of the guide."""
        self._program = program
        self._flags = list(flags)
        self._folder = Path()
        self._peers: list[Address] = []
        self._clients: list[Address] = []
        self._written = 0

    def prepare(self, folder: Path, addresses: Sequence[Address]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._peers = list(addresses)
        self._clients = [
            Address(peer.host, free.port)
            for peer, free in zip(addresses, free_addresses(len(NODES)), strict=True)
        ]

    def command(self, node: int) -> list[str]:
        at = NODES.index(node)
        peer, client = f"http://{self._peers[at]}", f"http://{self._clients[at]}"
        members = (f"n{each}=http://{peer}" for each, peer in zip(NODES, self._peers, strict=True))
        return [
            str(self._program),
            *("--name", f"n{node}"),
            *("--data-dir", str(self._folder / f"data-{node}")),
            *("--initial-advertise-peer-urls", peer),
            *("--listen-peer-urls", peer),
            *("--listen-client-urls", client),
            *("--advertise-client-urls", client),
            *("--initial-cluster-token", "bench"),
            *("--initial-cluster", ",".join(members)),
            *("--initial-cluster-state", "new"),
            *self._flags,
        ]

    async def leader(self) -> int | None:
        found = await asyncio.gather(*(self._status(node) for node in NODES))
        known = [each for each in found if each is not None]
        leaders = {each.get("leader") for each in known}
        if len(known) * 2 <= len(NODES) or len(leaders) != 1 or leaders <= {None, "0"}:
            return None
        (leader,) = leaders
        ids = [None if each is None else each["header"]["member_id"] for each in found]
        return NODES[ids.index(leader)] if leader in ids else None

    async def has_everything(self, node: int) -> bool:
        leader = await self.leader()
        if leader is None:
            return False
        there, here = await asyncio.gather(self._status(leader), self._status(node))
        if there is None or here is None:
            return False
        return int(here.get("raftAppliedIndex", 0)) >= int(there.get("raftAppliedIndex", 0))

    def client_address(self, node: int) -> Address:
        return self._clients[NODES.index(node)]

    @contextlib.asynccontextmanager
    async def work(self, leader: int, connections: int) -> AsyncIterator[Sequence[Make]]:
        before = await self._revision(leader)
        made: list[EtcdConnection] = []

        def make(number: int, fail: Any) -> Connection:
            made.append(EtcdConnection(number, fail))
            return made[-1]

        yield [partial(make, number) for number in range(connections)]
        answered = sum(each.answered for each in made)
        for node in NODES:
            await self._check(node, before + answered)

    async def write(self, node: int) -> None:
        self._written += 1
        body = {"key": "a2V5", "value": "dmFsdWU="}
        try:
            await self._post(node, "kv/put", body, WRITE_SECONDS)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NotDone(str(error)) from None

    async def _check(self, node: int, revision: int) -> None:
        for _ in range(100):
            if await self._revision(node) == revision:
                return
            await asyncio.sleep(0.02)
        found = await self._revision(node)
        raise RunFailed(f"etcd {node} is at revision {found}, answered was {revision}")

    async def _revision(self, node: int) -> int:
        status = await self._status(node)
        return 0 if status is None else int(status["header"]["revision"])

    async def _status(self, node: int) -> dict[str, Any] | None:
        try:
            return await self._post(node, "maintenance/status", {}, PROBE_SECONDS)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    async def _post(self, node: int, path: str, body: object, seconds: float) -> dict[str, Any]:
        url = f"http://{self.client_address(node)}/v3/{path}"
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session,
            session.post(url, json=body) as response,
        ):
            found: dict[str, Any] = await response.json(content_type=None)
            return found

"""PySyncObj with a journal, according to its documentation; each commit is a replicated call.

Its clients are part of its nodes, so there are no connections: the leader has a number of
outstanding calls, and the client's processor time is part of the leader's.
"""

import asyncio
import contextlib
import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import machine
from bench.faults import RunFailed
from bench.load import WARM_UP_SECONDS, Make
from bench.peers.cluster import NODES, NotDone
from bench.report import Processes, Row
from chaos.processes.proxies import free_addresses
from quorum.transport.address import Address

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_SCRIPT: Final = Path(__file__).with_name("syncobj_node.py")


class PySyncObj:
    """Three processes of `syncobj_node.py`."""

    name = "PySyncObj"

    def __init__(self, python: Path) -> None:
        """`python` is a Python with the library."""
        self._python = python
        self._folder = Path()
        self._peers: list[Address] = []
        self._controls: list[Address] = []

    def prepare(self, folder: Path, addresses: Sequence[Address]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._peers = list(addresses)
        self._controls = free_addresses(len(NODES))

    def command(self, node: int) -> list[str]:
        at = NODES.index(node)
        others = [str(each) for each in self._peers if each != self._peers[at]]
        journal = self._folder / f"journal-{node}"
        return [
            *(str(self._python), str(_SCRIPT), str(self._peers[at]), ",".join(others)),
            *(str(journal), str(self._controls[at].port)),
        ]

    async def leader(self) -> int | None:
        try:
            found = [(await self._order(node, "leader"))["leader"] for node in NODES]
        except OSError:
            return None
        if found[0] is None or len(set(found)) != 1:
            return None
        return NODES[[str(each) for each in self._peers].index(found[0])]

    async def has_everything(self, node: int) -> bool:
        return await self.leader() is not None

    def client_address(self, node: int) -> Address:
        return self._controls[NODES.index(node)]

    def work(
        self, leader: int, connections: int
    ) -> contextlib.AbstractAsyncContextManager[Sequence[Make]]:
        raise RunFailed("PySyncObj has no clients that connect")

    async def write(self, node: int) -> None:
        raise NotDone("PySyncObj has no clients that connect")

    async def load(
        self, leader: int, outstanding: int, seconds: float, processes: Processes
    ) -> Row:
        """Run a load; see `bench.load.Load.run`."""
        loop = asyncio.get_running_loop()
        asking = loop.create_task(self._order(leader, f"load {outstanding} {seconds}"))
        await asyncio.sleep(WARM_UP_SECONDS)
        used, begun = machine.used(processes.all), loop.time()
        await asyncio.sleep(seconds)
        passed, spent = loop.time() - begun, machine.used(processes.all).since(used)
        found = await asking
        if found["failures"] or not found["latencies"]:
            raise RunFailed(f"PySyncObj: {found['failures'] or 'nothing was committed'}")
        return Row.of(array("d", found["latencies"]), outstanding, passed, processes, spent)

    async def _order(self, node: int, text: str) -> Any:
        reader, writer = await asyncio.open_connection(
            *self.client_address(node), limit=LINE_BYTES_MAX
        )
        try:
            writer.write(text.encode() + b"\n")
            return json.loads(await reader.readline())
        finally:
            writer.close()

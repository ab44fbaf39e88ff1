"""Controllers that discover each other: single processes with the settings of a test."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from admin.capabilities.quorum import Nodes as KnownNodes
from admin.client.admin_client import AdminClient, AdminError
from controller.quorum_description import QuorumDescription
from quorum.log.meta_properties import look
from quorum.transport.address import Address
from tests.support.ports import free_ports
from tests.support.tree import ROOT

HOST: Final = "127.0.0.1"
WITHIN_SECONDS: Final = 60.0
ASK_MS: Final = 2_000
LOOK_AGAIN_SECONDS: Final = 0.05

T = TypeVar("T")


@dataclass
class Nodes:
    """Processes by node id; each has a folder, a log of what it says, and a port."""

    folder: Path
    ports: dict[int, int] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    environs: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """The environment of a node beyond our own."""

    async def __aenter__(self) -> "Nodes":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in tuple(self.processes):
            await self.kill(node)
        if error is not None:
            for path in sorted(self.folder.glob("*.log")):
                error.add_note(f"--- {path.name}\n{path.read_text(encoding='utf-8')[-4_000:]}")

    def reserve(self, *nodes: int) -> None:
        """Give these nodes ports that are free now."""
        new = free_ports(self.folder / f"ports-{len(self.ports)}-{nodes}", len(nodes))
        self.ports |= dict(zip(nodes, new.values(), strict=True))

    def address(self, node: int) -> Address:
        return Address(HOST, self.ports[node])

    def data(self, node: int) -> Path:
        return self.folder / f"data-{node}"

    def said(self, node: int) -> str:
        """The log output of the node."""
        return (self.folder / f"{node}.log").read_text(encoding="utf-8")

    async def start(self, node: int, **settings: str) -> None:
        """Run a controller; a setting's dots are written as underscores."""
        given = {
            "process.roles": "controller",
            "node.id": node,
            "listeners": self.address(node),
            "log.dir": self.data(node),
            # Longer than it takes all of them on a busy machine to answer who asks for votes.
            "quorum.election.timeout.ms": 500,
            "quorum.fetch.timeout.ms": 1_500,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        overrides = [f"--override={name}={value}" for name, value in given.items()]
        with (self.folder / f"{node}.log").open("ab") as said:
            self.processes[node] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "admin.cli.main", "start", *overrides),
                stdin=DEVNULL,
                stdout=said,
                stderr=said,
                cwd=ROOT,
                env={**os.environ, **self.environs.get(node, {})},
                start_new_session=True,
            )

    async def kill(self, node: int) -> None:
        """End it as a loss of power would."""
        process = self.processes.pop(node)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def quorum(self, node: int) -> QuorumDescription:
        """The quorum as described by this node, or by the leader for it; raises `AdminError`."""
        async with self._client(node) as client:
            return await client.describe_quorum()

    async def whereabouts(self, node: int) -> KnownNodes:
        """The addresses of all nodes, as this node knows them; raises `AdminError`."""
        async with self._client(node) as client:
            return await client.discover_brokers()

    async def brokers(self, node: int) -> set[int]:
        """The brokers that are alive, as this controller says; raises `AdminError`."""
        async with self._client(node) as client:
            return {each.id for each in await client.brokers()}

    async def until(self, ask: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
        """The answer, as soon as it is the expected one."""
        last: object = None
        try:
            async with asyncio.timeout(WITHIN_SECONDS):
                while True:
                    try:
                        answer = await ask()
                    except AdminError as error:
                        last = error
                        continue
                    if holds(answer):
                        return answer
                    last = answer
                    await nap()
        except TimeoutError:
            raise AssertionError(f"it did not come to be; at last: {last}") from None

    async def until_said(self, node: int, words: str) -> None:
        """Return once the node's log has these words."""
        try:
            async with asyncio.timeout(WITHIN_SECONDS):
                while words not in self.said(node):
                    await nap()
        except TimeoutError:
            raise AssertionError(f"node {node} never said {words!r}") from None

    async def cluster_id(self, node: int) -> str:
        """The cluster that the node's folder names, as soon as it names one.

        A node that has begun to fetch may be about to write it.
        """
        try:
            async with asyncio.timeout(WITHIN_SECONDS):
                while (meta := look(self.data(node))) is None or meta.cluster_id is None:
                    await nap()
        except TimeoutError:
            raise AssertionError(f"the folder of node {node} never named a cluster") from None
        return meta.cluster_id

    def _client(self, node: int) -> AdminClient:
        return AdminClient([self.address(node)], is_controller=True, timeout_ms=ASK_MS)


async def nap() -> None:
    """Let a moment pass before the next look at something outside this process."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_AGAIN_SECONDS):
            await asyncio.get_running_loop().create_future()

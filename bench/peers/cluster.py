"""A temporary cluster of three processes that can be started, killed and restarted.

It signals only processes that it started, by their ids. A `Kind` defines the nodes.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final, Protocol

from admin.settings import ENVIRONMENT_PREFIX
from admin.tools.local_cluster import end_of
from bench.faults import RunFailed
from bench.load import Make
from bench.report import Processes
from bench.rival_processes import until
from chaos.processes.proxies import free_addresses
from quorum.transport.address import Address

NODES: Final = (1, 2, 3)
LOG_FILE: Final = "said.log"
UP_MS: Final = 60_000
_ROOT: Final = Path(__file__).parents[2]


class Kind(Protocol):
    """A kind of cluster: its files, commands, clients and queries."""

    name: str

    def prepare(self, folder: Path, addresses: Sequence[Address]) -> None:
        """Write the files that nodes at these addresses need to start."""
        ...

    def command(self, node: int) -> list[str]:
        """The command line of a node."""
        ...

    async def leader(self) -> int | None:
        """The leader, if all that answer agree on one."""
        ...

    async def has_everything(self, node: int) -> bool:
        """True if a node that was away has caught up with the leader."""
        ...

    def client_address(self, node: int) -> Address:
        """The address of the node's listener for clients."""
        ...

    def work(
        self, leader: int, connections: int
    ) -> contextlib.AbstractAsyncContextManager["Sequence[Make]"]:
        """Clients of the leader; leaving the context checks their answers."""
        ...

    async def write(self, node: int) -> None:
        """Request one small change from a node; return when it is committed. Raises `NotDone`."""
        ...


class NotDone(Exception):
    """The change may not be committed."""


class Cluster:
    """An async context; its exit kills every node."""

    def __init__(
        self,
        kind: Kind,
        folder: Path,
        *,
        placed: Callable[[int, Sequence[str]], Sequence[str]] = lambda _, command: command,
    ) -> None:
        """`placed` wraps the command of a node, for example to run it in a network namespace."""
        self.kind = kind
        self._folder = folder
        self._placed = placed
        self._processes: dict[int, Process] = {}

    async def __aenter__(self) -> "Cluster":
        try:
            for node in NODES:
                await self.start(node)
            await self.leader()
        except BaseException:
            await self._end_all()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end_all()

    async def start(self, node: int) -> float:
        """Start the process of a node; return the time before, by `perf_counter`."""
        home = self._folder / f"node-{node}"
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(ENVIRONMENT_PREFIX)
        }
        begun = perf_counter()
        with (home / LOG_FILE).open("ab") as log:
            self._processes[node] = await asyncio.create_subprocess_exec(
                *self._placed(node, self.kind.command(node)),
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                cwd=_ROOT,
                env=environment,
            )
        return begun

    async def kill(self, node: int) -> float:
        """Kill a node without a shutdown; return the time, by `perf_counter`."""
        process = self._processes[node]
        begun = perf_counter()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        return begun

    async def leader(self) -> int:
        """Wait for a leader and return it; raises `RunFailed`."""
        leader: int | None = None

        async def is_led() -> bool:
            nonlocal leader
            self._check()
            leader = await self.kind.leader()
            return leader is not None

        await until(is_led, f"{self.kind.name} has a leader", within_ms=UP_MS)
        assert leader is not None
        return leader

    async def until_whole(self, node: int) -> None:
        """Wait until a restarted node has caught up; raises `RunFailed`."""

        async def is_whole() -> bool:
            self._check()
            return await self.kind.has_everything(node)

        await until(is_whole, f"{self.kind.name}: node {node} has everything", within_ms=UP_MS)

    def pids(self, leader: int) -> Processes:
        """The process ids of the leader and the followers."""
        self._check()
        others = tuple(self._processes[each].pid for each in NODES if each != leader)
        return Processes(self._processes[leader].pid, others)

    def _check(self) -> None:
        for node, process in self._processes.items():
            if process.returncode is not None:
                said = "".join(end_of(self._folder / f"node-{node}" / LOG_FILE).splitlines()[-1:])
                raise RunFailed(f"{self.kind.name}: node {node} ended: {said}")

    async def _end_all(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        for process in self._processes.values():
            await process.wait()


@contextlib.asynccontextmanager
async def one_of(
    kind: Kind,
    folder: Path,
    *,
    prefix: Sequence[str] = (),
    before: Callable[[], None] = lambda: None,
) -> AsyncIterator[Cluster]:
    """A cluster at free ports, with its files in a new folder.

    `prefix` precedes the command of each node. `before` is called after the files are written and
    before a node starts.
    """
    kind.prepare(folder, free_addresses(len(NODES)))
    before()
    async with Cluster(kind, folder, placed=lambda _, command: [*prefix, *command]) as cluster:
        yield cluster

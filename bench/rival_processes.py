"""The processes of a cluster that exists for one round.

It signals only processes that it started, by their ids. The data of the nodes is not needed after
the round, so the end of a round kills all of them.
"""

import asyncio
import contextlib
import os
import random
import signal
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final, Self

from admin.client.admin_client import TIMEOUT_MS, AdminClient, AdminError
from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.settings import ENVIRONMENT_PREFIX
from admin.tools.local_cluster import end_of
from admin.tools.local_plan import LOG_FILE, NodePlan
from bench.faults import RunFailed
from bench.rivals import Rival
from quorum.transport.address import Address

START_MS: Final = 90_000
STOP_MS: Final = 30_000
PROBE_MS: Final = 5_000
POLL_MS: Final = 10
SLOW_POLL_MS: Final = 100
_ROOT: Final = Path(__file__).parents[1]


async def until(
    is_so: Callable[[], Awaitable[bool]], what: str, *, within_ms: int, poll_ms: int = POLL_MS
) -> None:
    """Poll a condition until it is true; raises `RunFailed` after `within_ms`."""
    try:
        async with asyncio.timeout(within_ms / 1_000):
            while True:
                if await is_so():
                    return
                await asyncio.sleep(poll_ms / 1_000)
    except TimeoutError:
        raise RunFailed(f"{what}: not within {within_ms} ms") from None


class RivalCluster:
    """A cluster as an async context. The last of its brokers is a spare one."""

    def __init__(self, rival: Rival, rng: random.Random) -> None:
        self.rival = rival
        self._rng = rng
        self._processes: dict[str, Process] = {}

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._kill_all()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._kill_all()

    @property
    def controllers(self) -> tuple[NodePlan, ...]:
        return tuple(self.rival.plan.controllers)

    @property
    def brokers(self) -> tuple[NodePlan, ...]:
        """The brokers that run from the beginning."""
        return tuple(self.rival.plan.brokers[:-1])

    @property
    def spare(self) -> NodePlan:
        return self.rival.plan.brokers[-1]

    @property
    def listeners(self) -> tuple[Address, ...]:
        """The addresses of the brokers' listeners."""
        return tuple(node.kafka for node in self.brokers)

    @property
    def config(self) -> ClientConfig:
        """The security of the administrator's connections."""
        security = self.rival.security
        return NO_CONFIG if security is None else security.admin()

    def client(
        self,
        nodes: Sequence[Address] | None = None,
        *,
        is_controller: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> AdminClient:
        """The administrator, who asks the brokers by default."""
        return AdminClient(
            nodes or self.listeners,
            is_controller=is_controller,
            timeout_ms=timeout_ms,
            security=self.config.security,
        )

    def pid(self, node: NodePlan) -> int:
        """The process id of a running node; raises `RunFailed` if it has ended."""
        process = self._processes[node.name]
        if process.returncode is not None:
            said = "".join(end_of(self._home(node) / LOG_FILE).splitlines()[-1:])
            raise RunFailed(
                f"{node.name} beside {self.rival.side} controllers ended with "
                f"{process.returncode}: {said}"
            )
        return process.pid

    async def spawn(self, node: NodePlan) -> float:
        """Start the process of a node; return the time before, by `perf_counter`."""
        begun = perf_counter()
        await self._run(self.rival.command(node), node)
        return begun

    async def kill(self, node: NodePlan) -> float:
        """Kill a node without a shutdown; return the time, by `perf_counter`."""
        self.pid(node)
        begun = perf_counter()
        await self._end(node, signal.SIGKILL)
        return begun

    async def stop(self, node: NodePlan, within_ms: int = STOP_MS) -> None:
        """Stop a node cleanly, as its operator would."""
        try:
            async with asyncio.timeout(within_ms / 1_000):
                await self._end(node, signal.SIGTERM)
        except TimeoutError:
            raise RunFailed(f"{node.name} did not stop within {within_ms} ms") from None

    async def wait_for_brokers(self, wanted: set[int], *, poll_ms: int = POLL_MS) -> None:
        """Wait until every broker of `brokers` regards exactly these brokers as alive."""
        for node in self.brokers:
            await self._wait_for(node, lambda known: known == wanted, poll_ms)

    async def wait_until_it_serves(self, node: NodePlan) -> None:
        """Wait until this broker answers its clients."""
        await self._wait_for(node, lambda known: node.id in known, POLL_MS)

    async def _wait_for(
        self, node: NodePlan, is_it: Callable[[set[int]], bool], poll_ms: int
    ) -> None:
        """Poll one broker for the live brokers until they meet the condition."""
        async with self.client([node.kafka], timeout_ms=PROBE_MS) as client:

            async def ask() -> bool:
                self.pid(node)
                try:
                    return is_it({each.id for each in await client.brokers()})
                except AdminError:
                    return False

            await until(
                ask, f"{node.name} knows the live brokers", within_ms=START_MS, poll_ms=poll_ms
            )

    async def _start(self) -> None:
        self.rival.write_files(self._rng)
        formatting = [
            await self._run(command, node)
            for command, node in zip(
                self.rival.format_commands(self._rng), self.controllers, strict=False
            )
        ]
        for process in formatting:
            if await process.wait():
                raise RunFailed(f"Kafka's storage tool failed; {self.rival.folder} has its log")
        for node in self.controllers:
            await self.spawn(node)
        await until(self._has_leader, "the quorum has a leader", within_ms=START_MS)
        for node in self.brokers:
            await self.spawn(node)
        await self.wait_for_brokers({node.id for node in self.brokers}, poll_ms=SLOW_POLL_MS)

    async def _has_leader(self) -> bool:
        addresses = []
        for node in self.controllers:
            self.pid(node)
            addresses.append(node.kafka)
        try:
            asker = self.client(addresses, is_controller=True, timeout_ms=PROBE_MS)
            async with asker as client:
                return (await client.describe_quorum()).leader is not None
        except AdminError:
            return False

    async def _run(self, command: list[str], node: NodePlan) -> Process:
        with (self._home(node) / LOG_FILE).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                cwd=_ROOT,
                env=_environment(),
                start_new_session=True,
            )
        self._processes[node.name] = process
        return process

    async def _end(self, node: NodePlan, how: signal.Signals) -> None:
        process = self._processes[node.name]
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        await process.wait()

    async def _kill_all(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    def _home(self, node: NodePlan) -> Path:
        return self.rival.folder / node.name


def _environment() -> dict[str, str]:
    """The environment of this process without our settings, which would apply to every node."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
    }

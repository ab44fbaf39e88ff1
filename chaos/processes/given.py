"""A cluster that somebody else runs, as the target of a run: addresses, and commands per node.

Only what the commands can do is done to it: kill, stop and start. What clients were told is judged
as ever; the disks are not read. The run removes what it has written.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.processes.faults import Kind, Link
from chaos.processes.network import NetworkFault
from chaos.processes.nodes import NodeEnded, Nodes
from quorum.transport.address import Address

NODE: Final = "{node}"
"""Stands for the id of a node in a command."""
COMMAND_SECONDS_MAX: Final = 60.0
KINDS: Final = frozenset(
    {
        *(Kind.KILL_ONE, Kind.KILL_LEADER, Kind.KILL_MAJORITY, Kind.KILL_ALL),
        *(Kind.ROLLING_RESTART, Kind.PAUSE_LEADER),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The commands of a shell that act on one node; `{node}` in them is its id."""

    start: str
    kill: str
    stop: str | None = None
    pause: str | None = None
    resume: str | None = None

    def allow(self, kind: Kind) -> bool:
        """True if a fault of this kind can be carried out."""
        match kind:
            case Kind.ROLLING_RESTART:
                return self.stop is not None
            case Kind.PAUSE_LEADER:
                return self.pause is not None and self.resume is not None
            case _:
                return kind in KINDS


class GivenNetwork:
    """The network of such a cluster, which stays as it is."""

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        self._addresses = dict(addresses)

    def address_of(self, node: int) -> Address:
        return self._addresses[node]

    def listener_of(self, node: int) -> Address:
        return self._addresses[node]

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        return list(command)

    async def up(self, node: int) -> None:
        """There is nothing to set up."""

    def down(self, node: int) -> None:
        """There is nothing to remove."""

    async def cut(self, links: Iterable[Link]) -> None:
        raise NetworkFault("the network of this cluster is not ours to cut")

    async def impair(self, *, delay_ms: int = 0, loss_percent: int = 0) -> None:
        raise NetworkFault("the network of this cluster is not ours to impair")

    async def heal(self) -> None:
        """There is nothing to restore."""

    async def close(self) -> None:
        """There is nothing to remove."""


class GivenNodes(Nodes):
    """The nodes of such a cluster; they run when the run begins, and when it ends."""

    HAS_DISKS = False

    def __init__(self, addresses: Mapping[int, Address], commands: Commands) -> None:
        self.ids = tuple(sorted(addresses))
        self.network: GivenNetwork = GivenNetwork(addresses)
        self._commands = commands
        self._down: set[int] = set()
        """The nodes that the run has killed or stopped."""
        self._paused: set[int] = set()
        self._killing: list[asyncio.Task[None]] = []

    def can(self, kind: Kind) -> bool:
        """True if the commands can carry out a fault of this kind."""
        return self._commands.allow(kind)

    async def start(self, ids: Iterable[int]) -> None:
        """Start those of these that the run has ended: at its beginning all run already."""
        for id in sorted(self._down.intersection(ids)):
            await self._run(self._commands.start, id)
            self._down.discard(id)

    def kill(self, ids: Iterable[int]) -> None:
        loop = asyncio.get_running_loop()
        for id in ids:
            self._down.add(id)
            self._killing.append(loop.create_task(self._run(self._commands.kill, id)))

    async def reap(self) -> None:
        killing, self._killing = self._killing, []
        for each in killing:
            await each

    def pause(self, ids: Iterable[int]) -> None:
        self._paused |= set(ids)
        self._in_background(self._commands.pause, ids)

    def resume(self, ids: Iterable[int]) -> None:
        paused = self._paused & set(ids)
        self._paused -= paused
        self._in_background(self._commands.resume, paused)

    async def shut_down(self, ids: Iterable[int]) -> None:
        for id in ids:
            assert self._commands.stop is not None
            self._down.add(id)
            await self._run(self._commands.stop, id)

    async def stop(self) -> None:
        """Leave the cluster running: it is not ours."""
        await self.close()

    async def close(self) -> None:
        """Resume and start what the run has paused and ended."""
        self.resume(self.ids)
        await self.reap()
        await self.start(self.ids)

    def is_running(self, id: int) -> bool:
        return id not in self._down

    def forget(self, id: int) -> None:
        """There is no process to forget."""

    def exit_codes(self) -> Mapping[int, int]:
        return {}

    def check(self) -> None:
        """Do nothing: a node that ends shows in the answers of the others."""

    def last(self, id: int) -> str:
        return f"see the log of node {id}"

    def data(self, id: int) -> Path:
        raise NodeEnded(f"the disk of node {id} is not read")

    def _in_background(self, command: str | None, ids: Iterable[int]) -> None:
        assert command is not None or not tuple(ids)
        loop = asyncio.get_running_loop()
        if command is not None:
            self._killing += [loop.create_task(self._run(command, id)) for id in ids]

    async def _run(self, command: str, id: int) -> None:
        """Run a command for a node; raises `NodeEnded` if it fails."""
        process = await asyncio.create_subprocess_shell(
            command.replace(NODE, str(id)), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        try:
            async with asyncio.timeout(COMMAND_SECONDS_MAX):
                said, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise NodeEnded(f"{command!r} did not end for node {id}") from None
        if process.returncode:
            last = said.decode(errors="replace").strip()[-300:]
            raise NodeEnded(f"{command!r} failed for node {id}: {last}")

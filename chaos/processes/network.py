"""The network of a run: the interface, and its best implementation, a network namespace per node.

The namespaces hang at one bridge, in a namespace that is this program's own: nothing of the
machine's network is seen or changed, and all of it is gone when the last process has ended. A link
is cut in one direction by giving its sender a hardware address that nobody has: frames are lost
silently, in existing connections as in new ones.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from admin.own_code import with_own_code
from chaos.processes.faults import Link
from quorum.transport.address import Address

NODES_MAX: Final = 9
TOOLS: Final = ("ip", "nsenter", "setpriv", "unshare")
PORT: Final = 9_093
_SUBNET: Final = "10.77.0"
_NOBODY: Final = "02:00:00:00:00:ff"
_PROBE: Final = ("unshare", "--net", "ip", "link", "add", "hub", "type", "bridge")
_INSIDE: Final = "CHAOS_INSIDE"
"""Set in the environment of a program that has a network namespace of its own."""


class NetworkFault(Exception):
    """The network cannot be set up or changed; the message has what the tool said."""


class Network(Protocol):
    """The network that connects the nodes."""

    def address_of(self, node: int) -> Address:
        """The address at which the other nodes reach a node."""
        ...

    def listener_of(self, node: int) -> Address:
        """The address at which a node listens, and clients find it."""
        ...

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """The command that runs this one in the place of the node, as one process."""
        ...

    async def up(self, node: int) -> None:
        """Set up a node's namespace; it exists whether or not the node runs."""
        ...

    def down(self, node: int) -> None:
        """The process of the node has been ended."""
        ...

    async def close(self) -> None:
        """Remove the network."""
        ...


class FaultyNetwork(Network, Protocol):
    """A network whose links can be cut and impaired."""

    async def impair(self, *, delay_ms: int = 0, loss_percent: int = 0) -> None:
        """Delay everything that nodes send, or lose a part of it, until `heal`."""
        ...

    async def cut(self, links: Iterable[Link]) -> None:
        """Cut these links silently."""
        ...

    async def heal(self) -> None:
        """Restore all links."""
        ...


class Namespaces:
    """One namespace per node, all at one bridge in this program's namespace."""

    def __init__(self) -> None:
        self._holders: dict[int, Process] = {}
        self._cut: list[Link] = []
        self._is_impaired = False

    @classmethod
    async def open(cls, nodes: Iterable[int]) -> "Namespaces":
        """Set up the network; raises `NetworkFault`. Only for a program that is `inside`."""
        network = cls()
        try:
            await _ip("link set lo up")
            await _ip("link add hub type bridge")
            await _ip(f"addr add {_SUBNET}.254/24 dev hub")
            await _ip("link set hub up")
            for node in nodes:
                await network._add(node)
        except BaseException:
            await network.close()
            raise
        return network

    def address_of(self, node: int) -> Address:
        return Address(f"{_SUBNET}.{node}", PORT)

    def listener_of(self, node: int) -> Address:
        return self.address_of(node)

    async def up(self, node: int) -> None:
        """Set up a node's namespace; it exists whether or not the node runs."""

    def down(self, node: int) -> None:
        """The kernel closes what it had open."""

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        namespace = f"--net=/proc/{self._holders[node].pid}/ns/net"
        # Each of them becomes the next: a signal to the process reaches the node itself.
        return ["nsenter", namespace, "setpriv", "--pdeathsig", "KILL", *command]

    async def cut(self, links: Iterable[Link]) -> None:
        for source, target in links:
            self._cut.append((source, target))
            neighbour = f"{self.address_of(target).host} lladdr {_NOBODY} dev eth0 nud permanent"
            await _ip(f"neigh replace {neighbour}", self._holders[source].pid)

    async def impair(self, *, delay_ms: int = 0, loss_percent: int = 0) -> None:
        self._is_impaired = True
        netem = f"delay {delay_ms}ms {delay_ms // 4}ms" if delay_ms else f"loss {loss_percent}%"
        for holder in self._holders.values():
            await _run("tc", f"qdisc replace dev eth0 root netem {netem}", holder.pid)

    async def heal(self) -> None:
        if self._is_impaired:
            self._is_impaired = False
            for holder in self._holders.values():
                await _run("tc", "qdisc del dev eth0 root", holder.pid)
        cut, self._cut = self._cut, []
        for source, target in cut:
            neighbour = f"{self.address_of(target).host} dev eth0"
            await _ip(f"neigh del {neighbour}", self._holders[source].pid)

    async def close(self) -> None:
        for holder in self._holders.values():
            holder.kill()
            await holder.wait()

    async def _add(self, node: int) -> None:
        # It holds the namespace, and ends with this program, whose end closes the pipe.
        holder = await asyncio.create_subprocess_exec(
            *("unshare", "--net", "cat"), stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        self._holders[node] = holder
        assert holder.stdin is not None
        assert holder.stdout is not None
        # An echo means that the namespace is there.
        holder.stdin.write(b"\n")
        if not await holder.stdout.readline():
            raise NetworkFault(f"no network namespace can be made for node {node}")
        await _ip(f"link add node{node} type veth peer name eth0 netns {holder.pid}")
        await _ip(f"link set node{node} master hub up")
        await _ip("link set lo up", holder.pid)
        await _ip(f"addr add {self.address_of(node).host}/24 dev eth0", holder.pid)
        await _ip("link set eth0 up", holder.pid)


def has_netem() -> bool:
    """True if the kernel can delay and lose packets; not every one is built with netem. Only for a
    program that is inside a namespace."""
    if shutil.which("tc") is None:
        return False
    for words in ("replace dev lo root netem delay 1ms", "del dev lo root"):
        command = ["tc", "qdisc", *words.split()]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return False
    return True


def is_inside() -> bool:
    """True if this program has a network namespace of its own."""
    return _INSIDE in os.environ


@dataclass(frozen=True, slots=True)
class Inside:
    """A command that runs a program in a network namespace of its own."""

    command: Sequence[str]
    environment: Mapping[str, str]


def inside(module: str, arguments: Sequence[str]) -> Inside | None:
    """The command that runs `python -m module` there; None if the machine does not allow it."""
    if any(shutil.which(tool) is None for tool in TOOLS):
        return None
    for unshare in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]):
        probe = [*unshare, *_PROBE]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return Inside(
                [*unshare, sys.executable, "-m", module, *arguments],
                with_own_code({**os.environ, _INSIDE: "1"}),
            )
    return None


def go_inside(arguments: Sequence[str]) -> None:
    """Restart this program in a network namespace; return if the machine does not allow it."""
    found = inside(__package__, arguments)
    if found is not None:
        os.execvpe(found.command[0], list(found.command), found.environment)


async def _ip(arguments: str, namespace_of: int | None = None) -> None:
    await _run("ip", arguments, namespace_of)


async def _run(tool: str, arguments: str, namespace_of: int | None) -> None:
    where = [] if namespace_of is None else ["nsenter", f"--net=/proc/{namespace_of}/ns/net"]
    process = await asyncio.create_subprocess_exec(
        *where, tool, *arguments.split(), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    _, said = await process.communicate()
    if process.returncode:
        raise NetworkFault(f"{tool} {arguments}: {said.decode(errors='replace').strip()}")

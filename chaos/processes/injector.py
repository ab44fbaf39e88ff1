"""Carry a fault out on the processes, the network and the disks of a run, and end it again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from admin.client.admin_client import AdminClient, AdminError
from chaos.processes.faults import Fault, Kind
from chaos.processes.kill_points import POINTS
from chaos.processes.network import FaultyNetwork
from chaos.processes.nodes import Nodes
from chaos.processes.preload import DiskMode, NodeFaults, Preload
from controller.quorum_description import QuorumDescription, ReplicaInfo
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.transport.address import Address

LISTENER: Final = "CONTROLLER"
NOTE_CHARACTERS_MAX: Final = 300
AGAIN_SECONDS: Final = 0.2
DIES_SECONDS: Final = 3.0
"""How long a node may take to come to the point at which it dies, or to give up a failing disk."""

_DISK_MODES: Final = {
    Kind.SLOW_DISK: DiskMode.SLOW,
    Kind.FULL_DISK: DiskMode.FULL,
    Kind.FAILING_DISK: DiskMode.FAILING,
}


class Injector:
    """The faults of one cluster; each is inflicted, and then relieved."""

    def __init__(
        self,
        nodes: Nodes,
        network: FaultyNetwork,
        preload: Preload,
        points: Path,
        ask: Callable[[], AdminClient],
    ) -> None:
        """`points` is the folder of the files that arm a point of the code; `ask` makes a client of
        all nodes."""
        self._nodes = nodes
        self._network = network
        self._preload = preload
        self._points = points
        self._ask = ask
        self.note = ""
        """What has come of the last fault, where that is not certain before."""

    def point_file(self, node: int) -> Path:
        """The file that arms a point of the code of a node."""
        return self._points / f"point-{node}"

    async def inflict(self, fault: Fault) -> None:
        """Return when the fault is in effect."""
        self.note = ""
        kind = fault.kind
        if kind.impairs:
            is_delay = kind is Kind.DELAY
            await self._network.impair(
                delay_ms=fault.amount if is_delay else 0,
                loss_percent=0 if is_delay else fault.amount,
            )
        elif kind.cuts:
            await self._network.cut(fault.links)
        elif kind.is_of_disk:
            faults = NodeFaults(disk=_DISK_MODES[kind], fsync_ms=fault.amount)
            self._preload.set(fault.nodes[0], faults)
        else:
            await self._inflict_on_process(fault)

    async def _inflict_on_process(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.PAUSE_LEADER:
                self._nodes.pause(fault.nodes)
            case Kind.KILL_AT_POINT:
                await self._kill_at_point(fault)
            case Kind.WIPE_ONE:
                await self._kill(fault)
                await self._nodes.wipe(fault.nodes[0])
            case Kind.DAMAGE_ONE:
                await self._kill(fault)
                self.note = damage(self._nodes.data(fault.nodes[0]), random.Random(fault.amount))
            case Kind.CHANGE_VOTERS:
                await self._remove_voter(fault.nodes[0])
            case Kind.JUMP_CLOCK:
                self._preload.set(fault.nodes[0], NodeFaults(clock_shift_s=fault.amount))
            case Kind.ROLLING_RESTART:
                pass  # It is carried out as a whole in `relieve`.
            case _:
                self._nodes.kill(fault.nodes)

    async def relieve(self, fault: Fault) -> None:
        """End the fault; return when every node has been started again."""
        match fault.kind:
            case Kind.PAUSE_LEADER:
                self._nodes.resume(fault.nodes)
            case Kind.WIPE_ONE:
                await self._nodes.start(fault.nodes)
                await self._join(fault.nodes[0])
            case Kind.DAMAGE_ONE:
                await self._start_damaged(fault.nodes[0])
            case Kind.CHANGE_VOTERS:
                await self._join(fault.nodes[0])
            case Kind.JUMP_CLOCK:
                self._preload.heal(fault.nodes[0])
            case Kind.SLOW_DISK | Kind.FULL_DISK | Kind.FAILING_DISK:
                await self._heal_disk(fault)
            case Kind.ROLLING_RESTART:
                await self._restart_all()
            case kind if kind.kills:
                await self._nodes.reap()
                await self._nodes.start(fault.nodes)
            case _:
                await self._network.heal()

    async def heal_all(self) -> None:
        """Undo whatever is in effect, as far as a run that is ended early needs it."""
        await self._network.heal()
        await self._nodes.reap()
        for node in self._nodes.ids:
            self._preload.heal(node)
            self.point_file(node).unlink(missing_ok=True)
            if self._nodes.is_running(node):
                self._nodes.resume((node,))
        for node in self._nodes.ids:
            if not self._nodes.is_running(node):
                await self._start_again(node)
        if await self._voters() != set(self._nodes.ids):
            for node in self._nodes.ids:
                await self._join(node)

    async def _kill(self, fault: Fault) -> None:
        self._nodes.kill(fault.nodes)
        await self._nodes.reap()

    async def _kill_at_point(self, fault: Fault) -> None:
        (node,) = fault.nodes
        name = list(POINTS)[fault.amount % len(POINTS)]
        file = self.point_file(node)
        file.write_text(name, encoding="ascii")
        died = await self._nodes.died(node, DIES_SECONDS)
        file.unlink()
        self.note = f"at {name}" if died else f"not at {name}, which it did not come to"
        self._nodes.kill(fault.nodes)

    async def _heal_disk(self, fault: Fault) -> None:
        (node,) = fault.nodes
        died = not self._nodes.is_running(node)
        self._preload.heal(node)
        # It may have met the fault just now.
        if died or await self._nodes.died(node, AGAIN_SECONDS):
            self.note = f"it ended: {self._nodes.last(node)}"[:NOTE_CHARACTERS_MAX]
            await self._start_again(node)
        else:
            self.note = "it went on"

    async def _start_again(self, node: int) -> None:
        """Start a node whose process has ended, by itself or by a fault."""
        self._nodes.forget(node)
        await self._nodes.start((node,))

    async def _start_damaged(self, node: int) -> None:
        """Start a node on a damaged folder; one that refuses it gets an empty one."""
        await self._nodes.start((node,))
        # Others go on committing: who has this offset has fetched since the start.
        target = (await self._described()).high_watermark
        while not await self._nodes.died(node, AGAIN_SECONDS):
            found = await self._described()
            if any(each.id == node and each.log_end_offset >= target for each in found.voters):
                self.note += ", and it started"
                return
        self.note += f", and it refused: {self._nodes.last(node)}"[:NOTE_CHARACTERS_MAX]
        self._nodes.forget(node)
        await self._nodes.wipe(node)
        await self._nodes.start((node,))
        await self._join(node)

    async def _restart_all(self) -> None:
        for node in self._nodes.ids:
            await self._nodes.shut_down((node,))
            await self._nodes.start((node,))
            await self._until_all_fetch()

    async def _remove_voter(self, node: int) -> None:
        found = await self._described()
        keys = [_key(each) for each in found.voters if each.id == node]
        await self._try(remove_voter(keys[0]))

    async def _join(self, node: int) -> None:
        """Make the present directory of a node a voter, in place of an earlier one."""
        address = self._nodes.network.address_of(node)
        while True:
            found = await self._described()
            voter = next((each for each in found.voters if each.id == node), None)
            present = _present(found, node)
            if voter is not None and present == voter:
                if found.high_watermark <= min(each.log_end_offset for each in found.voters):
                    return
            elif voter is not None:
                await self._try(remove_voter(_key(voter)))
            elif present is not None:
                await self._try(add_voter(_key(present), address))
            await asyncio.sleep(AGAIN_SECONDS)

    async def _try(self, act: Callable[[AdminClient], Awaitable[None]]) -> None:
        """Ask for a change of the voters once; whoever needs it looks, and asks again."""
        async with self._ask() as client:
            try:
                await act(client)
            except AdminError as error:
                self.note = str(error)[:NOTE_CHARACTERS_MAX]

    async def _voters(self) -> set[int]:
        return {each.id for each in (await self._described()).voters}

    async def _until_all_fetch(self) -> None:
        while True:
            found = await self._described()
            ends = [each.log_end_offset for each in found.voters]
            if 0 < found.high_watermark <= min(ends):
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _described(self) -> QuorumDescription:
        async with self._ask() as client:
            while True:
                try:
                    return await client.describe_quorum()
                except AdminError:
                    # The time of the whole step is limited by the run.
                    await asyncio.sleep(AGAIN_SECONDS)


def remove_voter(voter: ReplicaKey) -> Callable[[AdminClient], Awaitable[None]]:
    """The request to remove a voter."""
    return lambda client: client.remove_voter(voter)


def add_voter(voter: ReplicaKey, address: Address) -> Callable[[AdminClient], Awaitable[None]]:
    """The request to add an observer to the voters."""
    return lambda client: client.add_voter(voter, [(LISTENER, address)])


def damage(data: Path, rng: random.Random) -> str:
    """Change one byte of one file in this folder; return what was changed."""
    files = sorted(each for each in data.rglob("*") if each.is_file() and each.stat().st_size > 0)
    file = rng.choice(files)
    position = rng.randrange(file.stat().st_size)
    with file.open("r+b", buffering=0) as changed:
        changed.seek(position)
        byte = changed.read(1)[0]
        changed.seek(position)
        changed.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return f"byte {position} of {file.name}"


def _present(found: QuorumDescription, node: int) -> ReplicaInfo | None:
    """The directory of the node that has fetched last; a directory that is gone is described for
    some time, too."""
    directories = [each for each in (*found.voters, *found.observers) if each.id == node]
    return max(directories, key=lambda each: each.last_fetch_ms, default=None)


def _key(replica: ReplicaInfo) -> ReplicaKey:
    return ReplicaKey(ReplicaId(replica.id), replica.directory_id)

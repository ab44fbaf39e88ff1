"""The controllers of a run as processes: started, killed, held up, stopped; by their ids alone."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from chaos.processes.network import Network
from quorum.core.vocabulary import uuid_to_text

STOP_SECONDS: Final = 10.0
_TREE: Final = Path(__file__).parents[2]
PROGRAM: Final = ("-m", "admin.cli.main")
_SETTING: Final = "METAQUORUM_"
"""How a variable of the environment begins that is a setting."""


class NodeEnded(Exception):
    """A node ended without a fault, or did not end when asked."""


class Nodes:
    """The processes of one cluster and their folders."""

    def __init__(
        self,
        folder: Path,
        ids: Iterable[int],
        network: Network,
        settings: Mapping[str, str],
        rng: random.Random,
        voters: Iterable[int] | None = None,
        *,
        of_node: Callable[[int], Mapping[str, str]] = lambda _id: {},
        program: Sequence[str] = PROGRAM,
    ) -> None:
        """`voters` found the cluster, by default all; the others observe.

        The settings `of_node` win over what every node needs; `program` is run by Python.
        """
        self.folder = folder
        self.ids = tuple(ids)
        self.network = network
        self._program = program
        self._processes: dict[int, Process] = {}
        self._killed: list[Process] = []
        self.cluster_id = uuid_to_text(UUID(int=rng.getrandbits(128), version=4)).replace("-", "A")
        founding = self.ids if voters is None else tuple(voters)
        known = ",".join(f"{id}@{network.address_of(id)}" for id in founding)
        for id in self.ids:
            self.home(id).mkdir(parents=True, exist_ok=True)
            own = {
                "process.roles": "controller",
                "node.id": str(id),
                "cluster.id": self.cluster_id,
                "listeners": str(network.listener_of(id)),
                "advertised.listeners": str(network.address_of(id)),
                "log.dir": str(self.data(id)),
                "quorum.voters": known,
            }
            lines = [
                f"{name}={value}\n" for name, value in {**settings, **own, **of_node(id)}.items()
            ]
            self._settings(id).write_text("".join(lines), encoding="utf-8")

    def home(self, id: int) -> Path:
        """The folder of the node, with its settings, its data and what it says."""
        return self.folder / f"node-{id}"

    def data(self, id: int) -> Path:
        """The data folder of the node."""
        return self.home(id) / "data"

    def said(self, id: int) -> str:
        """The whole log output of the node."""
        path = self.home(id) / "node.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _settings(self, id: int) -> Path:
        return self.home(id) / "node.properties"

    def process_id(self, id: int) -> int:
        """The id of the process that runs the node."""
        return self._processes[id].pid

    async def start(self, ids: Iterable[int]) -> None:
        """Start these nodes; they are up a moment later."""
        for id in ids:
            assert id not in self._processes, f"node {id} runs"
            await self.network.up(id)
            command = [sys.executable, *self._program, "start", "--config"]
            with (self.home(id) / "node.log").open("ab") as log:
                self._processes[id] = await asyncio.create_subprocess_exec(
                    *self.network.command(id, [*command, str(self._settings(id))]),
                    stdin=DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.home(id),
                    env=_environment(self.folder),
                    start_new_session=True,
                )

    def kill(self, ids: Iterable[int]) -> None:
        """Kill these (SIGKILL); `reap` before they are started again."""
        for id in ids:
            process = self._processes.pop(id)
            with contextlib.suppress(ProcessLookupError):  # It has ended by itself.
                process.kill()
            self.network.down(id)
            self._killed.append(process)

    async def reap(self) -> None:
        """Wait until those that were killed have ended."""
        killed, self._killed = self._killed, []
        for process in killed:
            await process.wait()

    def pause(self, ids: Iterable[int]) -> None:
        """Pause these (SIGSTOP): they keep their connections and stay silent."""
        for id in ids:
            self._processes[id].send_signal(signal.SIGSTOP)

    def resume(self, ids: Iterable[int]) -> None:
        """Resume these (SIGCONT)."""
        for id in ids:
            self._processes[id].send_signal(signal.SIGCONT)

    async def ended(self, id: int) -> int:
        """The exit code of a node that ends by itself, once it has."""
        code = await self._processes.pop(id).wait()
        self.network.down(id)
        return code

    def exit_codes(self) -> Mapping[int, int]:
        """The exit codes of the nodes that have ended by themselves."""
        return {
            id: process.returncode
            for id, process in self._processes.items()
            if process.returncode is not None
        }

    def check(self) -> None:
        """Raise `NodeEnded` if a node has ended by itself, or has logged an error."""
        for id, process in self._processes.items():
            if process.returncode is not None:
                raise NodeEnded(f"node {id} ended with {process.returncode}: {self._last(id)}")
        for id in self.ids:
            if "Traceback" in self.said(id):
                raise NodeEnded(f"node {id} met an error of its own; see {self.home(id)}/node.log")

    async def stop(self) -> None:
        """Stop all nodes and wait; raises `NodeEnded` for one that does not end."""
        processes, self._processes = self._processes, {}
        for process in processes.values():
            process.terminate()
        for id, process in processes.items():
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    code = await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
                raise NodeEnded(f"node {id} did not end {STOP_SECONDS:g} s after SIGTERM") from None
            if code:
                raise NodeEnded(f"node {id} ended with {code} upon SIGTERM: {self._last(id)}")

    async def close(self) -> None:
        """Kill all nodes that still run."""
        self.kill(tuple(self._processes))
        await self.reap()

    def _last(self, id: int) -> str:
        lines = self.said(id).splitlines()
        return lines[-1] if lines else "it said nothing"


def _environment(folder: Path) -> dict[str, str]:
    """This program's environment without settings: a run has only the settings it was given.

    Bytecode is kept, as for an installed package: nodes that compile at every start would take
    longer than an election.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTING)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {
        **kept,
        "PYTHONPATH": str(_TREE),
        "PYTHONPYCACHEPREFIX": kept.get("PYTHONPYCACHEPREFIX", str(folder / "bytecode")),
    }

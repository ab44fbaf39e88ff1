"""The controllers of a run as processes: started, killed, held up, stopped; by their ids alone."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from admin.own_code import PROGRAM as NODE
from admin.own_code import with_own_code
from chaos.processes.network import Network
from quorum.core.vocabulary import uuid_to_text

STOP_SECONDS: Final = 10.0
PROGRAM: Final = ("-m", NODE)
_SETTING: Final = "METAQUORUM_"
"""How a variable of the environment begins that is a setting."""


class NodeEnded(Exception):
    """A node ended without a fault, or did not end when asked."""


class Nodes:
    """The processes of one cluster and their folders."""

    HAS_DISKS = True
    """True if the logs of the nodes can be read in the end."""
    SHUT_DOWN_CODES: Sequence[int] = (0,)
    """The exit codes of a node that was stopped in order."""

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
        environment_of: Callable[[int], Mapping[str, str]] = lambda _id: {},
    ) -> None:
        """`voters` found the cluster, by default all; the others observe.

        The settings `of_node` win over what every node needs; `program` is run by Python, with the
        variables `environment_of` in addition.
        """
        self.folder = folder
        self.ids = tuple(ids)
        self.network = network
        self._program = program
        self._environment_of = environment_of
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
            with (self.home(id) / "node.log").open("ab") as log:
                self._processes[id] = await asyncio.create_subprocess_exec(
                    *self.network.command(id, self.command(id)),
                    stdin=DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.home(id),
                    env={**_environment(self.folder), **self._environment_of(id)},
                    start_new_session=True,
                )

    def command(self, id: int) -> list[str]:
        """The command line of the node."""
        command = [sys.executable, *self._program, "start", "--config"]
        return [*command, str(self._settings(id))]

    async def wipe(self, id: int) -> None:
        """Remove the data of a node that does not run; it comes back as another directory."""
        assert id not in self._processes, f"node {id} runs"
        shutil.rmtree(self.data(id))

    async def died(self, id: int, within_seconds: float) -> bool:
        """Wait until the process of the node has ended by itself; False if it still runs."""
        try:
            async with asyncio.timeout(within_seconds):
                await self._processes[id].wait()
        except TimeoutError:
            return False
        return True

    def forget(self, id: int) -> None:
        """Drop the process of a node that has ended, if it had one."""
        if self._processes.pop(id, None) is not None:
            self.network.down(id)

    async def prepare(self) -> None:
        """Do what the nodes need before their first start."""

    def is_running(self, id: int) -> bool:
        """True if the process of the node has been started and has not ended."""
        process = self._processes.get(id)
        return process is not None and process.returncode is None

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
                raise NodeEnded(f"node {id} ended with {process.returncode}: {self.last(id)}")
        self.check_logs()

    def check_logs(self) -> None:
        """Raise `NodeEnded` if a node has logged an error of its own."""
        for id in self.ids:
            if "Traceback" in self.said(id):
                raise NodeEnded(f"node {id} met an error of its own; see {self.home(id)}/node.log")

    async def stop(self) -> None:
        """Stop all nodes and wait; raises `NodeEnded` for one that does not end."""
        await self.shut_down(tuple(self._processes))

    async def shut_down(self, ids: Iterable[int]) -> None:
        """Stop these nodes in order (SIGTERM), and wait; raises `NodeEnded` as `stop` does."""
        processes = {id: self._processes.pop(id) for id in ids}
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for id, process in processes.items():
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    code = await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
                raise NodeEnded(f"node {id} did not end {STOP_SECONDS:g} s after SIGTERM") from None
            self.network.down(id)
            if code not in self.SHUT_DOWN_CODES:
                raise NodeEnded(f"node {id} ended with {code} upon SIGTERM: {self.last(id)}")

    async def close(self) -> None:
        """Kill all nodes that still run."""
        self.kill(tuple(self._processes))
        await self.reap()

    def last(self, id: int) -> str:
        """The last line that the node has logged."""
        lines = self.said(id).splitlines()
        return lines[-1] if lines else "it said nothing"


def _environment(folder: Path) -> dict[str, str]:
    """This program's environment without settings: a run has only the settings it was given.

    Bytecode is kept, as for an installed package: nodes that compile at every start would take
    longer than an election.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTING)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept.pop("PYTHONPATH", None)
    cache = kept.get("PYTHONPYCACHEPREFIX", str(folder / "bytecode"))
    return with_own_code({**kept, "PYTHONPYCACHEPREFIX": cache})

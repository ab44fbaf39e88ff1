"""Commands for a running local cluster: kill, stop and restart a node, or stop all of them.

`metaquorum local` owns the processes of its cluster and serves a Unix socket, whose path is in
`cluster.json`. Only the user who runs the cluster may connect to it. A request and its answer are
one line of JSON each; requests are carried out one after the other.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import CLUSTER_FILE, LocalError, check_format

SOCKET_FILE: Final = "control.sock"
SOCKET_PATH_BYTES_MAX: Final = 100
"""Linux takes 107 bytes, other systems 103."""
LINE_BYTES_MAX: Final = 4_096
CLOSE_SECONDS: Final = 1.0


class Action(StrEnum):
    """The actions that a command may ask for."""

    RESTART = "restart"
    KILL = "kill"
    STOP = "stop"


class LocalControl:
    """The socket of a cluster; `say` is told what happens to the nodes."""

    def __init__(self, cluster: LocalCluster, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        self._turn = asyncio.Lock()
        self._under_way: asyncio.Task[str] | None = None
        self._is_stopping = False
        self._all_stopped = asyncio.Event()
        self._requests: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._temporary: Path | None = None

    async def listen(self) -> None:
        """Serve the socket, and write its path into `cluster.json`; the cluster is up."""
        path = self._cluster.folder / SOCKET_FILE
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            self._temporary = Path(tempfile.mkdtemp(prefix="metaquorum-"))
            path = self._temporary / SOCKET_FILE
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.fspath(path))
        # Nobody connects before it listens, whatever the umask and the folder let others do.
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=LINE_BYTES_MAX
        )
        self._cluster.serve_control(path)

    async def give_up(self) -> None:
        """Refuse requests from now on, and end the one under way: the cluster is to be stopped.

        Else a node could be started behind those that have stopped, and nobody would stop it.
        """
        self._is_stopping = True
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.wait([self._under_way])

    async def close(self) -> None:
        """Answer those who have asked to stop the cluster, and remove the socket."""
        self._all_stopped.set()
        if self._server is None:
            return
        self._server.close()
        if self._requests:
            await asyncio.wait(self._requests, timeout=CLOSE_SECONDS)
        for each in self._requests:
            each.cancel()
        path = (self._temporary or self._cluster.folder) / SOCKET_FILE
        path.unlink(missing_ok=True)
        if self._temporary is not None:
            self._temporary.rmdir()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        try:
            # A reader that has gone away has no use for the answer.
            with contextlib.suppress(ConnectionError):
                writer.write(json.dumps(await self._answer(reader)).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Mapping[str, str]:
        try:
            asked = json.loads(await reader.readline())
            if (named := asked["action"]) not in set(Action):
                known = ", ".join(Action)
                return {"error": f"{str(named)!r} is not an action here; there are {known}"}
            action, node = Action(named), asked["node"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return {"error": f"this is no request: {error!r}"}
        try:
            if node is None and action is Action.STOP:
                signal.raise_signal(signal.SIGTERM)
                await self._all_stopped.wait()
                return {"done": "All nodes are stopped."}
            done = await self._in_turn(action, self._name(str(node)))
        except (LocalError, OSError) as error:
            return {"error": str(error)}
        self._say(done)
        return {"done": done}

    def _name(self, node: str) -> str:
        names = [each.name for each in self._cluster.plan.nodes]
        for each in self._cluster.plan.nodes:
            if node in (each.name, str(each.id)):
                return each.name
        raise LocalError(f"there is no node {node}; the nodes are {', '.join(names)}")

    async def _in_turn(self, action: Action, name: str) -> str:
        async with self._turn:
            if not self._is_stopping:
                loop = asyncio.get_running_loop()
                self._under_way = loop.create_task(self._carry_out(action, name))
                await asyncio.wait([self._under_way])
                if not self._under_way.cancelled():
                    return self._under_way.result()
        raise LocalError("the whole cluster is being stopped")

    async def _carry_out(self, action: Action, name: str) -> str:
        cluster = self._cluster
        runs = cluster.pid(name) is not None
        match action:
            case Action.RESTART:
                stopped = "" if await cluster.stop_node(name) else "did not stop, was killed, and "
                await cluster.restart(name)
                return f"{name} {stopped}is up, process {cluster.pid(name)}."
            case Action.KILL if runs:
                await cluster.kill(name)
                return f"{name} is killed."
            case Action.STOP if runs:
                clean = await cluster.stop_node(name)
                return f"{name} {'is stopped' if clean else 'did not stop and was killed'}."
            case _:
                raise LocalError(f"{name} does not run")


def ask(folder: Path, action: Action, node: str | None) -> str:
    """Ask the `metaquorum local` of a folder; return what it has done, or raise `LocalError`."""
    path = folder / CLUSTER_FILE
    starts = f"`metaquorum local --dir {folder}` starts it"
    try:
        cluster: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        check_format(path, cluster)
        place = cluster.get("control")
    except FileNotFoundError:
        raise LocalError(
            f"no cluster is up in {folder}, which has no {path.name}: {starts}"
        ) from None
    except (OSError, ValueError, AttributeError) as error:
        raise LocalError(f"{path} cannot be read as that of a cluster: {error}") from error
    if place is None:
        raise LocalError(f"the cluster in {folder} is that of a demo, which takes no commands")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(place)
            connection.sendall(json.dumps({"action": action, "node": node}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                answer = answers.readline()
    except OSError as error:
        raise LocalError(
            f"no `metaquorum local` answers for {folder} ({error}): {starts}"
        ) from error
    if not answer:
        raise LocalError(f"the `metaquorum local` of {folder} ended without an answer: {starts}")
    found: dict[str, str] = json.loads(answer)
    if "error" in found:
        raise LocalError(found["error"])
    return found["done"]

"""A cluster of processes on this machine: started, watched, killed, restarted, stopped.

`metaquorum local`, the demo and tests use `LocalCluster`. Each node has a process group of its own,
so that Ctrl-C in a terminal reaches only the owner of the cluster. The cluster signals only
processes that it has started, by their ids.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import random
import re
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from admin.client.admin_client import AdminClient
from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.faults import AdminError, CertificateRefused, Unauthenticated
from admin.own_code import FOLDER, own_command, with_own_code
from admin.setting_kinds import Role
from admin.settings import ENVIRONMENT_PREFIX, SETTINGS
from admin.tools import kafka_brokers
from admin.tools.certificates import write_new
from admin.tools.kafka_runtime import Runtime, find_runtime
from admin.tools.local_plan import (
    CLUSTER_FILE,
    LOG_FILE,
    NO_MORE,
    SETTINGS_FILE,
    ClusterPlan,
    LocalError,
    MoreOfNode,
    NodePlan,
    Wanted,
    check_ports,
    log_dir,
    settle,
    write_settings,
)
from admin.tools.local_security import LocalSecurity
from quorum.log.filesystem import replace_file
from quorum.log_events import LogEvent
from quorum.transport.address import Address
from statemachine.vocabulary import METADATA_VERSION

START_MS: Final = 60_000
"""The time limit from the first process until all nodes answer."""
STOP_MS: Final = 10_000
"""The time limit of a clean stop; then the node is killed."""
STOP_KAFKA_MS: Final = 30_000
"""The same for a broker of Kafka, which takes seconds even when it is idle."""
POLL_MS: Final = 50
PROBE_MS: Final = 1_000
REASON_BYTES_MAX: Final = 64 * 1024
"""The end of a node's log in which the reason of its end is looked for."""
REASON_CHARACTERS_MAX: Final = 600
LOCK_FILE: Final = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A node whose process ended by itself."""

    node: NodePlan
    code: int
    """The exit code, or the negative number of the signal that ended it."""
    reason: str
    """A sentence without its end, or empty if the log has none."""
    log: Path

    def __str__(self) -> str:
        if self.code < 0:
            return f"{self.node.name} was ended by {_signal_name(-self.code)}"
        if self.code == 0:
            return f"{self.node.name} was asked to stop, not by this command"
        return f"{self.node.name} ended by itself: {self.reason or f'see {self.log}'}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class LocalCluster:
    """The processes of one plan. Use it as an async context: leaving it stops every node."""

    def __init__(
        self,
        folder: Path,
        plan: ClusterPlan,
        *,
        settings: Mapping[str, str] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """`settings` go into the settings files that are not there yet, by role.

        `runtime` runs the brokers of a plan that names a release of Kafka.
        """
        assert (plan.kafka is None) == (runtime is None), f"{plan.kafka} and {runtime}"
        self.folder = folder.absolute()
        self.plan = plan
        self.ended: asyncio.Queue[Ended] = asyncio.Queue(maxsize=1_024)
        """Nodes that ended by themselves, in the order in which it happened."""
        self.security = LocalSecurity(self.folder) if plan.is_secure else None
        """The files of a secured cluster."""
        self.config: ClientConfig = NO_CONFIG
        """The security of the administrator's connections, once the cluster is started."""
        self.application: ClientConfig = NO_CONFIG
        """That of a producer's and a consumer's connections."""
        self.trees: dict[str, Path] = {}
        """The source tree of another release, by the names of the nodes that run it."""
        self._settings = dict(settings or {})
        self._runtime = runtime
        self._nodes = {node.name: node for node in plan.nodes}
        self._processes: dict[str, Process] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._dismissed: set[int] = set()
        self._last_ends: dict[str, Ended] = {}
        self._log_starts: dict[str, int] = {}
        """The size of each log when its process was started."""
        self._control: Path | None = None
        self._lock: IO[str] | None = None

    async def __aenter__(self) -> "LocalCluster":
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def controllers(self) -> tuple[Address, ...]:
        """The addresses of the controllers."""
        return tuple(node.kafka for node in self.plan.controllers)

    @property
    def brokers(self) -> tuple[Address, ...]:
        """The addresses of the brokers."""
        return tuple(node.kafka for node in self.plan.brokers)

    @property
    def is_running(self) -> bool:
        """True while any node runs."""
        return any(self.pid(name) is not None for name in self._nodes)

    def pid(self, name: str) -> int | None:
        """The process id of the node, None while it does not run."""
        process = self._processes.get(name)
        return None if process is None or process.returncode is not None else process.pid

    async def start(self, *, within_ms: int = START_MS) -> None:
        """Start every node, wait until all answer, and write `cluster.json`.

        Raises `LocalError` if a port is taken, a node ends, or time runs out; call `stop` then.
        """
        self._take_lock()
        (self.folder / CLUSTER_FILE).unlink(missing_ok=True)
        check_ports(self.plan)
        self._write_files()
        for node in self.plan.nodes:
            await self._spawn(node)
        await self.wait_until_up(self.plan.nodes, within_ms=within_ms)

    async def wait_until_up(self, nodes: Iterable[NodePlan], *, within_ms: int) -> None:
        """Wait until each of `nodes` answers and sees the whole cluster, then write `cluster.json`.

        Raises `LocalError` as `start` does.
        """
        waiting = list(nodes)
        try:
            async with asyncio.timeout(within_ms / 1_000):
                for node in waiting:
                    await self._until_up(node)
        except TimeoutError:
            raise LocalError(
                f"the cluster in {self.folder} was not up after {within_ms} ms; the log of each "
                f"node is in its folder, {LOG_FILE}"
            ) from None
        if self.security is not None:
            async with AdminClient(
                self.controllers, is_controller=True, security=self.config.security
            ) as client:
                await self.security.grant(client)
        self._write_cluster_file()

    def serve_control(self, path: Path) -> None:
        """Name in `cluster.json` the socket that takes commands (`local_control`)."""
        self._control = path
        self._write_cluster_file()

    async def kill(self, name: str) -> None:
        """Kill the node as a power loss would (SIGKILL), and wait for its end."""
        await self._end(name, signal.SIGKILL)

    async def restart(self, name: str, *, within_ms: int = START_MS) -> None:
        """Start a node that does not run, and wait until it is up."""
        node = self._nodes[name]
        assert self.pid(name) is None, f"{name} runs"
        await self._spawn(node)
        await self.wait_until_up([node], within_ms=within_ms)

    async def stop(self) -> tuple[str, ...]:
        """Ask every node to stop, brokers first; return the names of those it had to kill."""
        if self._lock is None:
            return ()
        (self.folder / CLUSTER_FILE).unlink(missing_ok=True)
        killed: list[str] = []
        for group in (self.plan.brokers, self.plan.controllers):
            stopped = await asyncio.gather(*(self.stop_node(node.name) for node in group))
            killed += [node.name for node, clean in zip(group, stopped, strict=True) if not clean]
        await asyncio.gather(*self._watchers.values())
        self._watchers.clear()
        self._lock.close()
        self._lock = None
        return tuple(killed)

    async def stop_node(self, name: str) -> bool:
        """Stop the node; return False if it did not stop in time and was killed."""
        process = self._processes.get(name)
        if process is None or process.returncode is not None:
            return True
        stop_ms = STOP_MS if self._runtime is None else STOP_KAFKA_MS
        try:
            async with asyncio.timeout(stop_ms / 1_000):
                await self._end(name, signal.SIGTERM)
        except TimeoutError:
            await self._end(name, signal.SIGKILL)
            return False
        return True

    async def _end(self, name: str, how: signal.Signals) -> None:
        process = self._processes[name]
        self._dismissed.add(process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        # Not `await`, which would cancel the watcher when time runs out.
        await asyncio.wait([self._watchers[name]])

    def _write_files(self) -> None:
        settings, more = self._settings, NO_MORE
        if self._runtime is not None:
            settings = {METADATA_VERSION: str(self._runtime.release.founded_at), **settings}
        security = self.security
        if security is not None:
            level = SETTINGS[METADATA_VERSION]
            given = settings.get(METADATA_VERSION, str(level.default))
            security.prepare(self.plan, level.parse(given))
            self.config, self.application = security.admin(), security.application()
            more = MoreOfNode(partial(security.settings, self.plan), write_new)
        write_settings(self.folder, self.plan, settings, more)
        if self._runtime is not None:
            kafka_brokers.write_files(
                self.folder, self.plan, self._runtime, settings, random.SystemRandom(), more
            )

    def _command(self, node: NodePlan) -> list[str]:
        if self._runtime is not None and node.role is Role.BROKER:
            return kafka_brokers.command(self.folder, node, self._runtime)
        settings = self.folder / node.name / SETTINGS_FILE
        return own_command("start", "--config", str(settings))

    async def _spawn(self, node: NodePlan) -> None:
        home = self.folder / node.name
        self._last_ends.pop(node.name, None)
        with (home / LOG_FILE).open("ab") as log:
            self._log_starts[node.name] = log.tell()
            process = await asyncio.create_subprocess_exec(
                *self._command(node),
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env=_environment(self.trees.get(node.name, FOLDER)),
                start_new_session=True,
            )
        self._processes[node.name] = process
        self._watchers[node.name] = asyncio.get_running_loop().create_task(
            self._watch(node, process)
        )
        if (self.folder / CLUSTER_FILE).exists():
            self._write_cluster_file()

    async def _watch(self, node: NodePlan, process: Process) -> None:
        code = await process.wait()
        if process.pid not in self._dismissed:
            log = self.folder / node.name / LOG_FILE
            reason = reason_of_end(end_of(log, self._log_starts[node.name]))
            ended = self._last_ends[node.name] = Ended(node=node, code=code, reason=reason, log=log)
            self.ended.put_nowait(ended)
        if (self.folder / CLUSTER_FILE).exists():
            self._write_cluster_file()

    async def _until_up(self, node: NodePlan) -> None:
        """Wait until `node` answers and knows all others.

        Raises `LocalError` if it ended, or refuses the administrator: a node lets nobody log in
        before it knows all users, so that it will not think better of it.
        """
        while True:
            if self.pid(node.name) is None:
                await asyncio.wait([self._watchers[node.name]])
                ended = self._last_ends.get(node.name)
                raise LocalError(f"{node.name} was stopped" if ended is None else str(ended))
            if await self._is_up(node):
                return
            await asyncio.sleep(POLL_MS / 1_000)

    async def _is_up(self, node: NodePlan) -> bool:
        is_controller = node in self.plan.controllers
        running = {each.id for each in self.plan.nodes if self.pid(each.name) is not None}
        brokers = {each.id for each in self.plan.brokers} & running
        try:
            client = AdminClient(
                [node.kafka],
                is_controller=is_controller,
                timeout_ms=PROBE_MS,
                security=self.config.security,
            )
            async with client:
                found = await client.brokers()
                if not brokers <= {broker.id for broker in found}:
                    return False
                quorum = await client.describe_quorum()
        except CertificateRefused as error:
            assert self.security is not None
            raise LocalError(
                f"{node.name} runs, but nobody accepts its certificate: {error}. Make another one: "
                f"{self.security.renewal(node)}"
            ) from None
        except Unauthenticated as error:
            assert self.security is not None
            raise LocalError(
                f"the cluster does not accept the user of {self.security.client_file}: {error}. "
                "Write the user's present password there; docs/security.md says how to get in "
                "without it"
            ) from None
        except AdminError:
            return False
        behind = [
            voter for voter in quorum.voters if voter.id == node.id and voter.last_fetch_ms < 0
        ]
        return quorum.leader is not None and not behind

    def _take_lock(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = (self.folder / LOCK_FILE).open("a", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise LocalError(
                f"{self.folder} is in use by another `metaquorum local` or demo: stop that one, "
                "or choose another --dir"
            ) from None
        self._lock = lock

    def _write_cluster_file(self) -> None:
        data = self.plan.as_data(
            lambda node: {"pid": self.pid(node.name), "log_dir": str(log_dir(self.folder, node))}
        )
        if self.security is not None:
            data["command_config"] = str(self.security.client_file)
        if self._control is not None:
            data["control"] = str(self._control)
        replace_file(self.folder / CLUSTER_FILE, json.dumps(data, indent=2).encode() + b"\n")


def prepare(
    folder: Path,
    wanted: Wanted,
    rng: random.Random,
    say: Callable[[str], None],
    settings: Mapping[str, str] | None = None,
) -> LocalCluster:
    """The cluster of a folder, with the runtime of its brokers; see `settle` and `find_runtime`."""
    # Java and the jars come first: a folder keeps its cluster for good.
    runtime = None if wanted.kafka is None else find_runtime(wanted.kafka, say)
    plan = settle(folder, wanted, rng)
    if plan.kafka is not None and runtime is None:
        runtime = find_runtime(plan.kafka, say)
    return LocalCluster(folder, plan, settings=settings, runtime=runtime)


async def until_interrupted(work: Coroutine[Any, Any, None]) -> bool:
    """Run `work`, which SIGINT and SIGTERM cancel; return True if they did.

    They cancel nothing else, so that clean-up can follow.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return task.cancelled()


def end_of(log: Path, start: int = 0) -> str:
    """The last part of a log from this position on; empty if somebody has removed the log."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - REASON_BYTES_MAX))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


_OURS: Final = "Error: "
_OURS_IN_JSON: Final = f'"event":"{LogEvent.NODE_FAILED.event}"'
_KAFKAS: Final = re.compile(r"\[[^]]*\] (?:ERROR|FATAL) (.*?)(?: \([\w.$]+\))?")
_RAISED: Final = re.compile(r"[ |]*(?:Caused by: )?((?:[\w$]+\.)*\w*(?:Error|Exception)\b.*)")


def reason_of_end(log: str) -> str:
    """The reason why a node ended, by what its process has written; empty if that has none.

    Our nodes end with lines `Error: ...` (`quorum.process`). A broker of Kafka logs an error, with
    its exception in the next line. Of a traceback, a group's too, the innermost error counts.
    """
    lines = log.splitlines()
    said = [line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)]
    said += [json.loads(line)["message"] for line in lines if _OURS_IN_JSON in line]
    if not said:
        raised = [found[1] for line in lines if (found := _RAISED.fullmatch(line))]
        errors = [found[1] for line in lines if (found := _KAFKAS.fullmatch(line))]
        said = [*errors[-1:], *raised[-1:]]
    return "; ".join(dict.fromkeys(said))[:REASON_CHARACTERS_MAX]


def _environment(tree: Path) -> dict[str, str]:
    """Return the environment of this process without settings, which would apply to every node."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
    }
    # The nodes run the code of the tree, by default this very one, installed or not.
    return {**with_own_code(kept, tree), "PYTHONUNBUFFERED": "1"}

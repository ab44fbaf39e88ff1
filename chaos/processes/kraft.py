"""Apache Kafka's own controllers as the nodes of a run, from Maven's artifacts.

They are formatted as Kafka's documentation says, with the voters in the log (KIP-853), and have the
heap and the collector of Kafka's start script. Everything else of a run is the same: the clients,
the faults, and the judges, which read their logs as they read ours.
"""

import asyncio
import random
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from admin.tools.kafka_runtime import BROKER, RELEASES, Runtime, Unavailable, find_runtime
from chaos.processes.network import Network
from chaos.processes.nodes import NodeEnded, Nodes
from quorum.core.vocabulary import uuid_to_text

__all__ = ["VERSIONS", "KraftNodes", "Runtime", "Unavailable", "find_runtime"]

VERSIONS: Final = tuple(RELEASES)
LISTENER: Final = "CONTROLLER"
_FORMAT: Final = "kafka.tools.StorageTool"
_FORMAT_SECONDS_MAX: Final = 120.0
_JAVA: Final = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-Djava.awt.headless=true"),
)


class KraftNodes(Nodes):
    """The processes of a cluster of Kafka's controllers, and their folders."""

    # The shutdown hook of Java's virtual machine ends it as by the signal.
    SHUT_DOWN_CODES = (0, 143)

    def __init__(
        self,
        folder: Path,
        ids: Iterable[int],
        network: Network,
        settings: Mapping[str, str],
        rng: random.Random,
        *,
        runtime: Runtime,
        environment_of: Callable[[int], Mapping[str, str]] = lambda _id: {},
    ) -> None:
        super().__init__(folder, ids, network, {}, rng, environment_of=environment_of)
        self._runtime = runtime
        self._rng = rng
        for id in self.ids:
            address, advertised = network.listener_of(id), network.address_of(id)
            own = {
                "process.roles": "controller",
                "node.id": str(id),
                "controller.listener.names": LISTENER,
                "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
                "listeners": f"{LISTENER}://{address}",
                "advertised.listeners": f"{LISTENER}://{advertised}",
                "controller.quorum.bootstrap.servers": ",".join(
                    str(network.address_of(each)) for each in self.ids
                ),
                "log.dirs": str(self.data(id)),
            }
            lines = [f"{name}={value}\n" for name, value in {**settings, **own}.items()]
            self._settings(id).write_text("".join(lines), encoding="utf-8")
            self._logging(id).write_text(runtime.release.logging_file, encoding="utf-8")

    async def prepare(self) -> None:
        """Format the storage of all nodes; raises `NodeEnded`."""
        directories = {
            id: uuid_to_text(UUID(int=self._rng.getrandbits(128), version=4)).replace("-", "A")
            for id in self.ids
        }
        voters = ",".join(
            f"{id}@{self.network.address_of(id)}:{directories[id]}" for id in self.ids
        )
        for id in self.ids:
            await self._format(id, "--initial-controllers", voters)

    def command(self, id: int) -> list[str]:
        release = self._runtime.release
        logging = self._logging(id)
        value = logging.as_uri() if release.logging_property == "log4j.configuration" else logging
        option = f"-D{release.logging_property}={value}"
        return self._java(option, BROKER, str(self._settings(id)))

    async def wipe(self, id: int) -> None:
        """Format an empty disk for an observer, which is made a voter later."""
        await super().wipe(id)
        await self._format(id, "--no-initial-controllers")

    def check_logs(self) -> None:
        """Do nothing: Kafka logs the stack traces of what it expects, too."""

    def _java(self, *arguments: str) -> list[str]:
        runtime = self._runtime
        option, *rest = arguments
        return [str(runtime.java), *_JAVA, option, "-cp", str(runtime.jars / "*"), *rest]

    async def _format(self, id: int, *how: str) -> None:
        tool: Sequence[str] = (
            *("format", "--cluster-id", self.cluster_id, "--config", str(self._settings(id))),
            *how,
        )
        command = self._runtime.tool(_FORMAT, tool)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        try:
            async with asyncio.timeout(_FORMAT_SECONDS_MAX):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last = said.decode(errors="replace").strip().splitlines()[-1:]
            raise NodeEnded(f"the storage of node {id} cannot be formatted: {last}")

    def _logging(self, id: int) -> Path:
        return self.home(id) / "logging.properties"

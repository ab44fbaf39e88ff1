"""A secured cluster with Kafka's brokers, and clients of it with files for `--command-config`."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, settle
from admin.tools.local_security import LocalSecurity
from quorum.transport.address import Address
from tests.process.kafka_cluster import started
from tests.process.kafka_operator import until
from tests.process.kafka_tools_process import Said, ToolsRoom, acl_tool, tools_room
from tests.process.local_process import Done, metaquorum
from tests.support.kafka_tools import runtime

PASSWORD: Final = "swordfish"
MECHANISM: Final = "SCRAM-SHA-512"
_LOGIN: Final = re.compile(r'username="[^"]*" password="[^"]*"')


@dataclass(frozen=True)
class SecuredTools:
    """Kafka's tools at a secured cluster that is up, and a folder for the files of clients."""

    security: LocalSecurity
    """The files of the cluster."""
    addresses: Sequence[Address]
    """The brokers."""
    tools: ToolsRoom
    version: str
    folder: Path

    @property
    def servers(self) -> str:
        return ",".join(map(str, self.addresses))

    @property
    def admin(self) -> Path:
        """The client.properties of the administrator."""
        return self.security.client_file

    @property
    def brokers(self) -> tuple[str, str]:
        """The option that asks Kafka's brokers."""
        return "--bootstrap-server", self.servers

    async def attempt(
        self,
        tool: str,
        *arguments: str | Path,
        client: Path | None = None,
        door: tuple[str, str] | None = None,
    ) -> Said:
        """Run a tool of Kafka, as the administrator at a broker by default."""
        words = (*(door or self.brokers), "--command-config", client or self.admin, *arguments)
        return await asyncio.to_thread(self.tools.run, tool, list(map(str, words)))

    async def run(
        self,
        tool: str,
        *arguments: str | Path,
        client: Path | None = None,
        door: tuple[str, str] | None = None,
    ) -> str:
        """Run a tool that must succeed; return what it says."""
        said = await self.attempt(tool, *arguments, client=client, door=door)
        assert said.code == 0, (tool, arguments, said)
        return said.text

    async def acls(self, *arguments: str) -> str:
        return await self.run(acl_tool(self.version), *arguments)

    async def add_user(self, name: str) -> Path:
        """Add a user with Kafka's tool; return the client.properties once all brokers know it."""
        entity = ("--entity-type", "users", "--entity-name", name)
        config = f"{MECHANISM}=[iterations=4096,password={PASSWORD}]"
        await self.run("kafka-configs.sh", "--alter", "--add-config", config, *entity)
        path = self.log_in(f'username="{name}" password="{PASSWORD}"', name)
        for broker in self.addresses:
            await until(
                lambda broker=broker: self.attempt(  # type: ignore[misc]
                    "kafka-topics.sh", "--list", client=path, door=("--bootstrap-server", broker)
                ),
                lambda said: said.code == 0,
            )
        return path

    def log_in(self, login: str, name: str) -> Path:
        """Write the administrator's client.properties with another log-in."""
        text, found = _LOGIN.subn(lambda _: login, self.admin.read_text())
        assert found == 1
        path = self.folder / f"{name}.properties"
        path.write_text(text)
        return path


@dataclass(frozen=True)
class SecuredKafka(SecuredTools):
    """The same at controllers of ours."""

    cluster: LocalCluster

    @property
    def controllers(self) -> tuple[str, str]:
        """The option that asks our controllers."""
        return "--bootstrap-controller", ",".join(map(str, self.cluster.controllers))

    async def ours(
        self, *arguments: str, client: Path, door: tuple[str, str] | None = None
    ) -> Done:
        """Run a command of `metaquorum`, at a broker by default."""
        more = ("--command-config", str(client), "--timeout", "20s")
        words = (*arguments, *(door or self.brokers), *more)
        return await asyncio.to_thread(metaquorum, *words, stdin=b"a\n")


@asynccontextmanager
async def secured_kafka(folder: Path, version: str) -> AsyncIterator[SecuredKafka]:
    """Three controllers of ours and two brokers of this release; skips where it cannot be run."""
    found = runtime(version)
    wanted = Wanted(controllers=3, brokers=2, base_port=0, kafka=version, is_secure=True)
    plan = settle(folder / "cluster", wanted, random.Random(str(folder)))
    with tools_room(found, folder) as tools:
        async with started(LocalCluster(folder / "cluster", plan, runtime=found)) as cluster:
            assert cluster.security is not None
            yield SecuredKafka(
                cluster.security, cluster.brokers, tools, version, folder, cluster=cluster
            )

"""From PLAINTEXT to TLS, SASL and ACLs, one node after the other, while producers write."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.client.producer import Producer
from admin.client.security import create_acls, set_user
from admin.faults import AdminError
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import (
    SETTINGS_FILE,
    NodePlan,
    Wanted,
    as_properties,
    log_dir,
    node_settings,
    settle,
)
from admin.tools.local_security import APPLICATION_ACLS, MECHANISM, LocalSecurity
from quorum.records.encode import ClientRecord
from quorum.transport.address import Address

pytestmark = pytest.mark.process

LEVEL = 29
TOPIC = "orders"
AUTHORIZER = ("authorizer.class.name", "super.users")
SECONDS_MAX = 600
"""A test that hangs ends; one that does not takes half a minute on two idle cores."""
PAUSE_SECONDS = 0.01
"""Between two records: more of them would prove nothing, and take both cores."""


@asynccontextmanager
async def writing(bootstrap: Sequence[Address], config: ClientConfig) -> AsyncIterator[None]:
    """Write all the time; at the end every record is acknowledged, and no connection refused."""
    stop = asyncio.Event()
    async with Producer(bootstrap, config=config) as producer, asyncio.TaskGroup() as tasks:

        async def write() -> None:
            count = 0
            stopped = tasks.create_task(stop.wait())
            while not (await asyncio.wait({stopped}, timeout=PAUSE_SECONDS))[0]:
                sent = await producer.send(TOPIC, -1, [ClientRecord(0, None, b"%d" % count)])
                await sent
                count += 1
            assert count

        tasks.create_task(write())
        try:
            yield
        finally:
            stop.set()


class Rolling:
    """A cluster without security, and the settings that it is given step by step."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.security = LocalSecurity(cluster.folder)
        self.security.prepare(cluster.plan, LEVEL)

    async def restart(
        self,
        nodes: Sequence[NodePlan],
        *,
        migration: str = "",
        authorizer: bool = False,
        is_open: bool = False,
    ) -> None:
        """Give these nodes their next settings, one after the other."""
        plan, folder = self.cluster.plan, self.cluster.folder
        voters = ",".join(f"{node.id}@{node.kafka}" for node in plan.controllers)
        for node in nodes:
            settings = {
                **node_settings(node, plan.cluster_id, voters, log_dir(folder, node)),
                **self.security.settings(plan, node),
                **({"security.migration": migration} if migration else {}),
                **({"allow.everyone.if.no.acl.found": "true"} if is_open else {}),
            }
            if not authorizer:
                settings = {name: each for name, each in settings.items() if name not in AUTHORIZER}
            # A listener keeps its name, by which brokers and clients find each other.
            text = as_properties(settings).replace("CLIENTS", "PLAINTEXT")
            text = text.replace("listener.name.clients", "listener.name.plaintext")
            (folder / node.name / SETTINGS_FILE).write_text(text)
            assert await self.cluster.stop_node(node.name)
            await self.cluster.restart(node.name)
            await self._until_in_sync()

    async def _until_in_sync(self) -> None:
        async with self.client() as client:
            while True:
                topic = (await client.describe_topics([TOPIC]))[TOPIC]
                if all(len(each.isr) == len(each.replicas) for each in topic.partitions):
                    return
                await asyncio.sleep(0)

    def client(self) -> AdminClient:
        return AdminClient(
            self.cluster.brokers, is_controller=False, security=self.cluster.config.security
        )

    async def add_users(self) -> None:
        users = json.loads((self.cluster.folder / "security" / "users.json").read_text())
        async with self.client() as client:
            for name, password in users.items():
                await client.carry_out(set_user(name, MECHANISM, password, 4_096))


async def test_a_running_cluster_is_secured_without_a_stop(tmp_path: Path) -> None:
    wanted = Wanted(controllers=3, brokers=3, base_port=0)
    plan = settle(tmp_path, wanted, random.Random(str(tmp_path)))
    async with asyncio.timeout(SECONDS_MAX), LocalCluster(tmp_path, plan) as cluster:
        rolling = Rolling(cluster)
        async with rolling.client() as client:
            await client.create_topic(
                TOPIC, partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"}
            )
        async with writing(cluster.brokers, NO_CONFIG):
            await rolling.restart(plan.nodes, migration="prepare")
            await rolling.add_users()
            cluster.config = rolling.security.admin()
            async with writing(cluster.brokers, cluster.config):
                await rolling.restart(plan.nodes, migration="switch")
        application = rolling.security.application()
        async with writing(cluster.brokers, cluster.config):
            async with rolling.client() as client:
                with pytest.raises(AdminError, match="No Authorizer is configured"):
                    await client.carry_out(create_acls(APPLICATION_ACLS))
            await rolling.restart(plan.nodes, authorizer=True, is_open=True)
            async with AdminClient(
                cluster.brokers, is_controller=False, security=application.security
            ) as client:
                await client.describe_quorum()
            async with rolling.client() as client:
                await client.carry_out(create_acls(APPLICATION_ACLS))
            async with writing(cluster.brokers, application):
                await rolling.restart(plan.controllers, authorizer=True)
        for addresses, is_controller in ((cluster.brokers, False), (cluster.controllers, True)):
            async with AdminClient(
                addresses, is_controller=is_controller, timeout_ms=1_000
            ) as stranger:
                with pytest.raises(AdminError):
                    await stranger.describe_quorum()
        # The authorizer counts: the application has ACLs for topics and groups only.
        async with AdminClient(
            cluster.brokers, is_controller=False, security=application.security
        ) as client:
            with pytest.raises(AdminError, match="User:app needs DESCRIBE on CLUSTER"):
                await client.describe_quorum()

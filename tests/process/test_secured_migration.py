"""A secured KRaft cluster of Kafka goes over to our controllers and back, and rights stay rights.

SASL_SSL everywhere, as `docs/migration.md` has it: nodes prove themselves to controllers by PLAIN,
clients by SCRAM and by delegation tokens, and ACLs decide. An ordinary application writes and reads
with acks=all through the whole of it; the migration itself is done by a user with the rights that
the page names. At each stage it is looked who may do what: before, with voters of both kinds, under
our controllers, with both again, and under Kafka's.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer

from admin.client.admin_client import AdminClient
from admin.client.command_config import load_client_config
from admin.faults import Refused, Unauthenticated
from admin.tools.local_plan import LOG_FILE, NodePlan, log_dir
from bench.migrated_cluster import MigratedCluster, source
from bench.rivals import SETTINGS_FILE
from quorum.protocol.errors import ErrorCode
from tests.process.kafka_groups import PARTITIONS, group_traffic
from tests.process.kafka_operator import until
from tests.process.kafka_tools_process import tools_room
from tests.process.kafka_traffic import UNMODIFIED_CLIENTS
from tests.process.migration_steps import back, no_broker_was_fenced_by_ours, there
from tests.process.secured_kafka import SecuredTools
from tests.support.kafka_tools import runtime

pytestmark = [pytest.mark.long, pytest.mark.process, *UNMODIFIED_CLIENTS]

VERSION: Final = "4.3.1"
MIN_ISR: Final = {"min.insync.replicas": "2"}
TOKENS: Final = "kafka-delegation-tokens.sh"
DELIVERY_SECONDS: Final = 60
TIMEOUT_MS: Final = 20_000
ALLOWED: Final = "ALLOWED"

# The rights of the user that migrates: docs/migration.md names the same.
OF_MIGRATOR: Final = ("Alter", "Describe", "ClusterAction", "DescribeConfigs")


@dataclass
class Rights:
    """The users, tokens and ACLs of the cluster, and the questions whether they count."""

    kafka: SecuredTools
    cluster: MigratedCluster
    clients: dict[str, Path] = field(default_factory=dict)
    """By name: the files of those who may log in, users and tokens; each is asked as `ann` is."""
    strangers: dict[str, Path] = field(default_factory=dict)
    """The files of those who must not be let in any more."""
    denied: str = "closed"
    """The topic that a denial keeps `ann` from writing to."""
    asked: int = 0

    async def look(self, controllers: tuple[NodePlan, ...]) -> None:
        """Fail unless everybody may do what they may and nothing else, wherever they ask."""
        self.asked += 1
        for name, client in self.clients.items():
            await self._at_brokers(name, client)
            for node in controllers:
                await self._at_controller(name, client, node)
        for name, client in self.strangers.items():
            for at in (self.cluster.brokers[0], *controllers):
                assert await self._outcome(client, at) is Unauthenticated, (name, at.name)

    async def _at_brokers(self, name: str, client: Path) -> None:
        """The active controller creates what the client may create, for the name inside."""
        assert await self._created(client, f"ann-{name}-{self.asked}") == ALLOWED, name
        refused = await self._created(client, f"of-others-{name}-{self.asked}")
        assert refused == ErrorCode.TOPIC_AUTHORIZATION_FAILED.name, name
        if name in ("ann", "bob"):
            for topic in ("open", "closed", "shut"):
                expected = None if topic != self.denied else KafkaError.TOPIC_AUTHORIZATION_FAILED
                assert await self._written(client, topic) == expected, (name, topic)

    async def _at_controller(self, name: str, client: Path, node: NodePlan) -> None:
        """A controller knows the client, and refuses what it may not do.

        One of Kafka's that has just started answers by an error until it has loaded the ACLs.
        """
        outcome = await until(
            lambda: self._outcome(client, node),
            lambda found: found is not ErrorCode.UNKNOWN_SERVER_ERROR,
        )
        assert outcome is ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (name, node.name, outcome)
        assert await self._outcome(self.kafka.admin, node) == ALLOWED, node.name

    def _client(self, client: Path, at: NodePlan | None = None) -> AdminClient:
        security = load_client_config(client).security
        is_controller = at is not None and at not in self.cluster.brokers
        nodes = self.cluster.listeners if at is None else [at.kafka]
        return AdminClient(
            nodes, is_controller=is_controller, timeout_ms=TIMEOUT_MS, security=security
        )

    async def _created(self, client: Path, topic: str) -> str:
        async with self._client(client) as admin:
            try:
                await admin.create_topic(topic, partitions=1, replication_factor=3)
            except Refused as error:
                return ErrorCode(error.code).name
        return ALLOWED

    async def _outcome(self, client: Path, at: NodePlan) -> object:
        """The outcome of a question about the quorum, which needs DESCRIBE on the cluster."""
        async with self._client(client, at) as admin:
            try:
                await admin.describe_quorum()
            except Refused as error:
                return ErrorCode(error.code)
            except Unauthenticated:
                return Unauthenticated
        return ALLOWED

    async def _written(self, client: Path, topic: str) -> int | None:
        """The error of a record with acks=all, or None."""
        settings = {
            **load_client_config(client).librdkafka,
            "bootstrap.servers": self.kafka.servers,
            "acks": "all",
        }
        failed: list[int | None] = []

        def report(error: KafkaError | None, _: Message) -> None:
            failed.append(None if error is None else error.code())

        def write() -> None:
            producer = Producer(settings)
            producer.produce(topic, b"x", on_delivery=report)
            producer.flush(DELIVERY_SECONDS)

        await asyncio.to_thread(write)
        (outcome,) = failed
        return outcome

    async def grant(self, name: str) -> None:
        """Let a user write anywhere but to the topic that is denied, and create `ann-...`."""
        who = ("--allow-principal", f"User:{name}")
        await self.kafka.acls("--add", *who, "--operation", "Write", "--topic", "*")
        prefixed = ("--topic", "ann-", "--resource-pattern-type", "prefixed")
        await self.kafka.acls("--add", *who, "--operation", "Create", *prefixed)
        await self.deny(name)

    async def deny(self, name: str, *, topic: str | None = None, removed: bool = False) -> None:
        """Keep a user from writing to a topic, or no longer."""
        how = ("--remove", "--force") if removed else ("--add",)
        who = ("--deny-principal", f"User:{name}", "--operation", "Write")
        await self.kafka.acls(*how, *who, "--topic", topic or self.denied)

    async def create_token(self, name: str, of: Path) -> str:
        """Let `ann` create a token that is a client of its own; returns its HMAC."""
        lifetime = ("--max-life-time-period", "-1")
        said = await self.kafka.run(TOKENS, "--create", *lifetime, client=of)
        found = re.search(r"^(\S{22}) (\S+) +User:ann", said, re.MULTILINE)
        assert found is not None, said
        id, hmac = found.groups()
        login = f'username="{id}" password="{hmac}" tokenauth="true"'
        self.clients[name] = self.kafka.log_in(login, name)
        return hmac

    async def until_known(self) -> None:
        """Return once all brokers have what was changed last."""

        async def try_to_look() -> AssertionError | None:
            try:
                await self.look(())
            except AssertionError as error:
                return error
            return None

        await until(try_to_look, lambda error: error is None)


@asynccontextmanager
async def at_work(cluster: MigratedCluster, rights: Rights) -> AsyncIterator[None]:
    """An ordinary application writes and reads; in the end everything is compared."""
    assert cluster.rival.security is not None
    logs = [log_dir(cluster.rival.folder, node) for node in cluster.brokers]
    application = cluster.rival.security.application().librdkafka
    async with group_traffic(rights.kafka.servers, "groups", logs, application):
        yield


async def set_up(cluster: MigratedCluster, rights: Rights) -> None:
    """Topics, users and ACLs, made with Kafka's tools under Kafka's controllers."""
    assert cluster.rival.security is not None
    kafka = rights.kafka
    async with cluster.client() as admin:
        await cluster.rival.security.grant(admin)
        for topic in ("open", "closed", "shut"):
            await admin.create_topic(topic, partitions=1, replication_factor=3, configs=MIN_ISR)
        await admin.create_topic(
            "groups", partitions=PARTITIONS, replication_factor=3, configs=MIN_ISR
        )
    cluster.command_config = await kafka.add_user("migrator")
    operations = (word for each in OF_MIGRATOR for word in ("--operation", each))
    await kafka.acls("--add", "--allow-principal", "User:migrator", *operations, "--cluster")
    for name in ("ann", "carl"):
        rights.clients[name] = await kafka.add_user(name)
        await rights.grant(name)
    await cluster.until_in_sync()
    await rights.until_known()


async def under_ours(rights: Rights, hmac: str) -> None:
    """Change users, ACLs and tokens with Kafka's tools while our controllers lead."""
    kafka, ann = rights.kafka, rights.clients["ann"]
    renewal = ("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation" in await kafka.run(TOKENS, *renewal, client=ann)
    await rights.create_token("token-of-ours", ann)
    rights.clients["bob"] = await kafka.add_user("bob")
    await rights.grant("bob")
    for name in ("ann", "bob"):
        await rights.deny(name, removed=True)
        await rights.deny(name, topic="shut")
    rights.denied = "shut"
    user = ("--entity-type", "users", "--entity-name", "carl")
    await kafka.run("kafka-configs.sh", "--alter", "--delete-config", "SCRAM-SHA-512", *user)
    rights.strangers["carl"] = rights.clients.pop("carl")
    await rights.until_known()


async def test_rights_users_and_tokens_survive_there_and_back(tmp_path: Path) -> None:
    rng, java = random.Random(str(tmp_path)), runtime(VERSION)
    cluster = source(tmp_path / "c", java, rng, is_secure=True)
    with tools_room(java, tmp_path) as tools:
        async with cluster:
            assert cluster.rival.security is not None
            kafka = SecuredTools(
                cluster.rival.security, cluster.listeners, tools, VERSION, tmp_path
            )
            rights = Rights(kafka, cluster)
            await set_up(cluster, rights)
            hmac = await rights.create_token("token-of-kafkas", rights.clients["ann"])
            await rights.until_known()
            async with at_work(cluster, rights):
                await the_whole_way(cluster, rights, hmac)
        nobody_was_refused(cluster)


async def the_whole_way(cluster: MigratedCluster, rights: Rights, hmac: str) -> None:
    """There and back, with a look at each stage."""

    def look(*controllers: NodePlan) -> Callable[[], Awaitable[None]]:
        return lambda: rights.look(controllers)

    await look(*cluster.controllers)()
    said = await cluster.write_settings()
    assert "Nothing stands in the way" in said, said
    cluster.complete_settings()

    async def plan_again() -> None:
        """Our controllers run: their super users are compared with those of Kafka's."""
        file = cluster.rival.folder / cluster.controllers[0].name / SETTINGS_FILE
        said = await cluster.run_migrate("plan", "--kafka-settings", str(file))
        assert "Nothing stands in the way" in said, said
        assert "super users" not in said
        await look(*cluster.controllers, *cluster.ours)()

    await there(cluster, plan_again)
    await look(*cluster.ours)()
    await under_ours(rights, hmac)
    await look(*cluster.ours)()
    await back(cluster, look(*cluster.controllers, *cluster.ours))
    await look(*cluster.controllers)()
    expire = ("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    await rights.kafka.run(TOKENS, *expire, client=rights.clients["ann"])
    rights.strangers["token-of-kafkas"] = rights.clients.pop("token-of-kafkas")
    await rights.until_known()
    no_broker_was_fenced_by_ours(cluster)


def nobody_was_refused(cluster: MigratedCluster) -> None:
    """No node was refused anything by another one."""
    nodes = {node.name: node for node in cluster.rival.everyone.nodes if node != cluster.spare}
    refused = []
    for name, node in nodes.items():
        said = (cluster.rival.folder / name / LOG_FILE).read_text(encoding="utf-8")
        if node in cluster.ours:
            lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            refused += [each["principal"] for each in lines if "FAILED" in each["outcome"]]
        else:
            refused += re.findall(r"Principal = (\S+) is Denied", said)
    # The users of the test were: it is looked in the right places.
    assert "User:ann" in refused
    assert not {f"User:{name}" for name in nodes} & set(refused)

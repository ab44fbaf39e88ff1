"""Unmodified Kafka with everything on: SASL_SSL on every listener, SCRAM, ACLs, delegation tokens.

One cluster for each release, as `metaquorum local --secure --kafka` makes it; the tests have topics
and users of their own.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from confluent_kafka import Consumer, KafkaError, Message, Producer

from admin.client.command_config import load_client_config
from tests.process.kafka_clients import ConfluentMember, ConfluentProducer
from tests.process.kafka_operator import until
from tests.process.kafka_tools_process import Said, acl_tool
from tests.process.local_process import Done, metaquorum
from tests.process.secured_kafka import SecuredKafka, secured_kafka
from tests.support.kafka_tools import VERSIONS

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

PARTITIONS: Final = 4
RECORDS: Final = 200
SECONDS_MAX: Final = 60


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=VERSIONS)
async def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SecuredKafka]:
    async with secured_kafka(tmp_path_factory.mktemp("kafka"), request.param) as it:
        yield it
        # No broker has been refused anything by the controllers, nor by the other broker.
        for node in it.cluster.plan.brokers:
            said = (it.cluster.folder / node.name / "node.log").read_text()
            complaints = [line for line in said.splitlines() if f"User:{node.name} " in line]
            assert "CLUSTER_AUTHORIZATION_FAILED" not in said, complaints
            assert not complaints
        assert it.cluster.ended.empty()


def librdkafka(client: Path) -> Mapping[str, Any]:
    """The settings of librdkafka for a client.properties."""
    return load_client_config(client).librdkafka


def write_and_read_as_a_group(servers: str, topic: str, security: Mapping[str, Any]) -> set[bytes]:
    """Two members share the partitions, and read what a producer writes from then on."""
    shares: list[set[int]] = [set(), set()]

    def member(number: int) -> ConfluentMember:
        def assigned(partitions: Iterable[int]) -> None:
            shares[number] = set(partitions)

        return ConfluentMember(servers, "readers", topic, assigned, security)

    members = [member(number) for number in range(len(shares))]
    while sorted(map(len, shares)) != [PARTITIONS // 2] * 2:
        assert not [given for each in members for given in each.poll()]
    producer = ConfluentProducer(servers, security)
    acknowledged: list[int] = []
    for number in range(RECORDS):
        producer.send(topic, number % PARTITIONS, b"%d" % number, acknowledged.append)
    producer.close()
    assert len(acknowledged) == RECORDS
    read: set[bytes] = set()
    while len(read) < RECORDS:
        read |= {given.value for each in members for given in each.poll()}
    for each in members:
        each.close()
    return read


async def test_librdkafka_writes_and_a_group_reads_with_scram_over_tls(
    kafka: SecuredKafka,
) -> None:
    topic = ("--topic", "orders", "--partitions", str(PARTITIONS), "--replication-factor", "2")
    assert "Created topic orders." in await kafka.run("kafka-topics.sh", "--create", *topic)
    application = kafka.cluster.application.librdkafka
    async with asyncio.timeout(SECONDS_MAX):
        read = await asyncio.to_thread(
            write_and_read_as_a_group, kafka.servers, "orders", application
        )
    assert read == {b"%d" % number for number in range(RECORDS)}


async def test_the_tools_of_kafka_administer_it_through_brokers_and_controllers(
    kafka: SecuredKafka,
) -> None:
    await kafka.run(
        "kafka-topics.sh", "--create", "--topic", "moved", "--replica-assignment", "101"
    )
    plan = kafka.folder / "plan.json"
    wanted = [{"topic": "moved", "partition": 0, "replicas": [102, 101]}]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    moving = ("kafka-reassign-partitions.sh", "--reassignment-json-file", plan)
    await kafka.run(*moving, "--execute")
    # The new replica is in sync only when the leader's AlterPartition has been allowed.
    await until(lambda: kafka.run(*moving, "--verify"), lambda said: "is completed" in said)
    described = await until(
        lambda: kafka.run("kafka-topics.sh", "--describe", "--topic", "moved"),
        lambda said: "Replicas: 102,101" in said,
    )
    assert re.search(r"Isr: (101,102|102,101)", described), described

    allow = ("--allow-principal", "User:erin", "--operation", "Read", "--topic", "moved")
    await kafka.acls("--add", *allow)
    await until(
        lambda: kafka.acls("--list", "--topic", "moved"),
        lambda said: "principal=User:erin, host=*, operation=READ, permissionType=ALLOW" in said,
    )
    await kafka.acls("--remove", "--force", *allow)
    await until(lambda: kafka.acls("--list", "--topic", "moved"), lambda said: "erin" not in said)

    await kafka.add_user("erin")
    user = ("--entity-type", "users", "--entity-name", "erin")
    shown = await kafka.run("kafka-configs.sh", "--describe", *user)
    assert "SCRAM-SHA-512=iterations=4096" in shown
    for door in (kafka.brokers, kafka.controllers):
        said = await kafka.run("kafka-metadata-quorum.sh", "describe", "--status", door=door)
        assert re.search(r"LeaderId: +[123]\n", said), said
    retention = ("--add-config", "retention.ms=3600000")
    topic = ("--entity-type", "topics", "--entity-name", "moved")
    await kafka.run("kafka-configs.sh", "--alter", *retention, *topic)
    await until(
        lambda: kafka.run("kafka-configs.sh", "--describe", *topic),
        lambda said: "retention.ms=3600000" in said,
    )


async def test_a_delegation_token_lets_its_owner_in_until_it_expires(kafka: SecuredKafka) -> None:
    frank = await kafka.add_user("frank")
    tool, owner = "kafka-delegation-tokens.sh", ("--owner-principal", "User:frank")
    created = await kafka.run(tool, "--create", "--max-life-time-period", "-1", client=frank)
    found = re.search(r"^(\S{22}) (\S+) +User:frank", created, re.MULTILINE)
    assert found is not None, created
    id, hmac = found.groups()
    await until(
        lambda: kafka.run(tool, "--describe", *owner, client=frank),
        lambda said: f"{id} {hmac}" in said,
    )
    await kafka.run("kafka-topics.sh", "--create", "--topic", "of-frank")
    allow = ("--allow-principal", "User:frank", "--operation", "Describe", "--topic", "of-frank")
    await kafka.acls("--add", *allow)
    token = kafka.log_in(f'username="{id}" password="{hmac}" tokenauth="true"', "token")

    def listed() -> Any:
        return kafka.attempt("kafka-topics.sh", "--list", client=token)

    await until(listed, lambda said: said.code == 0 and said.text.strip() == "of-frank")
    ours = await kafka.ours("topics", "list", client=token)
    assert (ours.code, ours.err) == (0, "")
    assert "of-frank" in ours.out
    expire = ("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in await kafka.run(tool, *expire, client=frank)
    refused = await until(listed, lambda said: said.code != 0)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in refused.text


async def test_a_user_without_rights_is_told_which_one_is_missing(kafka: SecuredKafka) -> None:
    await kafka.run("kafka-topics.sh", "--create", "--topic", "secret")
    dave = await kafka.add_user("dave")
    user = ("--entity-type", "users", "--entity-name", "admin")
    password = ("--add-config", "SCRAM-SHA-512=[password=guess]")
    of_cluster = "User:dave needs {} on CLUSTER kafka-cluster"
    for words, missing in (
        (("kafka-topics.sh", "--create", "--topic", "new"), "User:dave needs CREATE on TOPIC new"),
        (("kafka-configs.sh", "--alter", *password, *user), of_cluster.format("ALTER")),
        (("kafka-reassign-partitions.sh", "--list"), of_cluster.format("DESCRIBE")),
        (("kafka-metadata-quorum.sh", "describe", "--status"), of_cluster.format("DESCRIBE")),
        # This is answered by the broker, which names the right from 4.0 on.
        ((acl_tool(kafka.version), "--list"), "ClusterAuthorizationException"),
    ):
        said: Said = await kafka.attempt(*words, client=dave)
        assert said.code != 0, words
        assert missing in said.text, (words, said)
    assert "secret" not in await kafka.run("kafka-topics.sh", "--list", client=dave)

    at_brokers = (
        (("topics", "create", "new"), "User:dave needs CREATE on TOPIC new"),
        (("produce", "secret"), "needs DESCRIBE on TOPIC secret"),
        (("consume", "secret", "--from-beginning"), "needs DESCRIBE on TOPIC secret"),
        (("reassign-partitions", "--list"), of_cluster.format("DESCRIBE")),
        (("metadata-quorum", "describe", "--status"), of_cluster.format("DESCRIBE")),
        (("users", "remove", "admin", "--yes"), of_cluster.format("ALTER")),
        (("users", "list"), "needs DESCRIBE on CLUSTER kafka-cluster"),
        (("acls", "list"), "needs DESCRIBE on CLUSTER kafka-cluster"),
        (("moves", "list"), "does not know this command, as no node of Kafka does"),
    )
    at_controllers = (
        (("topics", "create", "new"), "User:dave needs CREATE on TOPIC new"),
        (("users", "list"), of_cluster.format("DESCRIBE")),
        (("acls", "list"), of_cluster.format("DESCRIBE")),
        (("moves", "list"), of_cluster.format("DESCRIBE")),
        (("brokers", "list"), of_cluster.format("DESCRIBE")),
    )
    for door, asked in ((kafka.brokers, at_brokers), (kafka.controllers, at_controllers)):
        for words, missing in asked:
            done: Done = await kafka.ours(*words, client=dave, door=door)
            assert (done.code, done.err.count("\n")) == (1, 1), (words, done)
            assert missing in done.err, (words, done)

    await asyncio.to_thread(check_librdkafka_is_refused, kafka.servers, librdkafka(dave))


def check_librdkafka_is_refused(servers: str, security: Mapping[str, Any]) -> None:
    """A producer is refused the topic, and a consumer its group."""
    settings = {**security, "bootstrap.servers": servers}
    failed: list[int] = []

    def report(error: KafkaError | None, _: Message) -> None:
        assert error is not None
        failed.append(error.code())

    producer = Producer(settings)
    producer.produce("secret", b"x", on_delivery=report)
    producer.flush(SECONDS_MAX)
    assert failed == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    consumer = Consumer({**settings, "group.id": "of-dave"})
    consumer.subscribe(["secret"])
    message = consumer.poll(SECONDS_MAX)
    consumer.close()
    error = None if message is None else message.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.long
async def test_a_killed_broker_returns_and_is_in_sync_again(kafka: SecuredKafka) -> None:
    topic = ("--topic", "kept")
    await kafka.run("kafka-topics.sh", "--create", *topic, "--replica-assignment", "101:102")

    async def until_in_sync(isr: str) -> None:
        await until(
            lambda: kafka.run("kafka-topics.sh", "--describe", *topic),
            lambda said: re.search(rf"Isr: ({isr})\s", said) is not None,
        )

    await until_in_sync("101,102")
    await kafka.cluster.kill("broker-102")
    await until_in_sync("101")
    # It has its own credential, and that of the other broker, from the log that it has on disk.
    await kafka.cluster.restart("broker-102")
    await until_in_sync("101,102|102,101")


async def test_a_client_without_tls_is_told_so(kafka: SecuredKafka) -> None:
    for door in (kafka.brokers, kafka.controllers):
        done = await asyncio.to_thread(metaquorum, "topics", "list", *door)
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "speaks TLS, and this client does not: give --command-config" in done.err

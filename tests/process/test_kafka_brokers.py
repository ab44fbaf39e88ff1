"""Unmodified brokers and clients of Kafka on our controllers: what they keep when things die.

One cluster for each release of Kafka; every test leaves it whole. While it does harm, idempotent
producers and consumer groups of two kinds are at work, and afterwards it is compared.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from admin.tools.demo.story import plan_moves
from admin.tools.local_plan import log_dir
from tests.process.kafka_cluster import KafkaCluster, kafka_cluster
from tests.process.kafka_first_clients import TOPIC, come_all_at_once, creations
from tests.process.kafka_groups import PARTITIONS
from tests.process.kafka_traffic import UNMODIFIED_CLIENTS
from tests.process.kafka_transactions import tell_the_story
from tests.process.local_process import Done, metaquorum
from tests.support.kafka_tools import VERSIONS

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    *UNMODIFIED_CLIENTS,
]

INTERNAL_PARTITIONS: Final = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=VERSIONS)
async def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[KafkaCluster]:
    """A cluster whose internal topics are there: who came first came all at once."""
    folder = tmp_path_factory.mktemp("kafka") / "cluster"
    async with kafka_cluster(folder, request.param) as it:
        await it.create(TOPIC, partitions=1)
        await come_all_at_once([str(broker) for broker in it.cluster.brokers])
        await it.until_whole()
        yield it


async def test_internal_topics_are_created_once_for_many_first_clients(kafka: KafkaCluster) -> None:
    topics = await kafka.client.describe_topics()
    for name in ("__consumer_offsets", "__transaction_state"):
        assert len(topics[name].partitions) == INTERNAL_PARTITIONS
        for node in kafka.cluster.plan.controllers:
            created = creations(log_dir(kafka.cluster.folder, node))
            assert created.count(name) == 1, (node.name, created)
        askers = [n for n in kafka.cluster.plan.brokers if f"Set({name})" in kafka.said(n)]
        assert askers, f"no broker says that it asked for {name}"


async def test_exactly_what_an_ordinary_client_commits_is_seen(kafka: KafkaCluster) -> None:
    await kafka.create("transactions", partitions=3)
    await asyncio.to_thread(tell_the_story, kafka.servers, "transactions", 3)


async def test_nothing_is_lost_while_every_partition_moves(kafka: KafkaCluster) -> None:
    topic = "moved"
    async with kafka.traffic(topic):
        described = (await kafka.client.describe_topics([topic]))[topic]
        plan = plan_moves(described, kafka.brokers)
        results = await kafka.client.alter_reassignments(plan)
        assert [each.kafka_error_code for each in results] == [0] * PARTITIONS
        wanted = [one.replicas for one in plan]
        await kafka.until(
            lambda topics: [tuple(each.replicas) for each in topics[topic].partitions] == wanted
        )


async def test_nothing_is_lost_while_the_active_controller_is_killed(kafka: KafkaCluster) -> None:
    async with kafka.traffic("succession"):
        killed = await kafka.active_controller()
        await kafka.cluster.kill(killed.name)
        await kafka.create("of-the-successor", partitions=1)
        assert await kafka.active_controller() != killed
        await kafka.cluster.restart(killed.name)


async def test_nothing_is_lost_while_a_broker_is_killed_and_comes_back(kafka: KafkaCluster) -> None:
    topic = "killed"
    async with kafka.traffic(topic):
        killed = await kafka.a_leader_of(topic)
        await kafka.cluster.kill(killed.name)
        # One that comes back while its old session lives may never be seen to be gone: below, all
        # brokers are restarted at once.
        await kafka.until_without(killed)
        await kafka.cluster.restart(killed.name)


async def test_nothing_is_lost_while_a_broker_is_shut_down_in_a_controlled_way(
    kafka: KafkaCluster,
) -> None:
    """It hands its partitions over before it ends: no session has to run out."""
    topic = "shut-down"
    async with kafka.traffic(topic):
        broker = await kafka.a_leader_of(topic)
        await kafka.shut_down(broker)
        assert "The controller has asked us to exit controlled shutdown." in kafka.said(broker)
        await kafka.cluster.restart(broker.name)


async def test_all_controllers_are_killed_at_once_and_restarted(kafka: KafkaCluster) -> None:
    async with kafka.traffic("without-controllers"):
        names = [node.name for node in kafka.cluster.plan.controllers]
        await asyncio.gather(*map(kafka.cluster.kill, names))
        await asyncio.gather(*map(kafka.cluster.restart, names))
        await kafka.create("after-all-controllers", partitions=1)


async def test_all_brokers_are_killed_at_once_and_restarted(kafka: KafkaCluster) -> None:
    async with kafka.traffic("without-brokers"):
        names = [node.name for node in kafka.cluster.plan.brokers]
        await asyncio.gather(*map(kafka.cluster.kill, names))
        await asyncio.gather(*map(kafka.cluster.restart, names))


async def test_a_broker_is_paused_for_longer_than_its_session(kafka: KafkaCluster) -> None:
    topic = "paused"
    async with kafka.traffic(topic):
        broker = await kafka.a_leader_of(topic)
        kafka.signal(broker, signal.SIGSTOP)
        try:
            await kafka.until_without(broker)
        finally:
            kafka.signal(broker, signal.SIGCONT)


async def test_our_commands_read_as_a_group_and_show_and_reset_it(kafka: KafkaCluster) -> None:
    """Groups and deletions of records, which the embedded brokers refuse."""

    async def run(*arguments: str, stdin: str = "") -> Done:
        whom = ("--bootstrap-server", kafka.servers)
        return await asyncio.to_thread(metaquorum, *arguments, *whom, stdin=stdin.encode())

    async def rows(*arguments: str) -> list[list[str]]:
        done = await run(*arguments)
        assert done.code == 0, done
        return [line.split() for line in done.out.splitlines()[1:]]

    await kafka.create("console", partitions=2)
    written = await run("produce", "console", "--compression", "zstd", stdin="a\nb\nc\nd\ne\nf\n")
    assert "3 to partition 0, 3 to partition 1" in written.err
    member = ("consume", "console", "--group", "readers", "--from-beginning")
    first = await run(*member, "--max-records", "2")
    rest = await run(*member)
    assert (len(first.out.split()), len(rest.out.split())) == (2, 4)
    assert sorted(first.out.split() + rest.out.split()) == [*"abcdef"]
    assert ["readers", "Empty", "Classic"] in await rows("groups", "list")
    described = await run("groups", "describe", "readers")
    assert described.out.startswith("Group readers: Empty, 0 member(s)")

    async def offsets() -> list[list[str]]:
        return [row[:5] for row in await rows("groups", "offsets", "readers")]

    read = [["console", "0", "3", "3", "0"], ["console", "1", "3", "3", "0"]]
    assert await offsets() == read
    reset = ("groups", "reset-offsets", "readers", "--topic", "console", "--shift-by", "-2")
    assert await rows(*reset) == [["console", "0", "1"], ["console", "1", "1"]]
    assert await offsets() == read
    await rows(*reset, "--execute")
    assert await offsets() == [["console", "0", "1", "3", "2"], ["console", "1", "1", "3", "2"]]

    partitions = [{"topic": "console", "partition": 0, "offset": 2}]
    file = json.dumps({"version": 1, "partitions": partitions})
    deletion = ("topics", "delete-records", "--offset-json-file", "-", "--yes")
    assert (await run(*deletion, stdin=file)).out == "partition: console-0\tlow_watermark: 2\n"
    first_offsets = await run("topics", "get-offsets", "console", "--time", "earliest")
    assert first_offsets.out.split() == ["console:0:2", "console:1:0"]

    deleted = await run("groups", "delete", "readers", "nobody", "--yes")
    assert (deleted.code, deleted.out) == (1, "")
    assert deleted.err.startswith("Deleted group readers.\nError: group nobody: ")
    gone = await run("groups", "describe", "readers")
    assert (gone.code, gone.err) == (1, "Error: there is no group readers\n")

"""Whole clusters of processes, and their data when processes die."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from admin.client.producer import Producer
from admin.model import TopicDescription
from admin.tools.demo.story import SETTINGS, plan_moves
from admin.tools.demo.workload import Workload, balance, read_back
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, settle
from controller.quorum_description import QuorumDescription
from tests.process.joining_nodes import nap

pytestmark = pytest.mark.process

TOPIC = "orders"
PARTITIONS = 6
REPLICATION_FACTOR = 3
LOADED_BYTES = 24 * 1024 * 1024
RECORDS_PER_SECOND = 300
PATIENCE_SECONDS = 60


@dataclass
class Running:
    """A cluster that is up, someone to ask, and a producer with its account."""

    cluster: LocalCluster
    client: AdminClient
    workload: Workload

    async def quorum(self) -> QuorumDescription:
        return await self.client.describe_quorum()

    async def topic(self) -> TopicDescription:
        return (await self.client.describe_topics([TOPIC]))[TOPIC]

    async def until(self, holds: Callable[[TopicDescription], bool]) -> TopicDescription:
        """Ask again and again, at most `PATIENCE_SECONDS`, until the topic is as wanted."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                # A broker hears of a new topic a moment after it is there.
                topic = (await self.client.describe_topics([TOPIC])).get(TOPIC)
                if topic is not None and holds(topic):
                    return topic
                await nap()

    async def is_everything_there(self) -> None:
        """Read all back and compare it with what was acknowledged."""
        written = self.workload.written
        found = await read_back(self.cluster.brokers, TOPIC, written, PATIENCE_SECONDS * 1_000)
        result = balance(zip(written, found, strict=True))
        assert result.fault is None, result.fault
        assert result.acknowledged > 0


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Running]:
    wanted = Wanted(controllers=3, brokers=4, base_port=0)
    plan = settle(folder, wanted, random.Random(str(folder)))
    async with (
        LocalCluster(folder, plan, settings=SETTINGS) as cluster,
        AdminClient(cluster.brokers, is_controller=False) as client,
        Producer(cluster.brokers) as producer,
    ):
        await client.create_topic(
            TOPIC,
            partitions=PARTITIONS,
            replication_factor=REPLICATION_FACTOR,
            configs={"min.insync.replicas": "2"},
        )
        workload = Workload(producer, TOPIC, PARTITIONS)
        found = Running(cluster, client, workload)
        await found.until(lambda t: all(len(p.isr) == REPLICATION_FACTOR for p in t.partitions))
        await workload.load(for_ms=10_000, bytes_max=LOADED_BYTES)
        yield found


async def test_a_move_goes_on_after_all_controllers_were_killed_at_once(tmp_path: Path) -> None:
    """Issue: all three controllers killed with SIGKILL under load and restarted."""
    async with running(tmp_path / "cluster") as it, asyncio.TaskGroup() as tasks:
        stop = asyncio.Event()
        stream = tasks.create_task(it.workload.stream(RECORDS_PER_SECOND, stop))
        brokers = [node.id for node in it.cluster.plan.brokers]
        plan = plan_moves(await it.topic(), brokers)
        results = await it.client.alter_reassignments(plan)
        assert [each.kafka_error_code for each in results] == [0] * PARTITIONS
        committed = (await it.quorum()).high_watermark

        controllers = [node.name for node in it.cluster.plan.controllers]
        await asyncio.gather(*(it.cluster.kill(name) for name in controllers))
        await asyncio.gather(*(it.cluster.restart(name) for name in controllers))

        # What was answered before is there, and the moves that it began come to their end.
        assert (await it.quorum()).high_watermark >= committed
        wanted = {each.partition: each.replicas for each in plan}
        await it.until(
            lambda t: all(tuple(p.replicas) == wanted[p.partition] for p in t.partitions)
        )
        assert not await it.client.list_reassignments()
        stop.set()
        await stream
        await it.is_everything_there()


async def test_a_broker_that_is_killed_comes_back_into_sync(tmp_path: Path) -> None:
    async with running(tmp_path / "cluster") as it, asyncio.TaskGroup() as tasks:
        stop = asyncio.Event()
        stream = tasks.create_task(it.workload.stream(RECORDS_PER_SECOND, stop))
        victim = it.cluster.plan.brokers[0]
        await it.cluster.kill(victim.name)

        # Its session runs out; others lead what it led, and writing goes on.
        await it.until(
            lambda t: all(victim.id not in p.isr and p.leader != victim.id for p in t.partitions)
        )
        await it.cluster.restart(victim.name)
        await it.until(lambda t: all(len(p.isr) == REPLICATION_FACTOR for p in t.partitions))
        stop.set()
        await stream
        await it.is_everything_there()


async def test_a_cluster_that_was_stopped_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    async with running(folder) as it:
        before = await it.topic()
        written = it.workload.written
        assert await it.cluster.stop() == (), "a node had to be killed"

    plan = settle(folder, Wanted(), random.Random(0))
    async with (
        LocalCluster(folder, plan) as cluster,
        AdminClient(cluster.brokers, is_controller=False) as client,
    ):
        after = (await client.describe_topics([TOPIC]))[TOPIC]
        assert [p.replicas for p in after.partitions] == [p.replicas for p in before.partitions]
        found = await read_back(cluster.brokers, TOPIC, written, PATIENCE_SECONDS * 1_000)
        assert balance(zip(written, found, strict=True)).fault is None

"""A cluster of our controllers and unmodified Kafka brokers, for tests that inject faults."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.client.admin_client import AdminClient
from admin.model import TopicDescription
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import LOG_FILE, NodePlan, Wanted, log_dir, settle
from quorum.transport.address import Address
from tests.process.kafka_groups import PARTITIONS, group_traffic
from tests.process.kafka_traffic import Traffic
from tests.support.kafka_tools import runtime

REPLICATION_FACTOR: Final = 3
SESSION_MS: Final = 5_000
# A session outlives three heartbeats that come late or not at all, as with Kafka's own numbers.
SETTINGS: Final = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "1000",
}
START_MS: Final = 180_000
"""The longest time until a cluster is up; four Javas at once on a busy machine need a minute.
It bounds a test that fails, as the next one does."""
PATIENCE_SECONDS: Final = 120
ASK_AGAIN_SECONDS: Final = 0.1

Topics = Mapping[str, TopicDescription]


@dataclass
class KafkaCluster:
    """A cluster that is up, and someone who asks its controllers."""

    cluster: LocalCluster
    client: AdminClient

    @property
    def servers(self) -> str:
        """The bootstrap servers of clients."""
        return ",".join(map(str, self.cluster.brokers))

    @property
    def brokers(self) -> list[int]:
        return [node.id for node in self.cluster.plan.brokers]

    async def until(self, holds: Callable[[Topics], bool]) -> Topics:
        """Ask again and again, at most `PATIENCE_SECONDS`, until the topics are as wanted.

        A node that ends by itself ends the waiting: it fails the test with its last words.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                topics = await self.client.describe_topics()
                if holds(topics):
                    return topics
                await self._nobody_has_ended()

    async def _nobody_has_ended(self) -> None:
        ended = asyncio.get_running_loop().create_task(self.cluster.ended.get())
        done, _ = await asyncio.wait({ended}, timeout=ASK_AGAIN_SECONDS)
        ended.cancel()
        assert not done, str(ended.result())

    async def until_whole(self) -> None:
        """Every broker is alive, every partition is led, every replica in sync, nothing moves."""
        await self.until(lambda topics: all(map(_is_whole, topics.values())))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while [each.id for each in await self.client.brokers()] != self.brokers:
                await self._nobody_has_ended()
        assert not await self.client.list_reassignments()
        assert self.cluster.ended.empty()

    async def until_without(self, broker: NodePlan) -> None:
        """The broker leads nothing any more, and is in sync with nobody but itself."""
        await self.until(
            lambda topics: all(
                broker.id != partition.leader and broker.id not in partition.isr
                for topic in topics.values()
                for partition in topic.partitions
            )
        )

    async def create(self, topic: str, partitions: int) -> None:
        """Create a topic of which two replicas must hold what is acknowledged."""
        await self.client.create_topic(
            topic,
            partitions=partitions,
            replication_factor=REPLICATION_FACTOR,
            configs={"min.insync.replicas": "2"},
        )

    @asynccontextmanager
    async def traffic(self, topic: str) -> AsyncIterator[Traffic]:
        """Traffic over a new topic; afterwards the cluster is whole, and the account right."""
        await self.create(topic, PARTITIONS)
        for broker in self.cluster.brokers:
            await self._until_known(topic, broker)
        logs = [log_dir(self.cluster.folder, node) for node in self.cluster.plan.brokers]
        flowing: AbstractAsyncContextManager[Traffic] = group_traffic(self.servers, topic, logs)
        async with flowing as it:
            yield it
            await self.until_whole()

    async def _until_known(self, topic: str, broker: Address) -> None:
        """The broker has heard of the topic, and clients that ask it will hear of it."""
        async with (
            AdminClient([broker], is_controller=False) as client,
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            while topic not in await client.describe_topics([topic]):
                await self._nobody_has_ended()

    async def active_controller(self) -> NodePlan:
        """The controller that leads the quorum."""
        leader_id = (await self.client.describe_quorum()).leader_id
        (node,) = (each for each in self.cluster.plan.controllers if each.id == leader_id)
        return node

    async def a_leader_of(self, topic: str) -> NodePlan:
        """The broker that leads the first partition of the topic."""
        leader = (await self.client.describe_topics([topic]))[topic].partitions[0].leader
        (node,) = (each for each in self.cluster.plan.brokers if each.id == leader)
        return node

    def signal(self, node: NodePlan, how: signal.Signals) -> None:
        """Send a signal to a node that runs."""
        pid = self.cluster.pid(node.name)
        assert pid is not None, f"{node.name} does not run"
        os.kill(pid, how)

    async def shut_down(self, broker: NodePlan) -> None:
        """Ask the broker to end, and return when it has."""
        assert await self.cluster.stop_node(broker.name), f"{broker.name} had to be killed"

    def said(self, node: NodePlan) -> str:
        """All that the node has logged so far."""
        return (self.cluster.folder / node.name / LOG_FILE).read_text(encoding="utf-8")


def _is_whole(topic: TopicDescription) -> bool:
    return all(
        each.leader in each.isr and sorted(each.isr) == sorted(each.replicas)
        for each in topic.partitions
    )


@asynccontextmanager
async def started(cluster: LocalCluster) -> AsyncIterator[LocalCluster]:
    """The cluster once it is up; stopped in the end."""
    try:
        await cluster.start(within_ms=START_MS)
        yield cluster
    finally:
        await cluster.stop()


@asynccontextmanager
async def kafka_cluster(folder: Path, version: str) -> AsyncIterator[KafkaCluster]:
    """Three controllers and four brokers of this release; skips where it cannot be run."""
    found = runtime(version)
    wanted = Wanted(controllers=3, brokers=4, base_port=0, kafka=version)
    plan = settle(folder, wanted, random.Random(str(folder)))
    async with (
        started(LocalCluster(folder, plan, settings=SETTINGS, runtime=found)) as cluster,
        AdminClient(cluster.controllers, is_controller=True) as client,
    ):
        yield KafkaCluster(cluster, client)

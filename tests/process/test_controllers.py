"""Controllers as processes: kill, stop, and refusals to start."""

import asyncio
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from admin.client.admin_client import AdminClient, AdminError
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import log_dir
from quorum.persistent_state import LOG_FOLDER
from quorum.transport.address import Address
from quorum.transport.outcomes import RequestFailed
from tests.controller.logs import folded
from tests.process.controller_processes import (
    HOST,
    Single,
    ended,
    log_of,
    send_signal,
    three,
    up,
)
from tests.process.joining_nodes import nap
from tests.support.broker_requests import Broker, created, joined
from tests.support.kafka_client import KafkaClient, kafka_client
from tests.support.ports import free_ports

pytestmark = pytest.mark.process

PARTITIONS: Final = 16
ENOUGH: Final = 600
STOP_SECONDS: Final = 30
"""The time limit of a test for the stop of a node. The node's own waits are bounded by far less, in
`admin.daemon`; the rest depends on the machine."""


@dataclass
class Load:
    """Requests that change something, from several askers at once, and what was acknowledged."""

    partition_epochs: dict[int, int] = field(default_factory=dict)
    """By partition of topic moving: its epoch after the last change that was answered."""
    topics: list[str] = field(default_factory=list)
    count: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    def acknowledged(self) -> None:
        self.count += 1
        if self.count >= ENOUGH:
            self.enough.set()

    async def change_isr(self, brokers: list[Broker], topic_id: UUID, partition: int) -> None:
        """Let a partition's ISR shrink and grow, until nobody answers any more."""
        while True:
            epoch = self.partition_epochs.get(partition, 0)
            members = brokers if epoch % 2 else brokers[:2]
            try:
                altered = await brokers[0].propose(
                    topic_id, members, partition_epoch=epoch, partition=partition
                )
            except RequestFailed:
                return
            assert (altered.error_code.value, altered.partition_epoch) == (0, epoch + 1)
            self.partition_epochs[partition] = epoch + 1
            self.acknowledged()

    async def create_topics(self, client: AdminClient) -> None:
        """Create one topic after the other, until nobody answers any more."""
        while True:
            name = f"created-{len(self.topics)}"
            try:
                await client.create_topic(name, assignments={0: [101, 102]})
            except AdminError:
                return
            self.topics.append(name)
            self.acknowledged()


async def leader_of(cluster: LocalCluster) -> tuple[int, Address]:
    """The active controller, and where it listens."""
    async with AdminClient(cluster.controllers, is_controller=True) as client:
        leader_id = (await client.describe_quorum()).leader_id
    (node,) = (each for each in cluster.plan.controllers if each.id == leader_id)
    return leader_id, node.kafka


async def three_brokers(client: KafkaClient, cluster: LocalCluster) -> list[Broker]:
    return [await joined(client, each, cluster.plan.cluster_id) for each in (101, 102, 103)]


async def test_all_three_are_killed_under_load_and_what_they_acknowledged_is_there(
    tmp_path: Path,
) -> None:
    async with three(tmp_path / "cluster") as cluster:
        load = Load()
        _, address = await leader_of(cluster)
        async with (
            kafka_client(address) as client,
            AdminClient(cluster.controllers, is_controller=True, timeout_ms=500) as admin,
        ):
            brokers = await three_brokers(client, cluster)
            topic_id = await created(client, "moving", *[(101, 102, 103)] * PARTITIONS)
            async with asyncio.TaskGroup() as tasks:
                for partition in range(PARTITIONS):
                    tasks.create_task(load.change_isr(brokers, topic_id, partition))
                tasks.create_task(load.create_topics(admin))
                await load.enough.wait()
                names = [node.name for node in cluster.plan.nodes]
                await asyncio.gather(*map(cluster.kill, names))
        assert load.count >= ENOUGH
        assert len(load.partition_epochs) == PARTITIONS
        assert load.topics
        await asyncio.gather(*map(cluster.restart, names))
        await check_it_is_there(cluster, load, brokers, topic_id)
        assert await cluster.stop() == ()
        check_logs_agree(cluster, load, topic_id)


async def check_it_is_there(
    cluster: LocalCluster, load: Load, brokers: list[Broker], topic_id: UUID
) -> None:
    """As its askers see it, who have not been away."""
    _, address = await leader_of(cluster)
    async with kafka_client(address) as client:
        first = Broker(client, 101, brokers[0].epoch)
        for partition, epoch in load.partition_epochs.items():
            members = brokers if epoch % 2 else brokers[:2]
            altered = await first.propose(
                topic_id, members, partition_epoch=epoch, partition=partition
            )
            # 95: the next change was made as well, though nobody has heard of it. Anything else
            # would mean that the controller knows less than it has said.
            assert altered.error_code.value in (0, 95), altered
    async with AdminClient(cluster.controllers, is_controller=True) as client:
        await until_shown(client, set(load.topics))


async def until_shown(client: AdminClient, topics: set[str]) -> None:
    """Return once these are there; a follower hears of a commit a moment after the leader."""
    async with asyncio.timeout(20):
        while not topics <= set(await client.describe_topics()):
            await nap()


def check_logs_agree(cluster: LocalCluster, load: Load, topic_id: UUID) -> None:
    """As the disks have it: each log is the beginning of the longest, which has everything."""
    logs = sorted((log_of(log_dir(cluster.folder, node)) for node in cluster.plan.nodes), key=len)
    assert all(logs[-1].startswith(log) for log in logs)
    for log in logs[1:]:  # A majority.
        image = folded(log)
        assert set(load.topics) <= set(image.topic_ids)
        for number, epoch in load.partition_epochs.items():
            partition = image.topics[topic_id].partition(number)
            assert partition is not None
            assert partition.partition_epoch >= epoch


async def test_each_ends_in_good_order_at_sigterm_and_the_others_go_on(tmp_path: Path) -> None:
    async with three(tmp_path / "cluster") as cluster:
        leader_id, address = await leader_of(cluster)
        others = [node.kafka for node in cluster.plan.controllers if node.id != leader_id]
        async with (
            kafka_client(address) as client,
            AdminClient(others, is_controller=True) as admin,
        ):
            await three_brokers(client, cluster)
            await created(client, "before", (101, 102))
            await stopped(cluster, f"controller-{leader_id}")
            # A client of the others does not notice much.
            await admin.create_topic("after", assignments={0: [102, 103]})
            await until_shown(admin, {"before", "after"})
        for node in cluster.plan.nodes:
            if node.id != leader_id:
                await stopped(cluster, node.name)
        images = [folded(log_of(log_dir(cluster.folder, node))) for node in cluster.plan.nodes]
        assert sum({"before", "after"} <= set(image.topic_ids) for image in images) >= 2


async def stopped(cluster: LocalCluster, name: str) -> None:
    """Let a node stop by SIGTERM, and see its process end in good order."""
    process_id = cluster.pid(name)
    assert process_id is not None
    send_signal(process_id, signal.SIGTERM)
    async with asyncio.timeout(STOP_SECONDS):
        gone = await cluster.ended.get()
    assert (gone.node.name, gone.code) == (name, 0), gone


async def test_a_node_refuses_what_another_uses_and_folders_that_are_not_its_own(
    tmp_path: Path,
) -> None:
    port, other_port = free_ports(tmp_path, 2).values()
    node = Single(tmp_path / "data", port)
    async with up(node) as process:
        same_folder = Single(node.folder, other_port)
        same_port = Single(tmp_path / "other", port)
        in_use, taken = await asyncio.gather(same_folder.try_to_start(), same_port.try_to_start())
        assert in_use.code == 1
        assert "another process uses" in in_use.error
        assert taken.code == 1
        assert f"cannot listen at {HOST}:{port}" in taken.error
        process.terminate()
        stopped = await ended(process)
        assert (stopped.code, "Error" in stopped.said) == (0, False)
    before = files(node.folder)
    another_node = Single(node.folder, port, node_id=2)
    another_cluster = Single(node.folder, port, cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
    for foreign, whose in ((another_node, "node 1"), (another_cluster, "cluster 4L6g3nShT")):
        refused = await foreign.try_to_start()
        assert refused.code == 1
        assert f"this folder belongs to {whose}" in refused.error
    assert files(node.folder) == before


async def test_a_node_with_a_damaged_log_refuses_to_start_and_changes_nothing(
    tmp_path: Path,
) -> None:
    node = Single(tmp_path / "data", free_ports(tmp_path, 1)[1])
    async with up(node) as process:
        process.terminate()
        await ended(process)
    segment = next((node.folder / LOG_FOLDER).glob("*.log"))
    sound = segment.read_bytes()
    # In the first of its batches: what no crash can have done.
    segment.write_bytes(sound[:70] + bytes([sound[70] ^ 1]) + sound[71:])
    before = files(node.folder)
    refused = await node.try_to_start()
    assert refused.code == 1
    assert f"{segment} is damaged at byte" in refused.error
    assert "joins as a new directory" in refused.error
    assert files(node.folder) == before
    segment.write_bytes(sound)
    async with up(node):
        pass


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

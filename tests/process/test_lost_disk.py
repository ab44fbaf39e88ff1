"""A broker that has lost its disk: real processes, one of them with a deleted folder."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from admin.client.producer import Producer
from admin.model import PartitionDescription
from admin.tools.demo.workload import Workload, balance, read_back
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import NodePlan, Wanted, log_dir, settle
from quorum.log import meta_properties
from tests.process.joining_nodes import nap

pytestmark = pytest.mark.process

TOPIC = "orders"
PATIENCE_SECONDS = 60
LOADED_BYTES = 256 * 1024


async def until(client: AdminClient, holds: Callable[[PartitionDescription], bool]) -> None:
    """Ask again and again until the partition is as wanted."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            # A broker hears of a new topic a moment after it is there.
            topic = (await client.describe_topics([TOPIC])).get(TOPIC)
            if topic is not None and holds(topic.partitions[0]):
                return
            await nap()


async def stop(cluster: LocalCluster, node: NodePlan) -> None:
    """Ask the broker to end in good order, and wait until it has."""
    pid = cluster.pid(node.name)
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    ended = await cluster.ended.get()
    assert (ended.node, ended.code) == (node, 0)


def directory_id(data: Path) -> object:
    found = meta_properties.look(data)
    assert found is not None
    return found.directory_id


async def test_a_broker_whose_folder_was_deleted_copies_everything_and_leads_again(
    tmp_path: Path,
) -> None:
    """KIP-858: the metadata names a directory that is gone until the broker says the new one."""
    folder = tmp_path / "cluster"
    wanted = Wanted(controllers=1, brokers=2, base_port=0)
    plan = settle(folder, wanted, random.Random(str(folder)))
    lost, other = plan.brokers
    data = log_dir(folder, lost)
    async with (
        LocalCluster(folder, plan) as cluster,
        AdminClient(cluster.brokers, is_controller=False) as client,
        Producer(cluster.brokers) as producer,
    ):
        await client.create_topic(TOPIC, assignments={0: (lost.id, other.id)})
        await until(client, lambda partition: len(partition.isr) == 2)
        workload = Workload(producer, TOPIC, 1)
        await workload.load(for_ms=10_000, bytes_max=LOADED_BYTES)

        await stop(cluster, lost)
        before = directory_id(data)
        shutil.rmtree(data)
        await until(client, lambda partition: tuple(partition.isr) == (other.id,))
        await cluster.restart(lost.name)
        assert directory_id(data) != before
        await until(client, lambda partition: len(partition.isr) == 2)

        await stop(cluster, other)
        await until(client, lambda partition: partition.leader == lost.id)
        found = await read_back(cluster.brokers, TOPIC, workload.written, PATIENCE_SECONDS * 1_000)
        result = balance(zip(workload.written, found, strict=True))
        assert result.fault is None, result.fault
        assert result.acknowledged > 0

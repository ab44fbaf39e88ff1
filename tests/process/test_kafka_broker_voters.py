"""A broker of Kafka stays with the quorum while every controller that it knew is replaced."""

import asyncio
from pathlib import Path

import pytest

from admin.client import AdminClient
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from tests.admin.kafka_door.test_kafka_voters import until, votes
from tests.process.one_kafka_broker import BROKER_ID, PATIENCE_SECONDS, is_unfenced, kafka_broker
from tests.support.controllers import Node, active, controllers
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process


async def until_caught_up(broker_id: int, nodes: dict[int, Node]) -> None:
    """Return once the leader has seen the broker fetch up to all that is committed now."""
    leader = await active(nodes.values())
    async with asyncio.timeout(PATIENCE_SECONDS):
        end = leader.opened.quorum.high_watermark or 0
        while not any(
            each.replica.id == broker_id and (each.log_end or 0) >= end
            for each in leader.opened.quorum.node.replicas()
        ):
            await leader.opened.quorum.leader_changed(within_seconds=0.05)


async def test_a_broker_of_kafka_follows_the_quorum_to_other_voters(tmp_path: Path) -> None:
    java = runtime("4.2.0")
    async with controllers(tmp_path, 1, 2, observers=(3, 4), kraft_version=1) as nodes:
        leader = await active(nodes.values())
        async with kafka_broker(tmp_path, java, nodes[1].address, metadata_version=29) as broker:
            await broker.until(leader, is_unfenced)
            async with AdminClient([nodes[3].address], is_controller=True) as client:
                await client.alter_voters([ReplicaKey(ReplicaId(each)) for each in (3, 4)])
            await until([nodes[3], nodes[4]], votes(3, 4))
            await until_caught_up(BROKER_ID, nodes)
            # Those that it was told of in the beginning are gone for good.
            for each in (1, 2):
                await nodes[each].stop()
            await until_caught_up(BROKER_ID, {each: nodes[each] for each in (3, 4)})
            left = await active([nodes[3], nodes[4]])
            await broker.until(left, is_unfenced)
            assert broker.process.returncode is None
            assert not [line for line in broker.complaints if "Voters" in line]

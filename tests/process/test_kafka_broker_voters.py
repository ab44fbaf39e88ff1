"""Brokers of Kafka stay with the quorum while every controller that they knew is replaced.

They join when the log begins behind its first record, so that what they know of the voters comes
from a snapshot, and then from the log. One was told of an address to begin with, one of all voters.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from admin.client.admin_client import AdminClient
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.persistent_state import LOG_FOLDER
from statemachine.commands import FenceBrokers
from statemachine.image.image import Image
from statemachine.limits import METADATA_VERSION_MAX
from tests.controller.apis.test_kafka_voters import until, votes
from tests.controller.controller_commands import asked, join
from tests.process.one_kafka_broker import (
    BROKER_ID,
    PATIENCE_SECONDS,
    kafka_broker,
    serve,
)
from tests.process.test_kafka_boots_from_snapshot import ANOTHER, OFTEN, THIRD, until_cut
from tests.support.controllers import Node, active, controllers
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

OLD: Final = (1, 2, 3)
NEW: Final = (4, 5, 6)
STATIC_ID: Final = BROKER_ID + 10


async def until_caught_up(broker_id: int, nodes: Mapping[int, Node]) -> None:
    """Return once the leader has seen the broker fetch up to all that is committed now."""
    leader = await active(nodes.values())
    async with asyncio.timeout(PATIENCE_SECONDS):
        end = leader.opened.quorum.node.high_watermark or 0
        while not any(
            each.replica.id == broker_id and (each.log_end or 0) >= end
            for each in leader.opened.quorum.node.replicas()
        ):
            await leader.opened.quorum.leader_changed(within_seconds=0.05)


def are_unfenced(image: Image) -> bool:
    """True if both brokers may lead."""
    found = [image.brokers.get(each) for each in (BROKER_ID, STATIC_ID)]
    return all(each is not None and not each.fenced for each in found)


async def test_brokers_of_kafka_follow_the_quorum_to_other_voters(tmp_path: Path) -> None:
    java = runtime("4.3.1")
    async with controllers(
        tmp_path, *OLD, observers=NEW, kraft_version=1, snapshots=OFTEN
    ) as nodes:
        leader = await active(nodes.values())
        await join(leader.controller, ANOTHER, THIRD)
        await until_cut(leader)
        await asked(leader.controller, FenceBrokers(broker_ids=(ANOTHER, THIRD)))
        told = {each: nodes[each].address for each in OLD}
        async with (
            kafka_broker(tmp_path, java, told[1], metadata_version=METADATA_VERSION_MAX) as dynamic,
            kafka_broker(
                tmp_path,
                java,
                told[1],
                metadata_version=METADATA_VERSION_MAX,
                broker_id=STATIC_ID,
                voters=told,
            ) as static,
        ):
            brokers = {BROKER_ID: dynamic, STATIC_ID: static}
            await dynamic.until(leader, are_unfenced)
            async with AdminClient([nodes[4].address], is_controller=True) as client:
                await client.alter_voters([ReplicaKey(ReplicaId(each)) for each in NEW])
            left = {each: nodes[each] for each in NEW}
            await until(left.values(), votes(*NEW))
            for each in brokers:
                await until_caught_up(each, nodes)
            # Those that they were told of in the beginning are gone for good.
            for each in OLD:
                await nodes[each].stop()
            for each, broker in brokers.items():
                await until_caught_up(each, left)
                await serve(broker, f"served-{each}", each)
                assert list((broker.storage / LOG_FOLDER).glob("*.checkpoint"))
                assert not [line for line in broker.complaints if "Voters" in line]
            assert are_unfenced((await active(left.values())).controller.image)

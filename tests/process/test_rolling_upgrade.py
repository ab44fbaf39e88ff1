"""A cluster upgraded from a past commit to this one and back, node by node, under load."""

import asyncio
import json
import logging
import os
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from admin.client.admin_client import AdminClient
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, settle
from bench.past_tree import NoHistory, past_tree
from bench.rolling_upgrade import report, restart
from quorum.version import VERSION
from tests.process.change_load import Load
from tests.process.controller_processes import SILENCE_MS
from tests.process.test_controllers import leader_of
from tests.process.test_lead_transferred import check_nothing_is_lost
from tests.support.broker_requests import joined
from tests.support.kafka_client import kafka_client
from tests.support.tree import ROOT

logger = logging.getLogger(__name__)

pytestmark = [pytest.mark.process, pytest.mark.long]

WRITERS: Final = 4
BETWEEN: Final = 40
"""Writes that are acknowledged between two restarts, at least."""
TEST_SECONDS_MAX: Final = 300


def past_code(folder: Path) -> Path:
    """The tree of the past commit; skips the test where there is no history."""
    try:
        return past_tree(folder / "past")
    except NoHistory as reason:
        pytest.skip(str(reason))


@asynccontextmanager
async def of_the_past(folder: Path) -> AsyncIterator[LocalCluster]:
    """Controllers 1, 2 and 3, which run the past commit."""
    tree = past_code(folder)
    wanted = Wanted(controllers=3, brokers=0, base_port=0)
    plan = settle(folder / "cluster", wanted, random.Random(str(folder)))
    settings = {"broker.session.timeout.ms": str(SILENCE_MS)}
    cluster = LocalCluster(folder / "cluster", plan, settings=settings)
    cluster.trees = dict.fromkeys([each.name for each in plan.nodes], tree)
    async with cluster:
        yield cluster


async def test_a_rolling_upgrade_and_the_way_back_lose_nothing(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(TEST_SECONDS_MAX),
        of_the_past(tmp_path) as cluster,
        AdminClient(cluster.controllers, is_controller=True) as client,
    ):
        tree = cluster.trees["controller-1"]
        _, address = await leader_of(cluster)
        async with kafka_client(address) as broker:
            await joined(broker, 101, cluster.plan.cluster_id)
        load = Load()
        pauses: dict[str, float] = {}
        async with asyncio.TaskGroup() as tasks:
            writing = [tasks.create_task(load.write(cluster, each)) for each in range(WRITERS)]
            await load.acknowledge(BETWEEN)
            first_leader = (await client.describe_quorum()).leader_id
            order = []
            while not (found := await report(client)).done:
                assert found.next.node is not None
                order.append(found.next.node)
                pauses[f"to {VERSION}: {order[-1]}"] = await restart(
                    cluster, client, load, order[-1], None
                )
            assert sorted(order) == [1, 2, 3]
            assert order[-1] == first_leader, "the lead was given away once, at the end"
            assert [each.version for each in found.nodes if each.voter] == [VERSION] * 3
            for node_id in order:
                pauses[f"back: {node_id}"] = await restart(cluster, client, load, node_id, tree)
            for task in writing:
                task.cancel()
        logger.info("longest pauses, ms: %s", {name: round(ms) for name, ms in pauses.items()})
        assert await cluster.stop() == ()
        check_nothing_is_lost(cluster, load)


ANSWERS: Final = """
import json
from msgspec.json import schema_components
from admin.capabilities.registry import CAPABILITIES
from admin.capabilities.schema import answer_type

print(json.dumps({
    name: {
        part: [list(fields.get("properties", {})), fields.get("required", [])]
        for part, fields in schema_components([answer_type(kind)])[1].items()
    }
    for name, kind in CAPABILITIES.items()
}))
"""
"""A program that prints the fields of each answer, and those that must be there."""


async def answers(tree: Path) -> dict[str, dict[str, tuple[list[str], list[str]]]]:
    """The answers of the code in this tree."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", ANSWERS),
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, dict[str, tuple[list[str], list[str]]]] = json.loads(said)
    return found


async def test_every_answer_of_the_past_commit_can_be_read(tmp_path: Path) -> None:
    """A command of this release asks a node of the one before: whatever is new has a default."""
    past, present = await answers(past_code(tmp_path)), await answers(ROOT)
    missing = [
        f"{name}: {field} of {part} is new, and has no default"
        for name in past.keys() & present.keys()
        for part in past[name].keys() & present[name].keys()
        for field in {*present[name][part][1]} - {*past[name][part][0]}
    ]
    assert not missing, "\n".join(missing)

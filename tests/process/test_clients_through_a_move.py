"""Unmodified clients on brokers of ours while all that they read and write moves."""

import asyncio
import logging
import random
from pathlib import Path
from typing import Final

import pytest

from tests.process.moved_cluster import moved_cluster
from tests.process.siege import kill_broker, kill_controller

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TOPIC: Final = "orders"
PARTITIONS: Final = 8
BYTES_EACH: Final = 448 * 1024
BYTES_PER_SECOND: Final = 60_000
"""Of each broker, until a first partition has moved."""
SLOWLY_PER_SECOND: Final = 4_000
"""From then on, so that the rest takes minutes."""
SEED: Final = 3


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No log lines of kafka-python: they would keep its failed sockets for a later test to find."""
    caplog.set_level(logging.CRITICAL, logger="kafka")


async def test_kafka_python_and_confluent_lose_nothing_when_controller_and_leader_die_at_once(
    tmp_path: Path,
) -> None:
    """Of assigned partitions, with acks=all: every record once, in its order, where it was said."""
    rng = random.Random(SEED)
    async with moved_cluster(tmp_path / "cluster", brokers=4) as it:
        await it.limit(replicas=1, partitions=3)
        written = await it.place(TOPIC, it.ring(PARTITIONS), BYTES_EACH)
        wanted = it.ring(PARTITIONS, turned=3)
        async with it.flowing(TOPIC, written):
            await it.hold_back(TOPIC, BYTES_PER_SECOND)
            move = await it.begin(TOPIC, wanted)
            await it.until_completed(move, more_than=0)
            await it.hold_back(TOPIC, SLOWLY_PER_SECOND)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(kill_broker(it, move, rng))
                tasks.create_task(kill_controller(it, move, rng))
            assert not (await it.standing(move)).ended, "it was over too early"
            await it.let_go(TOPIC)
            ended = await it.until_ended(move)
        assert (ended.state, ended.completed) == ("completed", PARTITIONS), ended
        assert await it.layout(TOPIC) == wanted
        await it.until_disks_agree(TOPIC)

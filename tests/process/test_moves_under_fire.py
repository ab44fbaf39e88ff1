"""A large move while everything dies around it; `make siege KILLS=20` is the long form."""

import logging
import random
from pathlib import Path
from typing import Final

import pytest

from tests.process.moved_cluster import moved_cluster
from tests.process.siege import besiege, harms

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TOPIC: Final = "orders"
BROKERS: Final = 5
PARTITIONS: Final = 200
BYTES_EACH: Final = 56 * 1024
COPIES: Final = 2
"""Of each partition: one of its replicas stays."""
BYTES_PER_SECOND: Final = 50_000
"""Of each broker, to begin with."""
SEED: Final = 6


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No log lines of kafka-python: they would keep its failed sockets for a later test to find."""
    caplog.set_level(logging.CRITICAL, logger="kafka")


async def test_200_partitions_under_fire_get_where_they_would_without(
    tmp_path: Path, controller_kills: int
) -> None:
    """R = 1, P = 20: three steps for each partition, and no client loses or repeats a record.

    Brokers copy slowly while harm is done, and as fast as they can afterwards.
    """
    rng = random.Random(SEED)
    chosen = harms(controller_kills, rng)
    async with moved_cluster(tmp_path / "cluster", brokers=BROKERS) as it:
        await it.limit(replicas=1, partitions=20)
        written = await it.place(TOPIC, it.ring(PARTITIONS), BYTES_EACH)
        wanted = it.ring(PARTITIONS, turned=3)
        async with it.flowing(TOPIC, written):
            await it.hold_back(TOPIC, BYTES_PER_SECOND)
            move = await it.begin(TOPIC, wanted)
            await besiege(it, move, chosen, rng, topic=TOPIC, bytes_each=COPIES * BYTES_EACH)
            await it.let_go(TOPIC)
            ended = await it.until_ended(move)
        assert (ended.state, ended.completed) == ("completed", PARTITIONS), ended
        assert await it.layout(TOPIC) == wanted
        await it.until_disks_agree(TOPIC)

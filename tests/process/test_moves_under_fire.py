"""A large move while processes die around it; `make siege KILLS=20` is the long form."""

import random
from pathlib import Path
from typing import Final

import pytest

from tests.process.kafka_traffic import UNMODIFIED_CLIENTS
from tests.process.moved_cluster import moved_cluster
from tests.process.siege import besiege, faults

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    *UNMODIFIED_CLIENTS,
]

TOPIC: Final = "orders"
IN_PEACE: Final = "orders-in-peace"
"""A topic alike, which is moved by the same plan when nothing fails."""
BROKERS: Final = 5
PARTITIONS: Final = 200
BYTES_EACH: Final = 56 * 1024
COPIES: Final = 2
"""The replicas that each partition copies: one of its replicas stays."""
BYTES_PER_SECOND: Final = 50_000
"""The initial rate of each broker."""
SEED: Final = 6


async def test_200_partitions_reach_their_targets_under_faults(
    tmp_path: Path, controller_kills: int
) -> None:
    """R = 1, P = 20: three steps for each partition, and no client loses or repeats a record.

    Brokers copy slowly during the faults, and as fast as they can afterwards. What both moves have
    written is judged when the cluster has ended; that clients are told the same of both is seen by
    the last line alone, as with replicas that are told in another order from some partition on.
    """
    rng = random.Random(SEED)
    chosen = faults(controller_kills, rng)
    async with moved_cluster(tmp_path / "cluster", brokers=BROKERS) as it:
        await it.limit(replicas=1, partitions=20)
        wanted = it.ring(PARTITIONS, turned=3)
        async with it.moving(TOPIC, wanted, BYTES_EACH, BYTES_PER_SECOND) as move:
            await besiege(it, move, chosen, rng, topic=TOPIC, bytes_each=COPIES * BYTES_EACH)
        await it.place(IN_PEACE, it.ring(PARTITIONS), bytes_each=0)
        ended = await it.until_ended(await it.begin(IN_PEACE, wanted))
        assert ended.state == "completed", ended
        assert await it.layout(TOPIC) == await it.layout(IN_PEACE)

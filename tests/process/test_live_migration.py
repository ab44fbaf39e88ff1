"""A KRaft cluster of Kafka goes over to our controllers and back, while clients are at work.

As `docs/migration.md` has it, with the command of the operator as a process of its own. Producers
with acks=all, consumer groups and transactions run through the whole of it; afterwards everything
is compared.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from admin.tools.kafka_runtime import RELEASES
from admin.tools.local_plan import log_dir
from bench.migrated_cluster import MigratedCluster, source
from tests.process.kafka_groups import PARTITIONS, group_traffic
from tests.process.kafka_traffic import UNMODIFIED_CLIENTS
from tests.process.kafka_transactions import Transactional, Values, read, together, values
from tests.process.migration_steps import (
    back,
    no_broker_was_fenced_by_ours,
    there,
    topics_are_created,
)
from tests.support.kafka_tools import runtime

pytestmark = [pytest.mark.long, pytest.mark.process, *UNMODIFIED_CLIENTS]

LEVELS: Final = {"4.3.1": "4.2"}
"""The level of the cluster, where it is not that of the release."""
TRANSACTIONS: Final = "transactions"
TRANSACTION_PARTITIONS: Final = 3
PAUSE_SECONDS: Final = 0.2
ABORTED_EVERY: Final = 4
MIN_ISR: Final = {"min.insync.replicas": "2"}


@dataclass
class Transactions:
    """Transactions one after the other, of which some are aborted."""

    servers: str
    enough: Event = field(default_factory=Event)
    committed: list[Values] = field(default_factory=list)

    def run(self) -> None:
        """Write until it is enough; an ordinary client, which is told of no error."""
        client = Transactional(self.servers, "migrating")
        turn = 0
        while not self.enough.wait(PAUSE_SECONDS):
            turn += 1
            those = values(f"t{turn}", TRANSACTION_PARTITIONS, 2)
            client.write(TRANSACTIONS, those)
            if turn % ABORTED_EVERY:
                client.commit()
                self.committed.append(those)
            else:
                client.abort()

    def check(self) -> None:
        """A reader of committed records sees what was committed, in order, and nothing else."""
        seen = read(self.servers, TRANSACTIONS, TRANSACTION_PARTITIONS, "read_committed")
        assert self.committed
        assert seen == together(self.committed)


@asynccontextmanager
async def at_work(cluster: MigratedCluster) -> AsyncIterator[Transactions]:
    """Producers, consumer groups and transactions; in the end everything is compared."""
    servers = ",".join(map(str, cluster.listeners))
    async with cluster.client() as admin:
        for topic, partitions in (("groups", PARTITIONS), (TRANSACTIONS, TRANSACTION_PARTITIONS)):
            await admin.create_topic(
                topic, partitions=partitions, replication_factor=3, configs=MIN_ISR
            )
    await cluster.until_in_sync()
    logs = [log_dir(cluster.rival.folder, node) for node in cluster.brokers]
    transactions = Transactions(servers)
    async with group_traffic(servers, "groups", logs):
        running = asyncio.get_running_loop().create_task(asyncio.to_thread(transactions.run))
        try:
            yield transactions
        finally:
            transactions.enough.set()
            await running
    await asyncio.to_thread(transactions.check)


@pytest.mark.parametrize("version", RELEASES)
async def test_there_and_back_nobody_notices(tmp_path: Path, version: str) -> None:
    rng = random.Random(str(tmp_path))
    cluster = source(tmp_path / "c", runtime(version), rng, level=LEVELS.get(version))
    async with cluster, at_work(cluster) as transactions:
        said = await cluster.write_settings()
        assert "Nothing stands in the way" in said, said
        await there(cluster)
        committed = len(transactions.committed)
        await topics_are_created(cluster, "under-ours")
        await back(cluster)
        await topics_are_created(cluster, "under-kafkas")
        assert len(transactions.committed) > committed > 0
        no_broker_was_fenced_by_ours(cluster)

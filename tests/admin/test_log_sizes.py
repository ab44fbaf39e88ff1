"""What a plan would copy, in bytes, as the brokers that are alive say it."""

from dataclasses import replace
from pathlib import Path

from admin.log_sizes import bytes_of, log_sizes
from admin.model import PartitionId
from admin.plans import Operation, PlannedPartition, PlanRequest, PlanResult
from quorum.transport.address import Address
from quorum.wire.apis import ApiKey
from tests.admin.embedded_brokers import embedded
from tests.admin.kafka_door.test_kafka_voters import client_of
from tests.broker.requests import batch
from tests.support.controllers import HOST
from tests.support.kafka_client import kafka_client


async def test_brokers_tell_how_large_their_logs_are_and_a_plan_how_much_it_copies(
    tmp_path: Path,
) -> None:
    records = batch(b"x" * 1_000)
    async with embedded(tmp_path, 101, 102) as cluster, client_of(cluster.node) as client:
        await client.create_topic("t", assignments={0: [101], 1: [101]})
        await cluster.produce(101, "t", records)
        await cluster.produce(101, "t", records)
        found = await log_sizes(client, {("t", 0), ("t", 1), ("gone", 0)})
        assert found == {("t", 0): 2 * len(records), ("t", 1): 0}
        assert await log_sizes(client, ()) == {}
        drained = await client.plan_moves(
            PlanRequest(operation=Operation.DRAIN, brokers=(101,), dry_run=True)
        )
        assert (drained.planned, await bytes_of(client, drained)) == (2, 2 * len(records))
        async with kafka_client(Address(HOST, cluster.brokers[101].port)) as broker:
            for version in (1, 4):
                answer = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
                (directory,) = answer.results
                assert directory.log_dir == str(tmp_path / "broker-101")
                ((topic, partitions),) = [(each.name, each.partitions) for each in directory.topics]
                assert (topic, [each.partition_size for each in partitions]) == (
                    "t",
                    [2 * len(records), 0],
                )
        strange = PlannedPartition(id=PartitionId("gone", 0), replicas=(101,), target=(102,))
        plan = PlanResult(planned=1, partitions=[strange])
        assert await bytes_of(client, plan) is None
        assert await bytes_of(client, replace(drained, planned=3)) is None

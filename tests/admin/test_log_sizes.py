"""The bytes that a plan would copy, as reported by the live brokers."""

from pathlib import Path

from msgspec.structs import replace

from admin.capabilities.decommission import DecommissionBrokers
from admin.capabilities.plan_steps import BytesMoved, PlannedPartition, PlanResult
from admin.client.log_sizes import bytes_at, bytes_of
from admin.model import PartitionId
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from tests.admin.cli.test_reassign_partitions import brokers
from tests.admin.embedded_brokers import embedded
from tests.admin.http.test_http_api import check_problem, http_door
from tests.broker.client_requests import batch
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import HOST
from tests.support.kafka_client import kafka_client

MOVES = "/v1/reassignments"


async def test_brokers_tell_how_large_their_logs_are_and_a_plan_how_much_it_copies(
    tmp_path: Path,
) -> None:
    records = batch(b"x" * 1_000)
    async with embedded(tmp_path, 101, 102) as cluster, client_of(cluster.node) as client:
        await client.create_topic("t", assignments={0: [101], 1: [101]})
        await cluster.produce(101, "t", records)
        await cluster.produce(101, "t", records)
        alive = [each.address for each in await client.brokers()]
        found = await bytes_at(alive, {PartitionId("t", 0): 3, PartitionId("t", 1): 1})
        assert found == BytesMoved(6 * len(records))
        unknown = await bytes_at(alive, {PartitionId("t", 0): 1, PartitionId("gone", 0): 1})
        assert unknown.bytes_moved is None
        assert "gone-0" in (unknown.bytes_moved_unknown or "")
        assert await bytes_at(alive, {}) == BytesMoved(0)
        drained = await client.ask(DecommissionBrokers(broker_ids=(101,), dry_run=True))
        assert drained.planned == 2
        assert await bytes_of(client, drained) == BytesMoved(2 * len(records))
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
        plan = PlanResult(planned=1, partitions=(strange,))
        told = await bytes_of(client, plan)
        assert told == BytesMoved(None, "no live broker reports the size of gone-0")
        more = await bytes_of(client, replace(drained, planned=3))
        assert more.bytes_moved_unknown == "the plan has more partitions than are listed"


async def test_over_http_a_dry_run_tells_how_much_it_copies_or_why_that_is_not_known(
    tmp_path: Path,
) -> None:
    records = batch(b"x" * 1_000)
    body = {"partitions": [{"topic": "t", "partition": 0, "replicas": [101, 102]}]}
    factor = {"topics": ["t"], "replication_factor": 2}
    tried = "?dry_run=true"
    async with (
        embedded(tmp_path, 101, 102) as cluster,
        client_of(cluster.node) as client,
        http_door(cluster.node) as http,
    ):
        await client.create_topic("t", assignments={0: [101]})
        await cluster.produce(101, "t", records)
        generated = await http.post(f"{MOVES}:generate", {"topics": ["t"], "brokers": [102]})
        emptied = await http._send("PUT", f"/v1/brokers/101/decommission{tried}")
        more = await http.post(f"{MOVES}:replication-factor{tried}", factor)
        asked = await http.post(f"{MOVES}{tried}", body)
        for answer in (generated, emptied, more):
            told = answer.body["outcome"]
            assert (told["bytes_moved"], told["bytes_moved_unknown"]) == (len(records), None)
        assert asked.body["bytes_moved"] == len(records)
        begun = await http.post(f"{MOVES}:replication-factor", factor)
        assert begun.body["outcome"]["bytes_moved_unknown"] == (
            "only a dry run asks the brokers for sizes"
        )


async def test_a_broker_that_does_not_answer_is_named_beside_an_unknown_size(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, {101: None, 102: None}) as node, http_door(node) as http:
        await asked(node.controller, topic("t", 101))
        body = {"partitions": [{"topic": "t", "partition": 0, "replicas": [101, 102]}]}
        told = (await http.post(f"{MOVES}?dry_run=true", body)).body
        assert told["bytes_moved"] is None
        words = "no live broker reports the size of t-0; "
        assert told["bytes_moved_unknown"].startswith(words)


async def test_the_bytes_of_brokers_are_asked_for_seldom_and_said_to_be_unknown(
    tmp_path: Path,
) -> None:
    records = batch(b"x" * 1_000)
    async with (
        embedded(tmp_path, 101, 102) as cluster,
        client_of(cluster.node) as client,
        http_door(cluster.node) as http,
    ):
        await client.create_topic("t", assignments={0: [101]})
        await cluster.produce(101, "t", records)
        await join(cluster.node.controller, 103)
        path = "/v1/brokers:stored-bytes?ids=103,101,102,104"
        told = (await http.get(path)).body["brokers"]
        assert [(each["broker_id"], each["stored_bytes"]) for each in told] == [
            (103, None),
            (101, len(records)),
            (102, 0),
            (104, None),
        ]
        reasons = [each["unknown"] for each in told]
        assert reasons == [
            "it is not alive, or has no listener of the protocol of this node",
            None,
            None,
            "it is not registered",
        ]
        await cluster.produce(101, "t", records)
        # The answer is used again: nobody can make a node ask its brokers all the time.
        assert (await http.get(path)).body["brokers"] == told
        for ids in ("", "101,101", "x", ",".join(map(str, range(51)))):
            check_problem(await http.get(f"/v1/brokers:stored-bytes?ids={ids}"), 400)

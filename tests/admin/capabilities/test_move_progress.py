"""Bytes left, rate and time of a move, from the logs of brokers to the client."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from admin.capabilities.moves import DescribedMove, DescribeMove
from admin.capabilities.quorum import TransferLead
from admin.cli.main import group
from admin.client.admin_client import AdminClient
from admin.model import Assignment
from admin.units import show_size
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.extension import Extension, with_extension
from quorum.transport.outcomes import RequestFailed
from statemachine import commands
from statemachine.limits import COPY_FALLS_BEHIND_MS
from statemachine.reassignment.copies import CopyReport
from statemachine.reassignment.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.admin.embedded_brokers import embedded
from tests.admin.http.test_http_api import http_door
from tests.broker.client_requests import batch
from tests.broker.embedded_cluster import until
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, join, move, topic, topic_id
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import Node, a_controller, active, controllers
from tests.support.kafka_client import Form, kafka_client

BATCHES = 5
REPORT = CopyReport(topic_id=topic_id("a"), partition=0, bytes_left=5_000, bytes_per_s=250)


async def move_of(client: AdminClient) -> DescribedMove:
    """Move 1, with its partitions."""
    return await client.ask(DescribeMove(move_id=1))


async def test_brokers_say_how_much_of_a_replica_is_left_to_copy(tmp_path: Path) -> None:
    """The new replica may copy one batch, and then, at a byte a second, no more for long.

    It lacks heavier records than it has received: the leader knows how heavy they are.
    """
    heavy = batch(b"x" * 10_000)
    left = (BATCHES - 1) * len(heavy)
    async with embedded(tmp_path, 101, 102) as cluster, client_of(cluster.node) as client:
        await client.create_topic("t", assignments={0: [101]})
        for records in (batch(b"x" * 1_000), *[heavy] * (BATCHES - 1)):
            await cluster.produce(101, "t", records)
        await client.alter_configs(BROKER_RESOURCE, "102", {FOLLOWER_RATE: "1"})
        await client.alter_configs(TOPIC_RESOURCE, "t", {FOLLOWER_REPLICAS: "*"})
        throttle = cluster.brokers[102].manager.throttles.follower
        await until(lambda: throttle.rate_bytes_per_s == 1)
        await client.alter_reassignments([Assignment(topic="t", partition=0, replicas=(102,))])
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (found := await move_of(client)).bytes_left != left:
                pass
        (partition,) = found.partitions
        assert partition.bytes_left == left
        # The first answer, which a throttle lets through whole, is no rate.
        assert (found.bytes_per_s, found.time_left_ms) == (0, None)
        shown = await asyncio.to_thread(shown_by_command, cluster.node)
        assert f"Left to copy: {show_size(left)}, at {show_size(0)}/s; time left: unknown." in shown
        await client.alter_configs(BROKER_RESOURCE, "102", {}, [FOLLOWER_RATE])
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := await move_of(client)).ended:
                pass
        assert (found.state, found.bytes_left, found.time_left_ms) == (
            "completed",
            None,
            None,
        )


def shown_by_command(node: Node) -> str:
    whom = ("--bootstrap-controller", str(node.address))
    return CliRunner().invoke(group, ["moves", "show", "1", *whom]).stdout


async def test_every_node_knows_the_reports_of_brokers_until_the_lead_is_lost(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101))
        await asked(leader.controller, move("a", 102))
        await say(leader, REPORT)
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            found = await move_of(client)
            told = (found.bytes_left, found.bytes_per_s, found.partitions_bytes_unknown)
            assert told == (
                5_000,
                250,
                0,
            )
            assert (found.time_left_ms, found.partitions[0].time_left_ms) == (20_000, 20_000)
            (listed,) = await client.list_reassignments()
            assert (listed.bytes_left, listed.bytes_per_s) == (5_000, 250)
            await until(lambda: bool(other.controller.image.moves))
            stale = await client.ask(DescribeMove(move_id=1), stale=True)
            assert (stale.bytes_left, stale.partitions_bytes_unknown) == (None, 1)
            await client.ask(TransferLead(to=other.node_id))
            await active(nodes.values())
            after = await move_of(client)
            assert (after.bytes_left, after.partitions[0].bytes_left) == (None, None)
            (listed,) = await client.list_reassignments()
            assert (listed.bytes_left, listed.bytes_per_s) == (None, None)


async def test_an_operator_sees_that_a_move_never_ends_at_its_throttle(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1) as nodes:
        node = await active(nodes.values())
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101))
        await asked(node.controller, move("a", 102))
        await asked(node.controller, commands.AlterMove(move_id=1, throttle_bytes_per_s=250))
        sessions = node.controller.heartbeats
        assert sessions is not None
        now_ms = node.controller._clock()
        for at_ms in range(now_ms - COPY_FALLS_BEHIND_MS, now_ms + 1, 5_000):
            written = replace(REPORT, log_bytes=10**9 + 1_000 * (at_ms - now_ms))
            sessions.copies.reported(101, [written], at_ms)
            sessions.copies.reported(102, [replace(REPORT, log_bytes=5_000)], at_ms)
        words = "more is written than is copied, so that it never is in sync: 102"
        async with client_of(node) as client, http_door(node) as http:
            found = await move_of(client)
            (listed,) = await client.list_reassignments()
            told = (await http.get("/v1/reassignments/1")).body
        assert (found.partitions_falling_behind, found.time_left_ms) == (1, None)
        (partition,) = found.partitions
        assert (partition.reason, partition.reason_brokers) == ("falling-behind", (102,))
        assert partition.detail == f"{words}; the move is throttled to 250 bytes/s"
        assert (listed.reason, listed.detail) == (partition.reason, partition.detail)
        assert told["partitions_falling_behind"] == 1
        assert told["partitions"][0]["reason"] == "falling-behind"
        shown = await asyncio.to_thread(shown_by_command, node)
        assert "1 partition(s) fall behind: writes exceed the copy rate." in shown
        assert words in shown


async def test_a_heartbeat_with_a_broken_report_ends_its_connection_and_nothing_else(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        form, body = heartbeat(node, REPORT)
        # The rate is the last field.
        negative = body[:-8] + b"\xff" * 8
        async with kafka_client(node.address) as client:
            with pytest.raises(RequestFailed):
                await client.send_bytes(form, negative)
        async with kafka_client(node.address) as client:
            assert not (await client.send_bytes(form, body)).error_code


def heartbeat(leader: Node, report: CopyReport) -> tuple[Form, bytes]:
    """One of broker 102 with this report."""
    form = Form(ApiKey.BROKER_HEARTBEAT, 1)
    beat = form.request(
        broker_id=102,
        broker_epoch=leader.controller.image.brokers[102].broker_epoch,
        current_metadata_offset=leader.controller.image.end_offset,
        want_fence=False,
        want_shut_down=False,
    )
    schema = codec.request_schema(form.api_key, form.version)
    return form, with_extension(schema, form.body(beat), Extension.with_details([report]))


async def say(leader: Node, report: CopyReport) -> None:
    """Broker 102 sends a heartbeat with this report."""
    async with kafka_client(leader.address) as client:
        assert not (await client.send_bytes(*heartbeat(leader, report))).error_code

"""Kafka brokers copy at the rate of a move; no throttle stays while one of them is down."""

import asyncio
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from admin.model import Assignment
from statemachine import commands
from statemachine.image.image import Image
from statemachine.reassignment.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.controller.controller_commands import asked
from tests.process.joining_nodes import nap
from tests.process.kafka_foreign_records import configs, write
from tests.process.one_kafka_broker import BROKER_ID, PATIENCE_SECONDS, KafkaBroker
from tests.process.two_kafka_brokers import (
    BYTES_PER_S,
    RELEASES,
    SECOND,
    VALUE_BYTES,
    VALUES,
    TwoBrokers,
    two_kafka_brokers,
)
from tests.support.controllers import Node

pytestmark = pytest.mark.process

RATE = str(BYTES_PER_S)
FETCHES_MAX = 2
BATCH_BYTES_MAX = VALUE_BYTES + 1_000
"""A batch of `fill` is so large that a fetch brings one (`replica.fetch.max.bytes`)."""


async def until_rate_is(broker: KafkaBroker, broker_id: int, name: str, rate: str | None) -> None:
    """Wait until the broker goes by this rate of its own; None is none."""
    found: str | None = ""
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        AdminClient([broker.address], is_controller=False) as client,
    ):
        while found != rate:
            assert broker.process.returncode is None, broker.said[-3_000:]
            listed = await client.describe_configs(BROKER_RESOURCE, str(broker_id))
            found = next((each.value for each in listed if each.name == name), None)
            await nap()


@pytest.mark.parametrize(("version", "level"), RELEASES)
async def test_brokers_throttle_what_a_controller_tells_them_to(
    version: str, level: int, tmp_path: Path
) -> None:
    """KIP-73: a rate of a broker and replicas of a topic, of leaders or followers, are enough.

    The rates and lists stand in the log as any controller may write them. Of three moves alike, the
    one that is not throttled ends; one fetch of each of the others passes, and the rest would take
    minutes. Once the records are taken back, they end at once.
    """
    async with two_kafka_brokers(tmp_path, version, level) as it:
        await it.fill("free", "leader", "follower")
        await throttle(it)
        async with AdminClient([it.first.address], is_controller=False) as client:
            plan = [
                Assignment(topic=each, partition=0, replicas=(BROKER_ID, SECOND))
                for each in ("leader", "follower", "free")
            ]
            results = await client.alter_reassignments(plan)
            assert {each.kafka_error_code for each in results} == {0}

        await it.until_copied("free")
        for side, broker_id, rate, replicas in (
            ("leader", BROKER_ID, LEADER_RATE, LEADER_REPLICAS),
            ("follower", SECOND, FOLLOWER_RATE, FOLLOWER_REPLICAS),
        ):
            assert it.partition(side).isr == (BROKER_ID,)
            no_rate = configs({rate: None}, str(broker_id))
            write(it.node, (*no_rate, *configs({replicas: None}, side, TOPIC_RESOURCE)))
            await it.until_copied(side)
        it.check_complaints()


async def throttle(it: TwoBrokers) -> None:
    """Throttle leaders of one topic and followers of another; return when both know."""
    write(
        it.node,
        (
            *configs({LEADER_REPLICAS: "*"}, "leader", TOPIC_RESOURCE),
            *configs({FOLLOWER_REPLICAS: f"0:{SECOND}"}, "follower", TOPIC_RESOURCE),
            *configs({LEADER_RATE: RATE}, str(BROKER_ID)),
            *configs({FOLLOWER_RATE: RATE}, str(SECOND)),
        ),
    )
    await until_rate_is(it.first, BROKER_ID, LEADER_RATE, RATE)
    await until_rate_is(it.second, SECOND, FOLLOWER_RATE, RATE)


def throttles(image: Image) -> dict[tuple[int, str], list[str]]:
    """The throttle configurations by resource."""
    found = {
        resource: sorted(name for name in configs if ".throttled." in name)
        for resource, configs in image.configs.items()
    }
    return {resource: names for resource, names in found.items() if names}


async def begin(node: Node, topic: str, bytes_per_s: int = 0) -> int:
    """The topic gets a replica on the second broker; returns which move that is."""
    whither = commands.Reassignment(topic=topic, partition=0, replicas=(BROKER_ID, SECOND))
    command = commands.BeginMove(reassignments=(whither,), throttle_bytes_per_s=bytes_per_s)
    started = await asked(node.controller, command)
    assert isinstance(started, commands.MoveStarted)
    assert started.move_id
    return started.move_id


@pytest.mark.parametrize(("version", "level"), RELEASES)
async def test_a_throttled_move_leaves_no_throttle_on_a_broker_that_is_down(
    version: str, level: int, tmp_path: Path
) -> None:
    """Kafka's own tool asks every broker to forget the rate, and waits for one that is down.

    Of three moves alike the one that is not throttled ends; the rest of the others would take
    minutes. One of them is let go, and ends at once; then the second broker dies and is fenced, the
    other one is cancelled, and the first broker knows no rate any more.
    """
    async with two_kafka_brokers(tmp_path, version, level) as it:
        node = it.node
        await it.fill("free", "let-go", "cancelled")
        slow = [await begin(node, topic, BYTES_PER_S) for topic in ("let-go", "cancelled")]
        await begin(node, "free")
        await it.until_copied("free")
        assert it.partition("let-go").isr == it.partition("cancelled").isr == (BROKER_ID,)
        await until_rate_is(it.first, BROKER_ID, LEADER_RATE, RATE)

        await asked(node.controller, commands.AlterMove(move_id=slow[0], throttle_bytes_per_s=0))
        await it.until_copied("let-go")
        assert it.partition("cancelled").isr == (BROKER_ID,)
        set_of_second = throttles(node.controller.image)[(BROKER_RESOURCE, str(SECOND))]
        assert set_of_second == [FOLLOWER_RATE, LEADER_RATE]

        it.second.process.kill()
        await it.second.process.wait()
        await asked(node.controller, commands.FenceBrokers(broker_ids=(SECOND,)))
        await asked(node.controller, commands.CancelMoves(moves=(slow[1],)))
        assert throttles(node.controller.image) == {}
        await until_rate_is(it.first, BROKER_ID, LEADER_RATE, None)
        it.check_complaints()


def copied_bytes(it: TwoBrokers, topic: str) -> int:
    """The bytes that the second broker has of the topic."""
    return sum(each.stat().st_size for each in it.second.storage.glob(f"**/{topic}-0/*.log"))


@pytest.mark.parametrize(("version", "level"), RELEASES)
async def test_a_pause_stops_the_copying_of_brokers_until_it_ends(
    version: str, level: int, tmp_path: Path
) -> None:
    """Of two moves alike, without throttles, one is paused as soon as it has begun.

    The other one ends. Until it knows of the pause the broker may send two fetches, which bring one
    batch each.
    """
    async with two_kafka_brokers(tmp_path, version, level) as it:
        node = it.node
        await it.fill("still", "free")
        still = await begin(node, "still")
        await asked(node.controller, commands.PauseMoves(moves=(still,)))
        await begin(node, "free")
        await it.until_copied("free")
        await until_rate_is(it.second, SECOND, FOLLOWER_RATE, "0")
        assert throttles(node.controller.image) == {
            (TOPIC_RESOURCE, "still"): [FOLLOWER_REPLICAS, LEADER_REPLICAS],
            (BROKER_RESOURCE, str(BROKER_ID)): [LEADER_RATE],
            (BROKER_RESOURCE, str(SECOND)): [FOLLOWER_RATE],
        }
        assert copied_bytes(it, "free") > VALUES * VALUE_BYTES
        assert copied_bytes(it, "still") <= FETCHES_MAX * BATCH_BYTES_MAX
        assert it.partition("still").isr == (BROKER_ID,)

        await asked(node.controller, commands.PauseMoves(moves=(still,), paused=False))
        await it.until_copied("still")
        assert throttles(node.controller.image) == {}
        await until_rate_is(it.second, SECOND, FOLLOWER_RATE, None)
        it.check_complaints()

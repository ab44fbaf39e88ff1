"""Brokers that copy at a limited rate (KIP-73), with real logs and sockets: both sides of it.

The rates are so small that nothing, or one batch, passes while a test runs: what is held back can
be told from what is only late by another partition of the same two brokers that goes on.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.apis.fetch import DelayedFetch
from statemachine.commands import (
    ConfigChange,
    ConfigOp,
    ConfigOperation,
    IncrementalAlterConfigs,
)
from statemachine.reassignment.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE, Resource
from tests.broker.client_requests import batch, produce
from tests.broker.embedded_cluster import Brokers, cluster, until

LEADER, FOLLOWER = 1, 2
THROTTLED, FREE = 0, 1
"""Partitions of one topic."""
SIDES = {
    "leader": (LEADER, LEADER_RATE, LEADER_REPLICAS),
    "follower": (FOLLOWER, FOLLOWER_RATE, FOLLOWER_REPLICAS),
}


def configure(brokers: Brokers, resource: Resource, name: str, value: str | None) -> None:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    op = ConfigOp(name=name, operation=operation, value=value)
    change = ConfigChange(resource_type=resource[0], resource_name=resource[1], ops=(op,))
    answer = brokers.controller.decide(IncrementalAlterConfigs(changes=(change,)))
    assert not answer.resources[0].error.code, answer


def throttle(brokers: Brokers, side: str, rate: str, replicas: str | None = None) -> None:
    """One partition of topic "t" on one side, or those that `replicas` names."""
    broker_id, rate_name, replicas_name = SIDES[side]
    named = f"{THROTTLED}:{broker_id}" if replicas is None else replicas
    configure(brokers, (TOPIC_RESOURCE, "t"), replicas_name, named)
    configure(brokers, (BROKER_RESOURCE, str(broker_id)), rate_name, rate)


def log_end(brokers: Brokers, number: int) -> int:
    return brokers[FOLLOWER].partition("t", number).log_end


def parked(brokers: Brokers) -> list[DelayedFetch]:
    """The fetches of the follower that its leader keeps."""
    return [each for each in brokers[LEADER].fetch_api.delayed if each.is_replica]


@asynccontextmanager
async def behind(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Two partitions of three batches each, which the follower, about to start, lacks."""
    async with cluster(tmp_path, LEADER, FOLLOWER) as brokers:
        await brokers.create("t", (LEADER, FOLLOWER), (LEADER, FOLLOWER))
        await brokers.stop(FOLLOWER)
        brokers.controller.fence(FOLLOWER)
        for number in (THROTTLED, FREE):
            for value in (b"a", b"b", b"c"):
                assert (
                    await produce(brokers[LEADER], "t", batch(value), number=number)
                ) is not None
        yield brokers


@pytest.mark.parametrize("side", SIDES)
async def test_a_throttled_partition_waits_and_another_one_does_not(
    tmp_path: Path, side: str
) -> None:
    async with behind(tmp_path) as brokers:
        throttle(brokers, side, "0")
        await brokers.start(FOLLOWER)
        await until(lambda: brokers.controller.of("t", FREE).isr == (LEADER, FOLLOWER))
        for value in (b"d", b"e"):
            await produce(brokers[LEADER], "t", batch(value), number=FREE)
        assert (log_end(brokers, FREE), log_end(brokers, THROTTLED)) == (5, 0)
        assert brokers.controller.of("t", THROTTLED).isr == (LEADER,)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", [BROKER_RESOURCE, TOPIC_RESOURCE])
async def test_a_partition_is_copied_at_full_speed_once_its_throttle_ends(
    tmp_path: Path, side: str, kind: int
) -> None:
    async with behind(tmp_path) as brokers:
        throttle(brokers, side, "0")
        await brokers.start(FOLLOWER)
        await until(lambda: log_end(brokers, FREE) == 3 and bool(parked(brokers)))
        for each in parked(brokers):
            # Nobody waits for the end of its time.
            each.deadline_ms += 60_000
        assert log_end(brokers, THROTTLED) == 0
        broker_id, rate, replicas = SIDES[side]
        if kind == TOPIC_RESOURCE:
            configure(brokers, (TOPIC_RESOURCE, "t"), replicas, None)
        else:
            configure(brokers, (BROKER_RESOURCE, str(broker_id)), rate, None)
        await until(lambda: brokers.controller.of("t", THROTTLED).isr == (LEADER, FOLLOWER))
        assert log_end(brokers, THROTTLED) == 3


@pytest.mark.parametrize("side", SIDES)
async def test_in_sync_followers_are_never_throttled(tmp_path: Path, side: str) -> None:
    async with cluster(tmp_path, LEADER, FOLLOWER) as brokers:
        await brokers.create("t", (LEADER, FOLLOWER))
        throttle(brokers, side, "0", "*")
        for place, value in enumerate((b"a", b"b", b"c")):
            assert (await produce(brokers[LEADER], "t", batch(value))).base_offset == place
        assert log_end(brokers, THROTTLED) == 3


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_one_batch_passes_whatever_the_rate_and_then_no_more(
    side: str, tmp_path: Path
) -> None:
    """KIP-74 holds under a throttle as well. A leader without one would send all three batches."""
    async with behind(tmp_path) as brokers:
        throttle(brokers, side, "1")
        await brokers.start(FOLLOWER)
        await until(lambda: log_end(brokers, THROTTLED) == 1)
        await produce(brokers[LEADER], "t", batch(b"d"), number=FREE)
        await until(lambda: log_end(brokers, FREE) == 4)
        await until(lambda: bool(parked(brokers)))
        assert log_end(brokers, THROTTLED) == 1


async def test_a_follower_that_has_caught_up_joins_the_isr_whatever_it_owes(tmp_path: Path) -> None:
    """It says to the leader that it has everything by the fetch after; that one brings nothing."""
    async with behind(tmp_path) as brokers:
        throttle(brokers, "follower", str(2 * len(batch(b"a")) + 1))
        await brokers.start(FOLLOWER)
        await until(lambda: brokers.controller.of("t", THROTTLED).isr == (LEADER, FOLLOWER))


async def test_the_debt_of_one_throttled_partition_delays_another(
    tmp_path: Path,
) -> None:
    """All throttled partitions of a broker share its rate."""
    async with behind(tmp_path) as brokers:
        throttle(brokers, "leader", "1", "*")
        await brokers.start(FOLLOWER)
        await until(lambda: log_end(brokers, THROTTLED) + log_end(brokers, FREE) == 1)
        await until(lambda: bool(parked(brokers)))
        assert log_end(brokers, THROTTLED) + log_end(brokers, FREE) == 1

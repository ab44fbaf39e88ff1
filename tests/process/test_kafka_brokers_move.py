"""Kafka's own brokers in moves that go step by step, looked after with Kafka's own tools.

They know nothing of steps: to them each is a reassignment of its own. One cluster for each release;
every test leaves it whole, and what its controllers have written is judged when it ends.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from controller.move_requests import OngoingReassignment
from tests.process.kafka_operator import PATIENCE_SECONDS, Operator, operator, until
from tests.process.kafka_traffic import UNMODIFIED_CLIENTS
from tests.support.kafka_tools import VERSIONS

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    *UNMODIFIED_CLIENTS,
]

PARTITIONS: Final = 6
BYTES_EACH: Final = 224 * 1024
AT_ONCE: Final = 2
TIGHT: Final = "1000"
"""Bytes a second: of a copy one bite passes, and no more for half a minute."""
WIDE: Final = "100000000"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=VERSIONS)
async def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Operator]:
    """A cluster whose moves add one replica at a time to a partition, to two partitions at once."""
    async with operator(tmp_path_factory.mktemp("moves"), request.param) as it:
        await it.it.limit(replicas=1, partitions=AT_ONCE)
        yield it


async def begin(kafka: Operator, topic: str, plan: Path) -> int:
    """Have Kafka's tool begin it, so slowly that what is begun first stands still; its move."""
    said = await kafka.reassign(plan, "--execute", "--throttle", TIGHT)
    assert f"The inter-broker throttle limit was set to {TIGHT} B/s" in said
    await until_as_many_as_may(kafka, topic)
    return await kafka.it.last_move()


async def steps(kafka: Operator, topic: str) -> dict[int, OngoingReassignment]:
    """The reassignments of the topic by our client, step by step."""
    found = await kafka.it.client.list_reassignments()
    return {each.partition: each for each in found if each.topic == topic}


async def until_as_many_as_may(kafka: Operator, topic: str) -> dict[int, OngoingReassignment]:
    """The rest of the topic once two steps are in progress; there are never more."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await steps(kafka, topic)
            adding = [each.adding for each in found.values() if each.adding]
            assert all(len(each) == 1 for each in adding), found
            assert len(adding) <= AT_ONCE, found
            if len(adding) == AT_ONCE:
                return found


async def rest(
    kafka: Operator, topic: str, plan: Path, move: int
) -> dict[int, OngoingReassignment]:
    """Pause it and let what is under way come to its end; what waits then."""
    paused = await kafka.ours("moves", "pause", str(move), "--after-step")
    said = f"Move {move} paused after the steps in progress.\n"
    assert (paused.code, paused.out) == (0, said), paused
    # The same plan again is no other move; the tool only sets the throttle anew.
    wider = await kafka.reassign(plan, "--execute", "--additional", "--throttle", WIDE)
    assert f"The inter-broker throttle limit was set to {WIDE} B/s" in wider
    assert await kafka.it.last_move() == move
    assert (await kafka.it.until_at_rest(move)).state == "paused"
    waiting = await steps(kafka, topic)
    assert not any(each.adding or each.removing for each in waiting.values()), waiting
    # Of two the first step is done: who leads by preference is there, and nobody is gone yet.
    assert sorted(len(each.replicas) for each in waiting.values()) == [3] * 4 + [4] * AT_ONCE
    return waiting


async def resume(kafka: Operator, move: int) -> None:
    resumed = await kafka.ours("moves", "resume", str(move))
    assert (resumed.code, resumed.out) == (0, f"Move {move} resumed.\n"), resumed


async def test_a_plan_goes_in_batches_rests_and_is_completed_under_a_throttle_of_kafkas_tool(
    kafka: Operator,
) -> None:
    topic, cluster = "batched", kafka.it
    written = await cluster.place(topic, cluster.ring(PARTITIONS), BYTES_EACH)
    wanted = cluster.ring(PARTITIONS, turned=3)
    plan = kafka.plan(topic, wanted)
    async with cluster.flowing(topic, written):
        move = await begin(kafka, topic, plan)
        assert (await kafka.verify(plan)).count("is still in progress") == PARTITIONS
        waiting = await rest(kafka, topic, plan, move)
        # To Kafka's tools each is one reassignment until the last step of it is done.
        listed = await kafka.listed(topic)
        assert listed.keys() == waiting.keys()
        for number, each in listed.items():
            assert set(each.replicas) - set(each.removing) == set(wanted[number]), listed
            assert set(each.adding) == set(wanted[number]) - set(waiting[number].replicas), listed
        verified = await kafka.verify(plan)
        assert verified.count("is still in progress") == len(waiting) == PARTITIONS, verified
        shown = await kafka.ours("moves", "show", str(move))
        assert f"0 done, {PARTITIONS} waiting" in shown.out, shown
        assert shown.out.count("2 of 2") == AT_ONCE, shown
        await resume(kafka, move)
        ended = await cluster.until_ended(move)
        assert (ended.state, ended.completed) == ("completed", PARTITIONS), ended
        assert f"leader.replication.throttled.rate={WIDE}" in await kafka.throttles(topic)
        verified = await kafka.until_completed(plan, PARTITIONS)
        assert f"Clearing topic-level throttles on topic {topic}" in verified
        await kafka.until_throttles_are(topic, ())
    found = await kafka.until_described(
        topic, lambda rows: {n: row.replicas for n, row in rows.items()} == wanted
    )
    assert all(set(row.isr) == set(row.replicas) for row in found.values()), found
    await cluster.until_disks_agree(topic)


async def test_a_cancel_in_the_middle_leaves_each_partition_as_before_its_step(
    kafka: Operator,
) -> None:
    """Kafka's tool takes back all of it: what waits, and steps that only add, as the others."""
    topic, cluster = "cancelled", kafka.it
    written = await cluster.place(topic, cluster.ring(PARTITIONS), BYTES_EACH)
    plan = kafka.plan(topic, cluster.ring(PARTITIONS, turned=3))
    async with cluster.flowing(topic, written):
        move = await begin(kafka, topic, plan)
        await rest(kafka, topic, plan, move)
        await kafka.reassign(plan, "--execute", "--additional", "--throttle", TIGHT)
        await resume(kafka, move)
        before = await until_as_many_as_may(kafka, topic)
        # A cancel that would leave too few in sync is refused, and on a busy machine some fall out.
        await kafka.until_described(
            topic,
            lambda rows: all(
                {*each.replicas} - {*each.adding} <= {*rows[number].isr}
                for number, each in before.items()
            ),
        )
        await cluster.note_cancel(topic)
        said = await kafka.reassign(plan, "--cancel", "--preserve-throttles")
        names = ",".join(f"{topic}-{number}" for number in sorted(before))
        assert f"Successfully cancelled partition reassignments for: {names}\n" in said, said
        assert await kafka.listed(topic) == {}
        ended = await cluster.standing(move)
        assert (ended.state, ended.cancelled) == ("cancelled", len(before)), ended
        as_before = {
            number: tuple(id for id in each.replicas if id not in each.adding)
            for number, each in before.items()
        }
        found = await kafka.until_described(
            topic, lambda rows: {n: row.replicas for n, row in rows.items()} == as_before
        )
        assert all(row.leader in row.isr for row in found.values()), found
        said = await kafka.reassign(plan, "--cancel")
        assert "None of the specified partition reassignments are active." in said, said
        assert f"Clearing topic-level throttles on topic {topic}" in said
        await kafka.until_throttles_are(topic, ())
    await cluster.until_disks_agree(topic)


async def test_a_move_of_our_own_is_sent_elsewhere_and_rolled_back_and_leaves_no_throttle(
    kafka: Operator,
) -> None:
    """A move of our `reassign-partitions` is retargeted by a plan for Kafka's tool.

    The throttle is that of the first move, and goes with it: nobody asks for `--verify`.
    """
    topic, cluster = "elsewhere", kafka.it
    before = cluster.ring(PARTITIONS)
    written = await cluster.place(topic, before, BYTES_EACH)
    file = str(kafka.plan(topic, cluster.ring(PARTITIONS, turned=3)))
    async with cluster.flowing(topic, written):
        execute = ("--execute", "--throttle", TIGHT, "--reassignment-json-file", file)
        begun = await kafka.ours("reassign-partitions", *execute)
        assert begun.code == 0, begun
        first = await cluster.last_move()
        await until_as_many_as_may(kafka, topic)
        rate = f"leader.replication.throttled.rate={TIGHT}"
        await until(lambda: kafka.throttles(topic), lambda found: rate in found)

        # Of every other partition nobody wants the new replica any more.
        turned = cluster.ring(PARTITIONS, turned=2)
        wanted = {n: before[n][::-1] if n % 2 == 0 else turned[n] for n in before}
        await kafka.reassign(kafka.plan(topic, wanted), "--execute", "--additional")
        second = await cluster.last_move()
        assert (await cluster.until_ended(second)).state == "completed"
        assert (await cluster.standing(first)).state == "superseded"
        await kafka.until_throttles_are(topic, ())
        assert await cluster.layout(topic) == wanted
        await cluster.until_disks_agree(topic)

        back = await kafka.ours("moves", "rollback", str(second))
        assert f" rolls back move {second}: {PARTITIONS} partition(s)." in back.out, back
        await cluster.note_plans()
        assert (await cluster.until_ended(await cluster.last_move())).state == "completed"
    await kafka.until_described(
        topic, lambda rows: {n: row.replicas for n, row in rows.items()} == before
    )
    await cluster.until_disks_agree(topic)

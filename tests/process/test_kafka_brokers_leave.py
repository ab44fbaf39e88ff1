"""Kafka's own brokers that die, are emptied and forgotten, as Kafka's own tools tell of them.

One cluster; every test leaves it whole, and what its controllers have written is judged when it
ends.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from admin.capabilities.brokers import DescribeBroker
from admin.capabilities.moves import whole_plan
from admin.tools.demo.workload import balance, read_back
from admin.tools.local_plan import NodePlan, log_dir
from broker.storage.log_dir import partition_folders
from statemachine.reassignment.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from statemachine.vocabulary import BROKER_RESOURCE, NO_LEADER, TOPIC_RESOURCE
from tests.process.kafka_operator import PATIENCE_SECONDS, Operator, operator, until
from tests.process.kafka_traffic import UNMODIFIED_CLIENTS

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    *UNMODIFIED_CLIENTS,
]

PARTITIONS: Final = 6
BYTES_EACH: Final = 112 * 1024
TIGHT: Final = "1000"
"""Bytes a second: no copy is complete for minutes."""
WIDE: Final = "100000000"
NOT_FINISHED: Final = 3
READ_BACK_MS: Final = 60_000
RESTART_MS: Final = 180_000
"""It is up once it sees all others, one of which stands still meanwhile."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Operator]:
    async with operator(tmp_path_factory.mktemp("care"), "4.2.0") as it:
        await it.it.limit(replicas=1, partitions=2)
        yield it


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _nothing_is_left(kafka: Operator) -> AsyncIterator[None]:
    """A broker that is emptied gives up what other tests have left on it as well, and a cancel of
    that is one that nobody has noted, and may stop between two steps, with a replica too many."""
    yield
    for name in await kafka.it.client.describe_topics():
        if not name.startswith("__"):
            await kafka.it.client.delete_topic(name)


async def test_a_broker_that_is_killed_is_fenced_and_the_move_rests_until_it_is_back(
    kafka: Operator,
) -> None:
    topic, cluster = "fenced", kafka.it
    before = cluster.ring(PARTITIONS)
    written = await cluster.place(topic, before, BYTES_EACH)
    wanted = cluster.ring(PARTITIONS, turned=3)
    plan = kafka.plan(topic, wanted)
    async with cluster.flowing(topic, written):
        await kafka.reassign(plan, "--execute", "--throttle", TIGHT)
        move = await cluster.last_move()
        killed = await cluster.a_leader_of(topic)
        await cluster.cluster.kill(killed.name)
        await cluster.until_without(killed)
        await kafka.until_state_is(killed, "fenced")
        server = next(node for node in cluster.cluster.plan.brokers if node != killed)
        rows = await kafka.until_described(
            topic,
            lambda rows: all(row.leader not in (killed.id, None) for row in rows.values()),
            server,
        )
        hurt = {number for number, replicas in before.items() if killed.id in replicas}
        assert all(killed.id not in row.isr for row in rows.values()), rows
        under = await kafka.described(topic, "--under-replicated-partitions", server=server)
        assert hurt <= under.keys()
        assert await kafka.described(topic, "--unavailable-partitions", server=server) == {}
        resting = await cluster.standing(move)
        assert resting.state == "paused-by-itself", resting
        assert "in sync, and min ISR is 2" in (await kafka.ours("moves", "show", str(move))).out

        await cluster.cluster.restart(killed.name)
        await kafka.until_state_is(killed, "unfenced")
        await kafka.reassign(plan, "--execute", "--additional", "--throttle", WIDE)
        ended = await cluster.until_ended(move)
        assert (ended.state, ended.completed) == ("completed", PARTITIONS), ended
    await kafka.until_completed(plan, PARTITIONS)
    assert await cluster.layout(topic) == wanted


async def test_a_broker_is_emptied_stopped_forgotten_and_welcome_again(kafka: Operator) -> None:
    topic, cluster = "drained", kafka.it
    written = await cluster.place(topic, cluster.ring(PARTITIONS), BYTES_EACH)
    leaving = cluster.cluster.plan.brokers[-1]
    id = str(leaving.id)
    async with cluster.flowing(topic, written):
        emptied = await until_done(kafka, "decommission", "--brokers", id)
        assert emptied.endswith(f"Broker {id}: no replicas left.\n")
        for name in await cluster.client.describe_topics():
            await kafka.until_described(
                name, lambda rows: all(leaving.id not in row.replicas for row in rows.values())
            )
        await cluster.note_plans()
        await until_nothing_is_on(kafka, leaving)
        alive = await kafka.ours("brokers", "decommission", "--brokers", id, "--unregister")
        assert (alive.code, "not unregistered: stop them first" in alive.err) == (
            NOT_FINISHED,
            True,
        )
        await cluster.shut_down(leaving)
        gone = await until_done(kafka, "decommission", "--brokers", id, "--unregister")
        assert gone.endswith(f"Broker {id}: not registered.\n")
        await until(kafka.states, lambda states: leaving.id not in states)
        # It registers anew, and the cordon went with its registration.
        await cluster.cluster.restart(leaving.name)
        await kafka.until_state_is(leaving, "unfenced")
        found = await cluster.client.ask(DescribeBroker(broker_id=leaving.id))
        assert not found.cordoned


async def test_a_broker_that_is_being_emptied_is_taken_back_and_keeps_what_it_has(
    kafka: Operator,
) -> None:
    """Copies are held up by throttles of the test; who was given a part of one gives it up."""
    topic, cluster = "taken-back", kafka.it
    before = cluster.ring(PARTITIONS)
    written = await cluster.place(topic, before, BYTES_EACH)
    staying = cluster.cluster.plan.brokers[-1]
    id = str(staying.id)
    layouts = {name: await cluster.layout(name) for name in await cluster.client.describe_topics()}
    async with cluster.flowing(topic, written):
        await cluster.client.alter_configs(TOPIC_RESOURCE, topic, {FOLLOWER_REPLICAS: "*"})
        for broker in cluster.brokers:
            rate = {FOLLOWER_RATE: TIGHT}
            await cluster.client.alter_configs(BROKER_RESOURCE, str(broker), rate)
        begun = await kafka.ours("brokers", "decommission", "--brokers", id)
        assert begun.code == NOT_FINISHED, begun
        steps = await until(
            cluster.client.list_reassignments,
            lambda found: any(each.adding and each.topic == topic for each in found),
        )
        listed = await kafka.listed(topic)
        assert listed.keys() == {each.partition for each in steps if each.topic == topic}
        assert all(each.removing == (staying.id,) for each in listed.values()), listed
        await cluster.note_plans()
        # Of other topics it may be on its way to give up something, too.
        plan = await whole_plan(cluster.client.ask, await cluster.last_move())
        for each in sorted({topic, *(id.topic for id in plan.targets)}):
            await cluster.note_cancel(each)
        undone = await kafka.ours("brokers", "recommission", "--brokers", id)
        assert undone.code == 0, undone
        assert f"Uncordoned: {id}." in undone.out, undone
        assert await kafka.listed(topic) == {}
        await kafka.until_described(
            topic, lambda rows: {n: row.replicas for n, row in rows.items()} == before
        )
        await cluster.client.alter_configs(TOPIC_RESOURCE, topic, {}, [FOLLOWER_REPLICAS])
        for broker in cluster.brokers:
            await cluster.client.alter_configs(BROKER_RESOURCE, str(broker), {}, [FOLLOWER_RATE])
        # What another topic's steps had brought in by then has stayed.
        for name, layout in layouts.items():
            if await cluster.layout(name) != layout:
                await cluster.until_ended(await cluster.begin(name, layout))
    await cluster.until_disks_agree(topic)


async def test_a_dead_broker_is_emptied_and_forgotten_by_one_command(kafka: Operator) -> None:
    """Nobody has to bring it back first; comes it back all the same, it is new and empty."""
    topic, cluster = "buried", kafka.it
    written = await cluster.place(topic, cluster.ring(PARTITIONS), BYTES_EACH)
    dead = cluster.cluster.plan.brokers[0]
    id = str(dead.id)
    async with cluster.flowing(topic, written):
        await cluster.cluster.kill(dead.name)
        await cluster.until_without(dead)
        gone = await until_done(kafka, "decommission", "--brokers", id, "--unregister")
        assert gone.endswith(f"Broker {id}: not registered.\n"), gone
        await cluster.note_plans()
        await until(kafka.states, lambda states: dead.id not in states)
        left = await cluster.layout(topic)
        assert not any(dead.id in replicas for replicas in left.values()), left
        await cluster.cluster.restart(dead.name)
        await kafka.until_state_is(dead, "unfenced")
    await until_nothing_is_on(kafka, dead)


async def until_done(kafka: Operator, *arguments: str) -> str:
    """The output of the first call of `metaquorum brokers` that finds nothing left to do."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (done := await kafka.ours("brokers", *arguments)).code == NOT_FINISHED:
            assert kafka.it.cluster.ended.empty()
    assert done.code == 0, done
    return done.out


async def until_nothing_is_on(kafka: Operator, node: NodePlan) -> None:
    """The broker has given up the folders of all partitions."""
    folder = log_dir(kafka.it.cluster.folder, node)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while partition_folders(folder):
            await kafka.it.client.describe_quorum()


async def test_an_eligible_replica_leads_without_loss_once_the_last_in_sync_one_is_gone(
    kafka: Operator,
) -> None:
    """KIP-966: under min ISR the one who leaves stays eligible; nobody else is elected."""
    topic, cluster = "eligible", kafka.it
    first, second, third, other = cluster.cluster.plan.brokers
    written = await cluster.place(topic, {0: (first.id, second.id, third.id)}, BYTES_EACH)
    await cluster.cluster.kill(third.name)
    await kafka.until_described(topic, lambda rows: third.id not in rows[0].isr, other)
    await cluster.write(topic, written, BYTES_EACH)

    cluster.signal(second, signal.SIGSTOP)
    async with asyncio.TaskGroup() as tasks:
        try:
            # A tool would be sent on to it, as long as it counts as alive.
            await cluster.until_without(second)
            below = await kafka.until_described(
                topic, lambda rows: rows[0].isr == (first.id,), other
            )
            assert below[0].elr == (second.id,), below
            await cluster.cluster.kill(first.name)
            await cluster.until(lambda topics: topics[topic].partitions[0].leader == NO_LEADER)
            nobody = await kafka.until_described(topic, lambda rows: rows[0].leader is None, other)
            assert set(nobody[0].elr) == {first.id, second.id}, nobody
            # It lives, and has not all that was acknowledged.
            tasks.create_task(cluster.cluster.restart(third.name, within_ms=RESTART_MS))
            await until_unfenced(kafka, third, other)
            still = await kafka.described(topic, server=other)
            assert still[0].leader is None, still
        finally:
            cluster.signal(second, signal.SIGCONT)
    led = await kafka.until_described(topic, lambda rows: rows[0].leader is not None, other)
    assert led[0].leader == second.id, led
    await cluster.cluster.restart(first.name)
    await cluster.until_whole()
    whole = await kafka.until_described(topic, lambda rows: len(rows[0].isr) == 3, other)
    assert whole[0].elr == (), whole
    found = await read_back(cluster.cluster.brokers, topic, written, READ_BACK_MS)
    result = balance(zip(written, found, strict=True))
    assert result.fault is None, result.fault
    assert result.acknowledged > 0


async def until_unfenced(kafka: Operator, node: NodePlan, server: NodePlan) -> None:
    """The broker is alive, as the controllers say."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while node.id not in [each.id for each in await kafka.it.client.brokers()]:
            await kafka.run("kafka-cluster.sh", "cluster-id", server=server)

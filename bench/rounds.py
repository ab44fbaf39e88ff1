"""The steps of a round on one cluster, one for each figure, and their times.

The clients are ours and use only the listeners of the brokers, so the two sides differ only in
their controllers.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from admin.client.admin_client import AdminClient, AdminError
from admin.client.producer import Producer
from admin.model import Assignment, TopicDescription
from admin.tools.local_plan import NodePlan
from bench import machine
from bench.faults import RunFailed
from bench.first_records import FirstRecords
from bench.rival_processes import POLL_MS, RivalCluster, until
from bench.silence import SteadyProducer

TOPIC_PARTITIONS: Final = 100
TOPICS: Final = 3
"""The topics that are created in sequence in each round, after a warm-up topic."""
STEADY_PARTITIONS: Final = 6
MOVED_PARTITIONS: Final = 200
SETTLE_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 20.0
QUIET_SECONDS: Final = 4.0
AFTER_SECONDS: Final = 2.0
WITHIN_MS: Final = 60_000

Found = Mapping[str, Sequence[float]]
"""Values by the key of the figure."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The cluster under test, and a client of its brokers."""

    cluster: RivalCluster
    admin: AdminClient


async def broker_start(subject: Subject) -> Found:
    """From the start of a fourth broker's process until the others know it as unfenced.

    Then the same for a broker that restarts at once: Kafka's controller refuses it until the
    session of its former incarnation has expired, even after a controlled shutdown.
    """
    cluster = subject.cluster
    running = {node.id for node in cluster.brokers}
    found = []
    for _ in ("new", "back"):
        begun = await cluster.spawn(cluster.spare)
        await cluster.wait_for_brokers({*running, cluster.spare.id})
        found.append(_since(begun))
        # A Kafka broker that is stopped before it serves skips the controlled shutdown.
        await cluster.wait_until_it_serves(cluster.spare)
        await cluster.stop(cluster.spare)
        await cluster.wait_for_brokers(running)
    return {"start": found[:1], "start-again": found[1:]}


async def topics(subject: Subject) -> Found:
    """From the request for a topic until each of its partitions has acknowledged a record."""
    found: dict[str, list[float]] = {"topic": [], "topic-answered": [], "topic-shown": []}
    async with contextlib.aclosing(FirstRecords()) as records:
        for turn in range(TOPICS + 1):
            answered, shown, produced = await _topic(subject, records, f"created-{turn}")
            if turn:
                found["topic-answered"].append(answered)
                found["topic-shown"].append(shown)
                found["topic"].append(produced)
    return found


async def idle(subject: Subject) -> Found:
    """Processor time of the controllers with no requests except those of the brokers."""
    await asyncio.sleep(SETTLE_SECONDS)
    pids = [subject.cluster.pid(node) for node in subject.cluster.controllers]
    before, begun = machine.used(pids), perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    used, seconds = machine.used(pids).since(before), perf_counter() - begun
    return {"idle": [sum(used.by_pid.values()) * 60 / seconds]}


async def reassignment(subject: Subject) -> Found:
    """Time from the request to move every partition until all are in place and no move is left."""
    ids = [node.id for node in subject.cluster.brokers]
    turns = [ids[at:] + ids[:at] for at in range(len(ids))]
    now = {number: turns[number % 3] for number in range(MOVED_PARTITIONS)}
    await subject.admin.create_topic(
        "moved", assignments={number: turn[:2] for number, turn in now.items()}
    )
    await _until_led(subject, "moved", MOVED_PARTITIONS)
    # Of [a, b, c]: a leads, b follows; afterwards b leads, c follows.
    plan = [
        Assignment(topic="moved", partition=number, replicas=(turn[1], turn[2]))
        for number, turn in now.items()
    ]
    begun = perf_counter()
    results = await subject.admin.alter_reassignments(plan)
    answered_ms = _since(begun)
    refused = [each for each in results if each.kafka_error_code]
    if refused or len(results) != len(plan):
        raise RunFailed(f"a move was refused: {refused[:1]}, {len(results)} results")

    async def in_place() -> bool:
        if await subject.admin.list_reassignments():
            return False
        topic = (await subject.admin.describe_topics(["moved"]))["moved"]
        return all(
            tuple(each.replicas) == wanted.replicas
            for each, wanted in zip(topic.partitions, plan, strict=True)
        )

    await until(in_place, "every partition is in place", within_ms=WITHIN_MS)
    return {"reassignment": [_since(begun)], "reassignment-answered": [answered_ms]}


async def controller_killed(subject: Subject) -> Found:
    """A producer's longest silence around a kill of the active controller, and the next topic.

    The step restarts the controller before it ends.
    """
    cluster = subject.cluster
    async with Producer(cluster.listeners) as producer, asyncio.TaskGroup() as tasks:
        steady = await _steady(subject, producer, "steady-controller")
        writing = tasks.create_task(steady.run())
        quiet_from = await _quiet(steady)
        active = await _active(subject)
        killed = await cluster.kill(active)
        await subject.admin.create_topic("created-again", partitions=1, replication_factor=3)
        again_ms = _since(killed)
        await asyncio.sleep(AFTER_SECONDS)
        silence_ms = steady.silence_ms(killed, perf_counter())
        quiet_ms = steady.silence_ms(quiet_from, killed)
        await _stop(writing)
    await cluster.spawn(active)
    await until(lambda: _follows(subject, active), f"{active.name} is back", within_ms=WITHIN_MS)
    return {
        "controller-killed": [silence_ms],
        "create-again": [again_ms],
        "quiet": [quiet_ms],
    }


async def broker_killed(subject: Subject) -> Found:
    """A producer's longest silence around a kill of a broker, which is not restarted."""
    cluster = subject.cluster
    dies = cluster.brokers[-1]
    async with Producer(cluster.listeners[:-1]) as producer, asyncio.TaskGroup() as tasks:
        steady = await _steady(subject, producer, "steady-broker")
        writing = tasks.create_task(steady.run())
        await _quiet(steady)
        killed = await cluster.kill(dies)
        await asyncio.sleep(AFTER_SECONDS)

        async def heard() -> bool:
            return steady.heard_since(perf_counter() - AFTER_SECONDS / 2)

        await until(heard, "every partition acknowledges writes again", within_ms=WITHIN_MS)
        await asyncio.sleep(AFTER_SECONDS)
        silence_ms = steady.silence_ms(killed, perf_counter())
        await _stop(writing)
    return {"broker-killed": [silence_ms]}


STEPS: Final[Mapping[str, Callable[[Subject], Awaitable[Found]]]] = {
    "start": broker_start,
    "topic": topics,
    "reassignment": reassignment,
    "idle": idle,
    "controller-killed": controller_killed,
    "broker-killed": broker_killed,
}
"""The steps in the order of a round; after the last one a broker is dead."""


async def _topic(subject: Subject, records: FirstRecords, name: str) -> tuple[float, float, float]:
    begun = perf_counter()
    await subject.admin.create_topic(name, partitions=TOPIC_PARTITIONS, replication_factor=3)
    answered_ms = _since(begun)
    topic = await _until_led(subject, name, TOPIC_PARTITIONS)
    shown_ms = _since(begun)
    await records.write(topic, {node.id: node.kafka for node in subject.cluster.brokers})
    return answered_ms, shown_ms, _since(begun)


async def _until_led(subject: Subject, name: str, partitions: int) -> TopicDescription:
    """Wait until every broker knows a leader of every partition; return the topic."""
    found = await asyncio.gather(
        *(_led_on(node, name, partitions) for node in subject.cluster.brokers)
    )
    return found[0]


async def _led_on(node: NodePlan, name: str, partitions: int) -> TopicDescription:
    async with (
        asyncio.timeout(WITHIN_MS / 1_000),
        AdminClient([node.kafka], is_controller=False) as client,
    ):
        while True:
            topic = (await client.describe_topics([name])).get(name)
            led = topic is not None and sum(each.leader >= 0 for each in topic.partitions)
            if topic is not None and led == partitions:
                return topic
            await asyncio.sleep(POLL_MS / 1_000)


async def _steady(subject: Subject, producer: Producer, topic: str) -> SteadyProducer:
    await subject.admin.create_topic(topic, partitions=STEADY_PARTITIONS, replication_factor=3)
    await _until_led(subject, topic, STEADY_PARTITIONS)
    return SteadyProducer(producer, topic, STEADY_PARTITIONS)


async def _quiet(steady: SteadyProducer) -> float:
    """Let the producer write for a while; return when it began in all partitions."""

    async def heard() -> bool:
        return steady.heard_since(0.0)

    await until(heard, "every partition acknowledges writes", within_ms=WITHIN_MS)
    await asyncio.sleep(AFTER_SECONDS)
    since = perf_counter()
    await asyncio.sleep(QUIET_SECONDS)
    return since


async def _active(subject: Subject) -> NodePlan:
    leader_id = (await subject.admin.describe_quorum()).leader_id
    (active,) = [node for node in subject.cluster.controllers if node.id == leader_id]
    return active


async def _follows(subject: Subject, node: NodePlan) -> bool:
    """True if a restarted controller has caught up with the leader."""
    try:
        quorum = await subject.admin.describe_quorum()
    except AdminError:
        return False
    ends = {each.id: each.log_end_offset for each in quorum.voters}
    return ends.get(node.id, -1) >= quorum.high_watermark > 0


async def _stop(writing: "asyncio.Task[None]") -> None:
    writing.cancel()
    await asyncio.wait({writing})


def _since(begun: float) -> float:
    return (perf_counter() - begun) * 1_000

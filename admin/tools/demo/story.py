"""The story itself, from the first process to the numbers at its end."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from admin.cli import quorum_text
from admin.cli import reassign_text as moves_text
from admin.client.admin_client import AdminClient
from admin.client.producer import Producer
from admin.model import Assignment, PartitionId, TopicDescription
from admin.tools.demo.observers import Copies, Succession, await_successor
from admin.tools.demo.screen import Moving, Screen
from admin.tools.demo.workload import Balance, Workload, balance, read_back
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import NodePlan
from admin.units import show_duration, show_size
from controller.quorum_description import QuorumDescription
from quorum.clocks import monotonic_ms

TOPIC: Final = "orders"
PARTITIONS: Final = 6
REPLICATION_FACTOR: Final = 3
LOAD_MS: Final = 4_000
LOADED_BYTES_MAX: Final = 192 * 1024 * 1024
"""As much as the machine writes in this time: moving it then takes about as long anywhere."""
RECORDS_PER_SECOND: Final = 600

KILL_AFTER_MS: Final = (150, 1_000)
"""The controller is killed at a random moment between these, counted from the start of the move;
sooner, if half of the partitions have arrived by then."""
SUCCESSION_MS: Final = 15_000
POLL_MS: Final = 60
READ_BACK_MS: Final = 10_000
CAUGHT_UP_MS: Final = 15_000

BATCH_BYTES: Final = 32 * 1024
BUFFER_BYTES: Final = 4 * 1024 * 1024
SETTINGS: Final = {"replica.fetch.max.bytes": "32KiB"}
"""Small bites, so that moving a little data takes a few seconds, as moving much does elsewhere."""


class StoryFailed(Exception):
    """The promise was broken, or the story could not be told; says what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The measurements."""

    succession: Succession
    moving_when_killed: int
    move_ms: int
    copied_bytes: int
    longest_wait_ms: int
    balance: Balance


class Story:
    """One telling, on a cluster whose processes run."""

    def __init__(self, cluster: LocalCluster, screen: Screen, rng: random.Random) -> None:
        self._cluster = cluster
        self._screen = screen
        self._rng = rng
        self._client = AdminClient(cluster.brokers, is_controller=False)

    async def tell(self) -> Outcome:
        """Tell it; raises `StoryFailed`, or the `AdminError` of a step that did not succeed."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._client.close)
            producer = await stack.enter_async_context(self._producer())
            workload = await self._prepare(producer)
            await self._show_quorum("The quorum")
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                stream = tasks.create_task(workload.stream(RECORDS_PER_SECOND, stop))
                # A producer that gave up ends the story at once: the group cancels the rest.
                stack.callback(stop.set)
                succession, moving, move_ms, copied = await self._move()
                stop.set()
                await stream
            result = await self._read_back(workload)
            await self._bring_back(succession)
        return Outcome(
            succession=succession,
            moving_when_killed=moving,
            move_ms=move_ms,
            copied_bytes=copied,
            longest_wait_ms=workload.longest_wait_ms,
            balance=result,
        )

    def _producer(self) -> Producer:
        return Producer(
            self._cluster.brokers, batch_bytes=BATCH_BYTES, buffer_bytes_max=BUFFER_BYTES
        )

    async def _prepare(self, producer: Producer) -> Workload:
        self._screen.step(
            f"Create topic {TOPIC}: {PARTITIONS} partitions, {REPLICATION_FACTOR} replicas each"
        )
        await self._client.create_topic(
            TOPIC,
            partitions=PARTITIONS,
            replication_factor=REPLICATION_FACTOR,
            configs={"min.insync.replicas": "2"},
        )
        await self._until_led()
        workload = Workload(producer, TOPIC, PARTITIONS)
        begun_ms = monotonic_ms()
        loaded_bytes = await workload.load(for_ms=LOAD_MS, bytes_max=LOADED_BYTES_MAX)
        self._screen.say(
            f"{show_size(loaded_bytes)} written in {show_duration(monotonic_ms() - begun_ms)}; "
            f"from here on a producer goes on with {RECORDS_PER_SECOND} records a second, acks=all"
        )
        return workload

    async def _until_led(self) -> TopicDescription:
        """The topic, once each partition has a leader and all its replicas in sync."""
        while True:
            topic = (await self._client.describe_topics([TOPIC])).get(TOPIC)
            if topic and all(len(p.isr) == REPLICATION_FACTOR for p in topic.partitions):
                return topic
            await asyncio.sleep(POLL_MS / 1_000)

    async def _show_quorum(self, title: str) -> QuorumDescription:
        quorum = await self._client.describe_quorum()
        self._screen.step(title)
        self._screen.say(quorum_text.status(quorum))
        self._screen.say("\n" + quorum_text.replication(quorum))
        return quorum

    async def _move(self) -> tuple[Succession, int, int, int]:
        """Move every partition and kill the active controller meanwhile."""
        topic = await self._until_led()
        before = {PartitionId(TOPIC, p.partition): tuple(p.replicas) for p in topic.partitions}
        plan = plan_moves(topic, [node.id for node in self._cluster.plan.brokers])
        self._screen.step("Move every partition to another set of brokers, leaders included")
        for one in plan:
            old = ",".join(map(str, before[one.id]))
            self._screen.say(f"{one.id}: {old} -> {','.join(map(str, one.replicas or ()))}")
        copies = Copies(self._cluster.folder, self._cluster.plan, plan, before)
        begun_ms = monotonic_ms()
        results = await self._client.alter_reassignments(plan)
        refused = [result for result in results if result.kafka_error_code]
        if refused:
            raise StoryFailed(moves_text.not_started(refused))
        self._screen.say(moves_text.started([one.id for one in plan]))
        moving = await self._until_moment(begun_ms)
        killed = await self._kill_leader(begun_ms, moving)
        with self._screen.moving() as display:
            succession = await self._succeed(display, copies, moving, *killed)
            await self._until_moved(display, copies)
        move_ms = monotonic_ms() - begun_ms
        copied = sum(copy.copied_bytes for copy in copies.look())
        self._screen.say(f"all {PARTITIONS} partitions have moved after {show_duration(move_ms)}")
        await self._verify(plan)
        return succession, moving, move_ms, copied

    async def _until_moment(self, begun_ms: int) -> int:
        """Wait for a random moment in the middle of the move; how many partitions move then."""
        moment_ms = begun_ms + self._rng.randint(*KILL_AFTER_MS)
        while True:
            moving = len(await self._client.list_reassignments())
            if not moving:
                raise StoryFailed("the move was over before the controller could be killed")
            if monotonic_ms() >= moment_ms or moving <= PARTITIONS // 2:
                return moving
            await asyncio.sleep(POLL_MS / 1_000)

    async def _kill_leader(self, begun_ms: int, moving: int) -> tuple[NodePlan, int]:
        """Kill the active controller; who it was, and when."""
        quorum = await self._client.describe_quorum()
        node = next(n for n in self._cluster.plan.controllers if n.id == quorum.leader_id)
        pid = self._cluster.pid(node.name)
        self._screen.step(
            f"Kill the active controller: {node.name}, process {pid}, SIGKILL, "
            f"{show_duration(monotonic_ms() - begun_ms)} into the move, "
            f"{moving} of {PARTITIONS} partitions under way"
        )
        killed_at_ms = monotonic_ms()
        await self._cluster.kill(node.name)
        return node, killed_at_ms

    async def _succeed(
        self, display: Moving, copies: Copies, moving: int, killed: NodePlan, killed_at_ms: int
    ) -> Succession:
        """Wait for another controller; the brokers go on copying meanwhile."""
        survivors = [n.kafka for n in self._cluster.plan.controllers if n is not killed]
        async with asyncio.TaskGroup() as tasks:
            successor = tasks.create_task(
                await_successor(survivors, killed.id, killed_at_ms, SUCCESSION_MS)
            )
            while not successor.done():
                display.show(copies.look(), moving)
                await asyncio.sleep(POLL_MS / 1_000)
        succession = successor.result()
        if succession is None:
            raise StoryFailed(f"no other controller became active within {SUCCESSION_MS} ms")
        display.say(
            f"controller {succession.leader_id} answers as the active one in epoch "
            f"{succession.epoch}, {succession.after_ms} ms after the kill"
        )
        return succession

    async def _until_moved(self, display: Moving, copies: Copies) -> None:
        while True:
            active = await self._client.list_reassignments()
            display.show(copies.look(), len(active))
            if not active:
                return
            await asyncio.sleep(POLL_MS / 1_000)

    async def _verify(self, plan: Sequence[Assignment]) -> None:
        self._screen.step("Verify the plan")
        deadline_ms = monotonic_ms() + CAUGHT_UP_MS
        while True:
            topic = (await self._client.describe_topics([TOPIC]))[TOPIC]
            now = {PartitionId(TOPIC, p.partition): p.replicas for p in topic.partitions}
            states = moves_text.move_states(plan, {}, now)
            is_done = all(each.status is moves_text.MoveStatus.COMPLETED for each in states)
            if is_done or monotonic_ms() > deadline_ms:
                break
            # The broker that described the topic may be a moment behind the controller.
            await asyncio.sleep(POLL_MS / 1_000)
        self._screen.say(moves_text.verified(states))
        if not is_done:
            raise StoryFailed("the partitions are not where the plan wants them")

    async def _read_back(self, workload: Workload) -> Balance:
        self._screen.step("Read everything back and compare it, byte for byte")
        found = await read_back(self._cluster.brokers, TOPIC, workload.written, READ_BACK_MS)
        result = balance(zip(workload.written, found, strict=True))
        self._screen.say(
            f"{result.acknowledged} records were acknowledged, {result.read} read: "
            f"{result.lost} lost, {result.duplicated} twice, {result.foreign} altered, "
            f"{result.disordered} out of order"
        )
        return result

    async def _bring_back(self, succession: Succession) -> None:
        """Start the killed controller again, and wait until it has caught up."""
        down = next(n for n in self._cluster.plan.controllers if self._cluster.pid(n.name) is None)
        self._screen.step(f"Start {down.name} again")
        await self._cluster.restart(down.name)
        deadline_ms = monotonic_ms() + CAUGHT_UP_MS
        while True:
            quorum = await self._client.describe_quorum()
            back = next(voter for voter in quorum.voters if voter.id == down.id)
            if back.log_end_offset >= quorum.high_watermark:
                break
            if monotonic_ms() > deadline_ms:
                raise StoryFailed(f"{down.name} has not caught up within {CAUGHT_UP_MS} ms")
            await asyncio.sleep(POLL_MS / 1_000)
        self._screen.say(
            f"it has caught up: log end offset {back.log_end_offset}, "
            f"high watermark {quorum.high_watermark}\n\n{quorum_text.replication(quorum)}"
        )


def plan_moves(topic: TopicDescription, brokers: Sequence[int]) -> list[Assignment]:
    """A plan that moves every partition: a broker that has no replica takes the place, and the
    lead, of the one that leads by preference. Those with the least to take over come first."""
    load = dict.fromkeys(brokers, 0)
    plan = []
    for partition in topic.partitions:
        free = [broker for broker in brokers if broker not in partition.replicas]
        assert free, f"{partition} has a replica on every broker"
        new = min(free, key=lambda broker: (load[broker], broker))
        load[new] += 1
        replicas = (new, *partition.replicas[1:])
        plan.append(Assignment(topic=topic.name, partition=partition.partition, replicas=replicas))
    return plan

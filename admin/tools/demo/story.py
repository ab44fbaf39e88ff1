"""The story itself, from the running cluster to the numbers at its end, and its output."""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from admin.capabilities.quorum import quorum_of
from admin.cli import quorum_text, reassign_text
from admin.cli.output import labelled
from admin.cli.reassign_actions import plan_states
from admin.client.admin_client import AdminClient, AdminError
from admin.client.producer import Producer
from admin.model import Assignment, PartitionId, TopicDescription
from admin.tools.demo.workload import Balance, Workload, balance, read_back
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import ClusterPlan, NodePlan, log_dir
from admin.units import show_duration, show_size
from quorum.clocks import monotonic_ms
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

TOPIC: Final = "orders"
PARTITIONS: Final = 6
REPLICATION_FACTOR: Final = 3
LOAD_MS: Final = 4_000
LOADED_BYTES_MAX: Final = 192 * 1024 * 1024
"""The bytes written in this time at most, so that the move takes about as long anywhere."""
RECORDS_PER_SECOND: Final = 600

KILL_AFTER_MS: Final = (150, 1_000)
"""The controller is killed at a random moment between these, counted from the start of the move;
sooner, if half of the partitions have arrived by then."""
PROBE_MS: Final = 150
"""The time limit of one request to a new leader: a node may park a request until it knows one."""
PROBE_PAUSE_MS: Final = 5
SUCCESSION_MS: Final = 15_000
POLL_MS: Final = 60
READ_BACK_MS: Final = 10_000
CAUGHT_UP_MS: Final = 15_000

BATCH_BYTES: Final = 32 * 1024
BUFFER_BYTES: Final = 4 * 1024 * 1024
SETTINGS: Final = {"replica.fetch.max.bytes": "32KiB"}
"""Small fetches, so that the move of little data takes a few seconds."""


class StoryFailed(Exception):
    """A promise was broken, or the story could not go on; the message says what happened."""


LINE_EVERY_MS: Final = 1_000
INDENT: Final = "   "


class Screen:
    """The output of one demo: numbered steps, and the progress of the move."""

    def __init__(self, *, live: bool) -> None:
        """`live` draws progress in place; otherwise a line is printed every second."""
        self._live = live
        self._step = 0
        self._shown_ms = 0

    def step(self, title: str) -> None:
        """Begin the next part of the story."""
        self._step += 1
        click.echo(click.style(f"\n{self._step}. {title}", bold=True))

    def say(self, text: str) -> None:
        """Print lines that belong to the step."""
        for line in text.splitlines():
            click.echo(f"{INDENT}{line}" if line else "")

    @contextmanager
    def bar(self) -> Iterator[Progress]:
        """The progress bar of the move; it draws nothing where the output is not live."""
        columns = (
            TextColumn(INDENT + "{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
        )
        with Progress(*columns, disable=not self._live) as bar:
            bar.add_task("")
            yield bar

    def show(self, bar: Progress, copies: "Copies", active: int) -> None:
        """Show how much is copied while `active` partitions are moving."""
        copied, total = copies.look()
        moving = f"{active} of {copies.count} partitions are moving"
        (task,) = bar.task_ids
        bar.update(task, description=moving, completed=copied, total=total)
        now_ms = monotonic_ms()
        if self._live or (now_ms - self._shown_ms < LINE_EVERY_MS and active):
            return
        self._shown_ms = now_ms
        self.say(f"{moving}, {show_size(copied)} of {show_size(total)} copied")


class Copies:
    """The logs on disk of the replicas that a plan adds, and of those they are copied from."""

    def __init__(
        self,
        folder: Path,
        cluster: ClusterPlan,
        plan: Sequence[Assignment],
        before: Mapping[PartitionId, Sequence[int]],
    ) -> None:
        folders = {node.id: log_dir(folder, node) for node in cluster.brokers}
        self._logs = [
            (folders[broker] / str(one.id), folders[before[one.id][0]] / str(one.id))
            for one in plan
            for broker in one.replicas or ()
            if broker not in before[one.id]
        ]

    @property
    def count(self) -> int:
        """The number of new replicas."""
        return len(self._logs)

    def look(self) -> tuple[int, int]:
        """Return the bytes copied so far, and of all copies."""
        sizes = [(size_bytes(copy), size_bytes(source)) for copy, source in self._logs]
        # The source is deleted when the move is complete; the copy is then the whole.
        return sum(copied for copied, _ in sizes), sum(map(max, sizes))


def size_bytes(folder: Path) -> int:
    """The size of a partition's log; files that were just deleted do not count."""
    total = 0
    for path in folder.glob("*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


@dataclass(frozen=True, slots=True)
class Succession:
    """A new active controller, and when it first answered after its predecessor was killed."""

    leader_id: int
    epoch: int
    after_ms: int


async def await_successor(
    survivors: Sequence[Address],
    killed_id: int,
    killed_at_ms: int,
    security: ClientSecurity = PLAIN_CLIENT,
) -> Succession:
    """Ask `survivors` again and again, until a new leader answers; raises `StoryFailed`."""

    async def probe(address: Address) -> Succession:
        async with AdminClient(
            [address], is_controller=True, timeout_ms=PROBE_MS, security=security
        ) as client:
            while True:
                try:
                    quorum = await client.describe_quorum()
                except AdminError:
                    await asyncio.sleep(PROBE_PAUSE_MS / 1_000)
                    continue
                if quorum.leader_id not in (killed_id, -1):
                    after_ms = monotonic_ms() - killed_at_ms
                    return Succession(quorum.leader_id, quorum.leader_epoch, after_ms)
                await asyncio.sleep(PROBE_PAUSE_MS / 1_000)

    loop = asyncio.get_running_loop()
    probes = [loop.create_task(probe(address)) for address in survivors]
    try:
        async with asyncio.timeout(SUCCESSION_MS / 1_000):
            return await next(asyncio.as_completed(probes))
    except TimeoutError:
        raise StoryFailed(f"no other controller became active within {SUCCESSION_MS} ms") from None
    finally:
        for each in probes:
            each.cancel()
        await asyncio.gather(*probes, return_exceptions=True)


class Story:
    """One run of the story, on a cluster whose processes run."""

    def __init__(self, cluster: LocalCluster, screen: Screen, rng: random.Random) -> None:
        self._cluster = cluster
        self._screen = screen
        self._rng = rng
        self._client = AdminClient(
            cluster.brokers, is_controller=False, security=cluster.config.security
        )

    async def run(self) -> None:
        """Run it; raises `StoryFailed`, or the `AdminError` of a step that did not succeed."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._client.close)
            producer = await stack.enter_async_context(
                Producer(
                    self._cluster.brokers,
                    batch_bytes=BATCH_BYTES,
                    buffer_bytes_max=BUFFER_BYTES,
                    config=self._cluster.application,
                )
            )
            workload = await self._prepare(producer)
            quorum = quorum_of(await self._client.describe_quorum())
            self._screen.step("The quorum")
            self._screen.say(f"{quorum_text.status(quorum)}\n\n{quorum_text.replication(quorum)}")
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                stream = tasks.create_task(workload.stream(RECORDS_PER_SECOND, stop))
                # A producer that gives up ends the story at once: the group cancels the rest.
                stack.callback(stop.set)
                measured = await self._move()
                stop.set()
                await stream
            result = await self._read_back(workload)
            await self._bring_back()
        measured |= {
            "acknowledged": f"{result.acknowledged} records, the longest wait of the producer "
            f"during it all {workload.longest_wait_ms} ms",
            "read back": f"{result.read} records",
            "lost": str(result.lost),
            "duplicated": str(result.duplicated),
        }
        self._screen.step("What was measured")
        self._screen.say(labelled(measured.items(), width=14))
        if result.fault is not None:
            raise StoryFailed(result.fault)

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
        await self._until_in_sync()
        workload = Workload(producer, TOPIC, PARTITIONS)
        begun_ms = monotonic_ms()
        loaded_bytes = await workload.load(for_ms=LOAD_MS, bytes_max=LOADED_BYTES_MAX)
        self._screen.say(
            f"{show_size(loaded_bytes)} written in {show_duration(monotonic_ms() - begun_ms)}; "
            f"from here on a producer writes {RECORDS_PER_SECOND} records a second, acks=all"
        )
        return workload

    async def _until_in_sync(self) -> TopicDescription:
        """Return the topic, once all replicas of each partition are in sync."""
        while True:
            topic = (await self._client.describe_topics([TOPIC])).get(TOPIC)
            if topic and all(len(p.isr) == REPLICATION_FACTOR for p in topic.partitions):
                return topic
            await asyncio.sleep(POLL_MS / 1_000)

    async def _move(self) -> dict[str, str]:
        """Move every partition and kill the active controller meanwhile; return what it took."""
        topic = await self._until_in_sync()
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
            raise StoryFailed("\n".join(reassign_text.not_started(refused)))
        self._screen.say(reassign_text.started([one.id for one in plan]))
        moving = await self._until_kill(begun_ms)
        killed, killed_at_ms = await self._kill_leader(begun_ms, moving)
        with self._screen.bar() as bar:
            survivors = [n.kafka for n in self._cluster.plan.controllers if n is not killed]
            security = self._cluster.config.security
            waiting = await_successor(survivors, killed.id, killed_at_ms, security)
            async with asyncio.TaskGroup() as tasks:
                successor = tasks.create_task(waiting)
                while not successor.done():
                    self._screen.show(bar, copies, moving)
                    await asyncio.sleep(POLL_MS / 1_000)
            succession = successor.result()
            self._screen.say(
                f"controller {succession.leader_id} answers as the active one in epoch "
                f"{succession.epoch}, {succession.after_ms} ms after the kill"
            )
            while active := await self._client.list_reassignments():
                self._screen.show(bar, copies, len(active))
                await asyncio.sleep(POLL_MS / 1_000)
            self._screen.show(bar, copies, 0)
        move_ms = monotonic_ms() - begun_ms
        self._screen.say(f"all {PARTITIONS} partitions have moved after {show_duration(move_ms)}")
        await self._verify(plan)
        return {
            "fail-over": f"{succession.after_ms} ms from SIGKILL to the first answer of controller "
            f"{succession.leader_id}",
            "move": f"{show_duration(move_ms)}, {show_size(copies.look()[0])} copied, {moving} "
            "partitions under way when the controller was killed",
        }

    async def _until_kill(self, begun_ms: int) -> int:
        """Wait for a random moment in the middle of the move; return how many partitions move."""
        moment_ms = begun_ms + self._rng.randint(*KILL_AFTER_MS)
        while True:
            moving = len(await self._client.list_reassignments())
            if not moving:
                raise StoryFailed("the move was over before the controller could be killed")
            if monotonic_ms() >= moment_ms or moving <= PARTITIONS // 2:
                return moving
            await asyncio.sleep(POLL_MS / 1_000)

    async def _kill_leader(self, begun_ms: int, moving: int) -> tuple[NodePlan, int]:
        """Kill the active controller; return it, and the time of the kill."""
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

    async def _verify(self, plan: Sequence[Assignment]) -> None:
        self._screen.step("Verify the plan")
        states = await plan_states(self._client, plan, CAUGHT_UP_MS / 1_000)
        self._screen.say(reassign_text.verified(states))
        if any(each.status is not reassign_text.MoveStatus.COMPLETED for each in states):
            raise StoryFailed("the partitions are not where the plan wants them")

    async def _read_back(self, workload: Workload) -> Balance:
        self._screen.step("Read everything back and compare it, byte for byte")
        found = await read_back(
            self._cluster.brokers,
            TOPIC,
            workload.written,
            READ_BACK_MS,
            self._cluster.application,
        )
        result = balance(zip(workload.written, found, strict=True))
        self._screen.say(
            f"{result.acknowledged} records were acknowledged, {result.read} read: "
            f"{result.lost} lost, {result.duplicated} twice, {result.foreign} altered, "
            f"{result.disordered} out of order"
        )
        return result

    async def _bring_back(self) -> None:
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
            f"high watermark {quorum.high_watermark}\n\n"
            f"{quorum_text.replication(quorum_of(quorum))}"
        )


def plan_moves(topic: TopicDescription, brokers: Sequence[int]) -> list[Assignment]:
    """A plan that moves every partition and its leader.

    In each partition a broker without a replica replaces the preferred leader; the brokers that
    have replaced the fewest come first.
    """
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

"""A cluster in which partitions are moved while a test does its worst; it is judged when it ends.

Its brokers are the embedded ones, or those of a release of Kafka's. Once it is stopped, the disks
of its controllers must hold one log, in which nothing has moved as it must not (`judged_log`).
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from admin.capabilities.moves import (
    DescribedMove,
    DescribeMove,
    ListMoves,
    PauseMoves,
    ResumeMoves,
    whole_plan,
)
from admin.capabilities.paging import every_page
from admin.cli.moves import refused
from admin.client.admin_client import AdminClient
from admin.client.producer import Producer
from admin.model import Assignment, TopicDescription
from admin.tools.demo.workload import Workload, Written
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, log_dir, settle
from broker.storage.log_dir import partition_folders
from statemachine.reassignment.settings import PARALLEL_PARTITIONS, PARALLEL_REPLICAS
from statemachine.reassignment.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, Replicas
from tests.process.assigned_traffic import assigned_traffic
from tests.process.judged_log import judge
from tests.process.kafka_cluster import REPLICATION_FACTOR, SETTINGS, KafkaCluster, started
from tests.support.kafka_tools import runtime

CONTROLLERS: Final = 3
ASK_MS: Final = 60_000
"""Patience with one question; whoever asks a cluster that is being killed needs some."""
MOVE_SECONDS: Final = 300
"""The longest time of a move that nothing holds up any more. It bounds a test that fails."""
LOAD_MS: Final = 60_000
BITE_BYTES: Final = 32 * 1024
"""The bytes that a replica fetches at once. A throttle lets one fetch pass before it applies."""

Layout = Mapping[int, Replicas]
"""Replicas by the number of their partition."""


@dataclass
class MovedCluster(KafkaCluster):
    """A cluster that is up, and someone who moves its partitions."""

    asked: list[Assignment] = field(default_factory=list)
    """The requested targets of partitions."""

    # --- settings -------------------------------------------------------------------------------

    async def limit(self, *, replicas: int, partitions: int) -> None:
        """Let moves go in steps of so many replicas, of so many partitions at one time."""
        values = {PARALLEL_REPLICAS: str(replicas), PARALLEL_PARTITIONS: str(partitions)}
        await self.client.alter_configs(BROKER_RESOURCE, CLUSTER_DEFAULT, values)

    async def hold_back(self, topic: str, bytes_per_s: int) -> None:
        """Let each broker copy so much of the topic, until `let_go`."""
        rate = {FOLLOWER_RATE: str(bytes_per_s)}
        await self.client.alter_configs(BROKER_RESOURCE, CLUSTER_DEFAULT, rate)
        await self.client.alter_configs(TOPIC_RESOURCE, topic, {FOLLOWER_REPLICAS: "*"})

    async def let_go(self, topic: str) -> None:
        """Let brokers copy as fast as they can."""
        await self.client.alter_configs(TOPIC_RESOURCE, topic, {}, [FOLLOWER_REPLICAS])
        await self.client.alter_configs(BROKER_RESOURCE, CLUSTER_DEFAULT, {}, [FOLLOWER_RATE])

    # --- topics ---------------------------------------------------------------------------------

    def ring(self, partitions: int, turned: int = 0) -> Layout:
        """Three replicas for each partition, going round the brokers, begun `turned` further on."""
        brokers = self.brokers
        return {
            number: tuple(
                brokers[(number + turned + place) % len(brokers)]
                for place in range(REPLICATION_FACTOR)
            )
            for number in range(partitions)
        }

    async def place(self, topic: str, layout: Layout, bytes_each: int) -> list[Written]:
        """Create the topic like this, with so much in each partition; what was written."""
        await self.client.create_topic(
            topic, assignments=layout, configs={"min.insync.replicas": "2"}
        )
        for broker in self.cluster.brokers:
            await self._until_known(topic, broker)
        await self.until_whole()
        written = [Written() for _ in layout]
        await self.write(topic, written, bytes_each)
        return written

    async def write(self, topic: str, written: list[Written], bytes_each: int) -> None:
        """Write so much more to each partition, and let it be acknowledged."""
        async with Producer(self.cluster.brokers, batch_bytes=BITE_BYTES) as producer:
            workload = Workload(producer, topic, len(written))
            workload.written = written
            await workload.load(for_ms=LOAD_MS, bytes_max=bytes_each * len(written))

    @asynccontextmanager
    async def flowing(self, topic: str, written: Sequence[Written]) -> AsyncIterator[None]:
        """Clients at work on the topic; afterwards the cluster is whole, and the account right."""
        logs = [log_dir(self.cluster.folder, node) for node in self.cluster.plan.brokers]
        async with assigned_traffic(self.servers, topic, written, logs) as traffic:
            before = traffic.acknowledged
            yield
            await self.until_whole()
            assert traffic.acknowledged > before, "nothing was written meanwhile"

    @asynccontextmanager
    async def moving(
        self, topic: str, wanted: Layout, bytes_each: int, bytes_per_s: int
    ) -> AsyncIterator[int]:
        """A move of a new topic to where it is wanted, while clients are at work on it; its id.

        So much in each partition is copied at such a rate of each broker, meanwhile. Then the rest
        goes as fast as it can, and everything must be where it is wanted, and nowhere else.
        """
        written = await self.place(topic, self.ring(len(wanted)), bytes_each)
        async with self.flowing(topic, written):
            await self.hold_back(topic, bytes_per_s)
            move = await self.begin(topic, wanted)
            yield move
            assert not (await self.standing(move)).ended, "it was over too early"
            await self.let_go(topic)
            ended = await self.until_ended(move)
        assert (ended.state, ended.completed) == ("completed", len(wanted)), ended
        assert await self.layout(topic) == wanted
        await self.until_disks_agree(topic)

    async def layout(self, topic: str) -> Layout:
        """The replicas that the partitions have."""
        return layout_of(await self.described(topic))

    async def described(self, topic: str) -> TopicDescription:
        """The topic, which exists."""
        return (await self.client.describe_topics([topic]))[topic]

    async def until_disks_agree(self, topic: str) -> None:
        """Return once each replica has a folder on the disk of its broker, and there is no other.

        Whoever is no replica any more removes its folder by itself, soon.
        """
        wanted = {number: set(replicas) for number, replicas in (await self.layout(topic)).items()}
        found = self.on_disks(topic)
        try:
            async with asyncio.timeout(MOVE_SECONDS):
                while found != wanted:
                    await self._nobody_has_ended()
                    found = self.on_disks(topic)
        except TimeoutError:
            wrong = {n: (found.get(n), wanted.get(n)) for n in {*found, *wanted}}
            wrong = {n: pair for n, pair in wrong.items() if pair[0] != pair[1]}
            raise AssertionError(
                f"partitions on other disks than they should be: {wrong}"
            ) from None

    def on_disks(self, topic: str) -> dict[int, set[int]]:
        """By partition: the brokers that have a folder for it."""
        found: dict[int, set[int]] = defaultdict(set)
        for node in self.cluster.plan.brokers:
            for each in partition_folders(log_dir(self.cluster.folder, node)):
                if each.topic == topic:
                    found[each.number].add(node.id)
        return dict(found)

    # --- moves ----------------------------------------------------------------------------------

    async def begin(self, topic: str, wanted: Layout) -> int:
        """Ask for all of it at once; the id of the move."""
        plan = [
            Assignment(topic=topic, partition=number, replicas=replicas)
            for number, replicas in wanted.items()
        ]
        self.asked += plan
        results = await self.client.alter_reassignments(plan)
        assert [each for each in results if each.kafka_error_code] == []
        return await self.last_move()

    async def note_plans(self) -> None:
        """Count what all moves are to do among what was asked for, whoever made their plans."""
        for move in (await every_page(self.client.ask, ListMoves())).moves:
            plan = await whole_plan(self.client.ask, move.move_id)
            self.asked += [
                Assignment(topic=id.topic, partition=id.partition, replicas=tuple(replicas))
                for id, replicas in plan.targets.items()
            ]

    async def note_cancel(self, topic: str) -> None:
        """Count it among what was asked for that what is under way there is taken back."""
        self.asked += [
            Assignment(topic=topic, partition=number, replicas=None)
            for number in await self.layout(topic)
        ]

    async def last_move(self) -> int:
        """The id of the move that was begun last."""
        return max(each.move_id for each in (await every_page(self.client.ask, ListMoves())).moves)

    async def standing(self, move: int) -> DescribedMove:
        """The status of the move."""
        return await self.client.ask(DescribeMove(move_id=move))

    async def until_completed(self, move: int, more_than: int) -> DescribedMove:
        """Return once the move has ended, or more than so many of its partitions are complete."""
        found = await self.standing(move)
        try:
            async with asyncio.timeout(MOVE_SECONDS):
                while not found.ended and found.completed <= more_than:
                    await self._nobody_has_ended()
                    found = await self.standing(move)
        except TimeoutError:
            raise AssertionError(f"the move stands still: {found}") from None
        return found

    async def until_ended(self, move: int) -> DescribedMove:
        """The outcome of the move."""
        found = await self.until_completed(move, more_than=1 << 31)
        assert found.ended
        return found

    async def alter(self, request: PauseMoves | ResumeMoves) -> None:
        """Pause the move, or let it go on."""
        changed = await self.client.ask(request)
        assert not list(refused(changed)), changed

    async def until_at_rest(self, move: int) -> DescribedMove:
        """Return once no step of the move, which is paused, is under way."""
        found = await self.standing(move)
        async with asyncio.timeout(MOVE_SECONDS):
            while found.stepping:
                await self._nobody_has_ended()
                found = await self.standing(move)
        return found

    # --- the end --------------------------------------------------------------------------------

    async def until_caught_up(self) -> int:
        """A high watermark that every controller has reached."""
        async with asyncio.timeout(MOVE_SECONDS):
            while True:
                quorum = await self.client.describe_quorum()
                if quorum.high_watermark <= min(each.log_end_offset for each in quorum.voters):
                    return quorum.high_watermark
                await self._nobody_has_ended()


def layout_of(topic: TopicDescription) -> Layout:
    """The replicas of its partitions."""
    return {each.partition: tuple(each.replicas) for each in topic.partitions}


@asynccontextmanager
async def moved_cluster(
    folder: Path, *, brokers: int, version: str | None = None
) -> AsyncIterator[MovedCluster]:
    """Three controllers and so many brokers, embedded or of this release of Kafka.

    It skips where Kafka cannot be run. When it has stopped, what it leaves is judged.
    """
    java = None if version is None else runtime(version)
    wanted = Wanted(controllers=CONTROLLERS, brokers=brokers, base_port=0, kafka=version)
    settings = {**SETTINGS, "replica.fetch.max.bytes": str(BITE_BYTES)}
    plan = settle(folder, wanted, random.Random(str(folder)))
    async with (
        started(LocalCluster(folder, plan, settings=settings, runtime=java)) as cluster,
        AdminClient(cluster.controllers, is_controller=True, timeout_ms=ASK_MS) as client,
    ):
        it = MovedCluster(cluster, client)
        yield it
        end = await it.until_caught_up()
    await asyncio.to_thread(judge, folder, plan.controllers, end, it.asked)

"""The steps of a round with many partitions: each measures some figures of one side.

Requests are encoded before the measurement and go to the leader in sequence over one connection.
Responses are decoded afterwards; an error ends the run.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Final

from bench import growth
from bench.brokers import Brokers
from bench.bulk import check, form_of, framed, timed
from bench.changing import changes_each_second
from bench.faults import RunFailed
from bench.peers import steps
from bench.peers.cluster import Cluster, Kind, one_of
from bench.peers.figures import KAFKA, OURS
from bench.peers.kafka import Kafka
from bench.peers.ours import Ours
from bench.population import Population
from bench.stops import Stop, stops_in
from bench.turns import Found, Step
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address

CREATED_AT_ONCE: Final = 5_000
MOVED_AT_ONCE: Final = 5_000
ALTERED_AT_ONCE: Final = 1_000
FENCED_PARTITIONS: Final = 6_000
BROKER_IDS: Final = tuple(range(101, 113))
FENCED_ID: Final = 113
CHANGING_CONNECTIONS: Final = 4
FOLLOWING: Final = 4
WARM_UP_SHARE: Final = 10
"""One in this many partitions is created and moved before the measurement, on both sides: a warm-up
for the compiler of a Java virtual machine."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The number of partitions and the duration of each load."""

    partitions: int
    seconds: float


class WatchedOurs(Ours):
    """Our controllers with a record of the stalls of their event loops."""

    def command(self, node: int) -> list[str]:
        python, _, _, *rest = super().command(node)
        return [python, "-m", "bench.stops", str(self.file(node)), *rest]

    def file(self, node: int) -> Path:
        """The file to which a node writes the stalls."""
        return self.folder / f"stops-{node}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A cluster under test with live brokers, seen by the client of its leader."""

    kind: Kind
    leader: int
    pid: int
    """The process id of the leader."""
    brokers: Brokers

    @property
    def address(self) -> Address:
        """The address of the leader's listener."""
        return self.kind.client_address(self.leader)

    def stops(self, begun: float, ended: float) -> list[Stop]:
        """The stalls of the leader's event loop in this time; known only for our controllers."""
        if not isinstance(self.kind, WatchedOurs):
            return []
        return list(stops_in(self.kind.file(self.leader), begun, ended))


@asynccontextmanager
async def subject_of(side: str, folder: Path) -> AsyncIterator[Subject]:
    """Start a cluster in `folder` with registered, live brokers."""
    kind: Kind = WatchedOurs() if side == OURS else steps.kind_of(side)
    async with one_of(kind, folder) as cluster:
        leader = await cluster.leader()
        brokers = Brokers(kind.client_address(leader), _cluster_id(kind))
        await brokers.register(BROKER_IDS)
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(brokers.beat())
            yield Subject(kind, leader, cluster.pids(leader).leader, brokers)
            beating.cancel()
        await brokers.close()
        await _still_leads(cluster, leader)


async def bulk(side: str, folder: Path, options: RunOptions) -> Found:
    """Create many partitions, move them, complete the moves, and elect leaders for all of them."""
    async with subject_of(side, folder) as subject:
        warm_up = Population.spread(
            options.partitions // WARM_UP_SHARE, BROKER_IDS, prefix="warm-up"
        )
        await create(subject, warm_up)
        await move(subject, warm_up, MOVED_AT_ONCE)
        await complete(subject, warm_up)
        begun = perf_counter()
        many = Population.spread(options.partitions, BROKER_IDS, prefix="many")
        yield "create", await create(subject, many)
        yield "move", await move(subject, many, MOVED_AT_ONCE)
        yield "complete", await complete(subject, many)
        # Kafka's controllers refuse a request that needs more than 10,000 records.
        at_once = options.partitions if side == OURS else MOVED_AT_ONCE
        yield "move-whole", await move(subject, many, at_once)
        yield "complete-whole", await complete(subject, many)
        for key, value in _longest(subject.stops(begun, perf_counter())):
            yield key, value
        begun = perf_counter()
        await _elected(subject)
        for key, value in _longest(subject.stops(begun, perf_counter()), "stop-elect"):
            yield key, value


async def changes(side: str, folder: Path, options: RunOptions) -> Found:
    """Shrink and expand ISRs, a thousand partitions in each request."""
    async with subject_of(side, folder) as subject:
        leaders, followers = BROKER_IDS[:CHANGING_CONNECTIONS], BROKER_IDS[CHANGING_CONNECTIONS:]
        groups = [
            Population.led_by(leader, ALTERED_AT_ONCE, followers, prefix=f"changing-{leader}")
            for leader in leaders
        ]
        for group in groups:
            await create(subject, group)
        epochs = subject.brokers.epochs
        async with asyncio.TaskGroup() as tasks:
            rates = [
                tasks.create_task(
                    changes_each_second(subject.address, group, epochs, options.seconds)
                )
                for group in groups
            ]
        yield "changes", sum(rate.result() for rate in rates)


async def fence(side: str, folder: Path, _: RunOptions) -> Found:
    """A broker requests to be fenced; the answer comes when all its partitions have new leaders."""
    async with subject_of(side, folder) as subject:
        await subject.brokers.register([FENCED_ID])
        followers = BROKER_IDS[:FOLLOWING]
        population = Population.led_by(FENCED_ID, FENCED_PARTITIONS, followers, prefix="fenced")
        await create(subject, population)
        # From here on it sends only the request to be fenced.
        epoch = subject.brokers.epochs.pop(FENCED_ID)
        form = form_of(ApiKey.BROKER_HEARTBEAT)
        leaving = form.request(
            broker_id=FENCED_ID,
            broker_epoch=epoch,
            current_metadata_offset=epoch,
            want_fence=True,
            want_shut_down=False,
        )
        begun = perf_counter()
        seconds, answers = await timed(subject.address, [framed(form, leaving)])
        (answer,) = check(ApiKey.BROKER_HEARTBEAT, answers)
        if not answer.is_fenced:
            raise RunFailed(f"broker {FENCED_ID} was not fenced, although it requested that")
        yield "fence", seconds
        for key, value in _longest(subject.stops(begun, perf_counter()), "stop-fence"):
            yield key, value
        await _led_by_others(subject, population)


async def single(side: str, folder: Path, options: RunOptions) -> Found:
    """Changes in sequence on each of many connections, and on one."""
    async for key, value in steps.commits(side, folder, steps.RunOptions(options.seconds, 0)):
        name, _, connections = key.partition("-")
        if name == "commits":
            yield f"single-{connections}", value


async def grown(_side: str, _folder: Path, _options: RunOptions) -> Found:
    """The cost of a partition in a long move relative to a short one; only for our controllers."""
    yield "growth", await asyncio.to_thread(growth.growth)


async def create(subject: Subject, population: Population) -> float:
    """Create the partitions; like `move` and `complete`, return the seconds that it took."""
    # In a thread, here and below, so that the brokers can send heartbeats meanwhile.
    frames = await asyncio.to_thread(population.creations, CREATED_AT_ONCE)
    seconds, answers = await timed(subject.address, frames)
    await asyncio.to_thread(population.created, answers)
    return seconds


async def move(subject: Subject, population: Population, at_once: int) -> float:
    """Begin to move each partition to other followers, `at_once` partitions in one request."""
    targets = population.others(BROKER_IDS)
    frames = await asyncio.to_thread(population.moves, at_once, targets)
    seconds, answers = await timed(subject.address, frames)
    await asyncio.to_thread(check, ApiKey.ALTER_PARTITION_REASSIGNMENTS, answers)
    population.moving_to(targets)
    return seconds


async def complete(subject: Subject, population: Population) -> float:
    """Request the ISRs that complete the moves."""
    epochs = subject.brokers.epochs
    frames = await asyncio.to_thread(population.isrs, ALTERED_AT_ONCE, epochs)
    seconds, answers = await timed(subject.address, frames)
    await asyncio.to_thread(population.answered, answers)
    return seconds


async def _elected(subject: Subject) -> None:
    form = form_of(ApiKey.ELECT_LEADERS)
    request = form.request(election_type=0, topic_partitions=None, timeout=form.patience)
    _, answers = await timed(subject.address, [framed(form, request)])
    check(ApiKey.ELECT_LEADERS, answers)


async def _led_by_others(subject: Subject, population: Population) -> None:
    """Raise `RunFailed` unless the first follower leads each partition, by its epochs."""
    for each in population.held:
        each.replicas = each.isr = each.replicas[1:]
        each.leader_epoch += 1
        each.partition_epoch += 1
    frames = population.isrs(ALTERED_AT_ONCE, subject.brokers.epochs)
    _, answers = await timed(subject.address, frames)
    check(ApiKey.ALTER_PARTITION, answers)


def _longest(stopped: Sequence[Stop], key: str = "stop") -> Iterator[tuple[str, float]]:
    if stopped:
        yield key, max(each.seconds for each in stopped) * 1_000
        if key == "stop":
            yield "stop-own", max(each.computed for each in stopped) * 1_000


def _cluster_id(kind: Kind) -> str:
    if isinstance(kind, Kafka):
        return kind.rival.plan.cluster_id
    assert isinstance(kind, Ours), f"{kind.name} has no partitions"
    return kind.plan.cluster_id


async def _still_leads(cluster: Cluster, leader: int) -> None:
    """Raise `RunFailed` if another node is leader now, which invalidates the measurement."""
    if await cluster.leader() != leader:
        raise RunFailed(f"node {leader} lost the leadership during the run")


STEPS: Final[Mapping[str, Step[RunOptions]]] = MappingProxyType(
    {
        "bulk": Step(bulk, (OURS, KAFKA)),
        "changes": Step(changes, (OURS, KAFKA)),
        "fence": Step(fence, (OURS, KAFKA)),
        "single": Step(single, (OURS, KAFKA)),
        "growth": Step(grown, (OURS,)),
    }
)

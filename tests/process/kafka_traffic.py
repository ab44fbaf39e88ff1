"""Producers and consumer groups at work on one topic of a real cluster, and the account of it.

A producer of each kind writes to its half of the partitions; a group of each kind, two members in
each, reads all of them. They are at it while a test does its worst, and then it is compared.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from confluent_kafka import OFFSET_STORED, Consumer, TopicPartition

from admin.demo.accounts import Written, content, number_of
from tests.process.kafka_accounts import Deliveries, Run
from tests.process.kafka_clients import (
    CLOSE_SECONDS,
    POLL_SECONDS,
    RECORDS_MAX,
    ConfluentMember,
    ConfluentProducer,
    PythonMember,
    PythonProducer,
    Reads,
    Writes,
    given,
)
from tests.process.kafka_evidence import evidence

PARTITIONS: Final = 6
MEMBERS: Final = 2
RECORD_BYTES: Final = 100
ROUND_SECONDS: Final = 0.05
"""A producer writes one record to each of its partitions in a round."""
UNANSWERED_MAX: Final = 3_000
"""Records that a producer has not heard of; with more it waits."""
FLOWING_SECONDS: Final = 60
CATCH_UP_SECONDS: Final = 60
POLLS_MAX: Final = 600
"""Of a member that reads what is left to it."""

PRODUCERS: Final[tuple[Callable[[str], Writes], ...]] = (PythonProducer, ConfluentProducer)
GROUPS: Final[dict[str, Callable[..., Reads]]] = {
    "python": PythonMember,
    "confluent": ConfluentMember,
}


@dataclass
class Group:
    """A consumer group: who its members are, and what they were given."""

    name: str
    member: Callable[..., Reads]
    deliveries: Deliveries = field(default_factory=lambda: Deliveries(PARTITIONS))


class Traffic:
    """What goes on at one topic; `traffic` starts and ends it."""

    def __init__(self, servers: str, topic: str, logs: Sequence[Path]) -> None:
        """`logs` are the folders of the brokers' logs: evidence, should there be a fault."""
        self._servers = servers
        self._topic = topic
        self._logs = logs
        self.written = [Written() for _ in range(PARTITIONS)]
        self.groups = [Group(f"{topic}-{name}", member) for name, member in GROUPS.items()]
        self._enough = Event()
        """No more is written."""
        self._ending = Event()
        """Everything is written: members end once they have it all."""
        self._abandoned = Event()
        """Members end at once."""
        self._producers: list[asyncio.Task[None]] = []
        self._members: list[asyncio.Task[None]] = []

    @property
    def acknowledged(self) -> int:
        """Records that are acknowledged, in all partitions."""
        return sum(len(each.acknowledged) for each in self.written)

    def produce(self, producer: Callable[[str], Writes], partitions: Iterable[int]) -> None:
        """Write to these partitions in turn until it is enough, and let it be acknowledged."""
        mine = [(partition, self.written[partition]) for partition in partitions]
        writes = producer(self._servers)
        try:
            while not self._enough.wait(ROUND_SECONDS):
                if sum(one.given - len(one.acknowledged) for _, one in mine) > UNANSWERED_MAX:
                    continue
                for partition, one in mine:
                    number, one.given = one.given, one.given + 1
                    value = content(partition, number, RECORD_BYTES)
                    writes.send(self._topic, partition, value, _noting(one, number))
        finally:
            writes.close()

    def consume(self, group: Group, flowing: Event) -> None:
        """Be a member of the group until it has everything."""
        runs: dict[int, Run] = {}
        member = group.member(
            self._servers,
            group.name,
            self._topic,
            lambda assigned: runs.update((partition, Run()) for partition in assigned),
        )
        try:
            while not self._has_enough(group):
                for partition, offset, value in member.poll():
                    number = number_of(value, partition)
                    group.deliveries.note(partition, runs[partition], offset, number)
                if group.deliveries.reach([1] * PARTITIONS):
                    flowing.set()
        finally:
            member.close()

    def _has_enough(self, group: Group) -> bool:
        if self._abandoned.is_set():
            return True
        return self._ending.is_set() and group.deliveries.reach([w.given for w in self.written])

    def check(self) -> None:
        """Each group was given what was written and nothing else, and stands nowhere beyond it."""
        assert self.acknowledged > 0
        for group in self.groups:
            fault = group.deliveries.fault(self.written)
            assert fault is None, f"{group.name}: {fault}\n{self._evidence(group)}"
            left = _left_to(self._servers, group.name, self._topic)
            ends = [each.end for each in left]
            assert ends == group.deliveries.ends(), group.name
            # A member that leaves while the group is being balanced anew may be refused its last
            # commit; what it had is then given again, and nothing else is.
            for each in left:
                assert 0 < each.committed <= each.end, f"{group.name}: {each}"
                assert each.given == list(range(each.committed, each.end)), f"{group.name}: {each}"

    def _evidence(self, group: Group) -> str:
        places = group.deliveries.in_question(self.written)
        acknowledged = {
            (partition, offset)
            for partition, offsets in places.items()
            for offset in self.written[partition].acknowledged.values()
            if offset in offsets
        }
        batches = evidence(self._logs, self._topic, places)
        return f"acknowledged of these (partition, offset): {sorted(acknowledged)}\n{batches}"

    async def begin(self, tasks: asyncio.TaskGroup, pool: ThreadPoolExecutor) -> None:
        """Start everything in threads of `pool`; returns once both groups are given records."""
        loop = asyncio.get_running_loop()

        async def thread(work: Callable[..., None], *arguments: object) -> None:
            await loop.run_in_executor(pool, work, *arguments)

        flowing = [Event() for _ in self.groups]
        self._members = [
            tasks.create_task(thread(self.consume, group, event))
            for group, event in zip(self.groups, flowing, strict=True)
            for _ in range(MEMBERS)
        ]
        self._producers = [
            tasks.create_task(thread(self.produce, producer, range(place, PARTITIONS, 2)))
            for place, producer in enumerate(PRODUCERS)
        ]
        for group, event in zip(self.groups, flowing, strict=True):
            came = await loop.run_in_executor(pool, event.wait, FLOWING_SECONDS)
            assert came, f"{group.name} was not given a record of each partition"

    async def end(self) -> None:
        """Let everything be acknowledged, and then be consumed."""
        self._enough.set()
        await asyncio.gather(*self._producers)
        self._ending.set()
        await asyncio.wait(self._members, timeout=CATCH_UP_SECONDS)
        self._abandoned.set()
        await asyncio.gather(*self._members)

    def abandon(self) -> None:
        """Let every thread end as soon as it can."""
        self._enough.set()
        self._abandoned.set()


@asynccontextmanager
async def traffic(servers: str, topic: str, logs: Sequence[Path]) -> AsyncIterator[Traffic]:
    """Traffic that flows; at the end it is compared, and a fault fails the test."""
    it = Traffic(servers, topic, logs)
    with ThreadPoolExecutor(len(PRODUCERS) + MEMBERS * len(GROUPS) + 1) as pool:
        try:
            async with asyncio.TaskGroup() as tasks:
                await it.begin(tasks, pool)
                yield it
                await it.end()
            await asyncio.get_running_loop().run_in_executor(pool, it.check)
        finally:
            it.abandon()
    # kafka-python leaves sockets that could not connect to the collector, which warns of them:
    # here, where the warning is expected, and not in some other test.
    gc.collect()


def _noting(written: Written, number: int) -> Callable[[int], None]:
    return lambda offset: written.acknowledge(number, 1, offset)


@dataclass
class Left:
    """What a group has left of a partition for a member that comes late."""

    committed: int
    end: int
    given: list[int] = field(default_factory=list)
    """The offsets of the records that the member was given."""


def _left_to(servers: str, group: str, topic: str) -> list[Left]:
    """By partition, what is left to this member, who goes on from where the group stands."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        ends = [consumer.get_watermark_offsets(each, CLOSE_SECONDS)[1] for each in partitions]
        committed = consumer.committed(partitions, CLOSE_SECONDS)
        left = [Left(each.offset, end) for each, end in zip(committed, ends, strict=True)]
        consumer.assign([TopicPartition(topic, n, OFFSET_STORED) for n in range(PARTITIONS)])
        for _ in range(POLLS_MAX):
            if all(len(each.given) >= each.end - each.committed for each in left):
                break
            for message in consumer.consume(RECORDS_MAX, POLL_SECONDS):
                one = given(message)
                left[one.partition].given.append(one.offset)
    finally:
        consumer.close()
    return left

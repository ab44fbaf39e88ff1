"""Unmodified clients at work on one topic of a real cluster, and the account of it.

A producer of each kind writes to its half of the partitions, with acks=all; who reads them is up to
`kafka_groups` and `assigned_traffic`. They are at it while a test does its worst, and then it is
compared.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from admin.tools.demo.workload import Written, content, number_of
from tests.process.kafka_accounts import Deliveries, Run
from tests.process.kafka_clients import (
    NO_SECURITY,
    ConfluentProducer,
    PythonProducer,
    Reads,
    Settings,
    Writes,
)
from tests.process.kafka_evidence import evidence

RECORD_BYTES: Final = 100
ROUND_SECONDS: Final = 0.05
RECORDS_A_ROUND: Final = 4
"""A producer writes so many in a round, to its partitions in turn."""
UNANSWERED_MAX: Final = 3_000
"""Records that a producer has not heard of; with more it waits."""
FLOWING_SECONDS: Final = 90
CATCH_UP_SECONDS: Final = 120

UNMODIFIED_CLIENTS: Final = (
    pytest.mark.usefixtures("no_lines_of_kafka_python"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
)
"""The pytest options of a module that lets such traffic flow while brokers die."""

PRODUCERS: Final[tuple[Callable[[str, Settings], Writes], ...]] = (
    PythonProducer,
    ConfluentProducer,
)

Runs = dict[int, Run]
"""By partition: what one member is given between two assignments."""


@dataclass
class ReaderGroup:
    """A consumer group, or a single reader."""

    name: str
    join: Callable[[Runs], Reads]
    """Another member, which begins a run of each partition whenever it is assigned that."""
    members: int
    begun: Sequence[int]
    """By partition: how many records they are given before the traffic counts as flowing."""
    deliveries: Deliveries


class Traffic:
    """The traffic of one topic; `flow` starts and ends it."""

    def __init__(
        self,
        servers: str,
        topic: str,
        written: Sequence[Written],
        reader_groups: Sequence[ReaderGroup],
        logs: Sequence[Path],
        security: Settings = NO_SECURITY,
    ) -> None:
        """`written` is what each partition has already; `logs` are the folders of the brokers'
        logs: evidence, should there be a fault. `security` is that of the producers."""
        self._servers = servers
        self._topic = topic
        self._written = written
        self._groups = reader_groups
        self._logs = logs
        self._security = security
        self._enough = Event()
        """No more is written."""
        self._ending = Event()
        """Everything is written: readers end once they have it all."""
        self._abandoned = Event()
        """Readers end at once."""
        self._producers: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    @property
    def threads(self) -> int:
        """The number of clients at work at the same time."""
        return len(PRODUCERS) + sum(each.members for each in self._groups)

    @property
    def acknowledged(self) -> int:
        """Records that are acknowledged, in all partitions."""
        return sum(len(each.acknowledged) for each in self._written)

    def produce(
        self, producer: Callable[[str, Settings], Writes], partitions: Sequence[int]
    ) -> None:
        """Write to these partitions in turn until it is enough, and let it be acknowledged."""
        mine = [self._written[partition] for partition in partitions]
        turns = cycle(partitions)
        writes = producer(self._servers, self._security)
        try:
            while not self._enough.wait(ROUND_SECONDS):
                if sum(each.given - len(each.acknowledged) for each in mine) > UNANSWERED_MAX:
                    continue
                for partition in islice(turns, RECORDS_A_ROUND):
                    one = self._written[partition]
                    number, one.given = one.given, one.given + 1
                    value = content(partition, number, RECORD_BYTES)
                    writes.send(self._topic, partition, value, _noting(one, number))
        finally:
            writes.close()

    def read(self, group: ReaderGroup, flowing: Event) -> None:
        """Be one of the group until it has everything."""
        deliveries = group.deliveries
        runs: Runs = {}
        member = group.join(runs)
        try:
            while not self._has_enough(deliveries):
                for partition, offset, value in member.poll():
                    number = number_of(value, partition)
                    deliveries.note(partition, runs[partition], offset, number)
                if not flowing.is_set() and deliveries.reach(group.begun):
                    flowing.set()
        finally:
            member.close()

    def _has_enough(self, deliveries: Deliveries) -> bool:
        if self._abandoned.is_set():
            return True
        return self._ending.is_set() and deliveries.reach([w.given for w in self._written])

    def check(self) -> None:
        """Each group was given what was written, in its order, and nothing else."""
        assert self.acknowledged > 0
        for each in self._groups:
            fault = each.deliveries.fault(self._written)
            assert fault is None, f"{each.name}: {fault}\n{self._evidence(each)}"

    def _evidence(self, group: ReaderGroup) -> str:
        places = group.deliveries.in_question(self._written)
        acknowledged = {
            (partition, offset)
            for partition, offsets in places.items()
            for offset in self._written[partition].acknowledged.values()
            if offset in offsets
        }
        batches = evidence(self._logs, self._topic, places)
        return (
            f"read up to offsets {group.deliveries.ends()}, "
            f"written {[each.given for each in self._written]}\n"
            f"acknowledged of these (partition, offset): {sorted(acknowledged)}\n{batches}"
        )

    async def begin(self, tasks: asyncio.TaskGroup, pool: ThreadPoolExecutor) -> None:
        """Start everything in threads of `pool`; returns once all groups get records."""
        loop = asyncio.get_running_loop()

        async def thread(work: Callable[..., None], *arguments: object) -> None:
            await loop.run_in_executor(pool, work, *arguments)

        flowing = [(each, Event()) for each in self._groups]
        self._readers = [
            tasks.create_task(thread(self.read, group, event))
            for group, event in flowing
            for _ in range(group.members)
        ]
        count = len(self._written)
        self._producers = [
            tasks.create_task(thread(self.produce, producer, range(place, count, len(PRODUCERS))))
            for place, producer in enumerate(PRODUCERS)
        ]
        for group, event in flowing:
            came = await loop.run_in_executor(pool, event.wait, FLOWING_SECONDS)
            assert came, f"{group.name} was given too little of what was written"

    async def end(self) -> None:
        """Let everything be acknowledged, and then be read."""
        self._enough.set()
        await asyncio.gather(*self._producers)
        self._ending.set()
        await asyncio.wait(self._readers, timeout=CATCH_UP_SECONDS)
        self._abandoned.set()
        await asyncio.gather(*self._readers)

    def abandon(self) -> None:
        """Let every thread end as soon as it can."""
        self._enough.set()
        self._abandoned.set()


def _noting(written: Written, number: int) -> Callable[[int], None]:
    return lambda offset: written.acknowledge(number, [offset])


@asynccontextmanager
async def flow(it: Traffic) -> AsyncIterator[Traffic]:
    """Let it flow; at the end it is compared, and a fault fails the test."""
    try:
        with ThreadPoolExecutor(it.threads + 1) as pool:
            try:
                async with asyncio.TaskGroup() as tasks:
                    await it.begin(tasks, pool)
                    yield it
                    await it.end()
                await asyncio.get_running_loop().run_in_executor(pool, it.check)
            finally:
                it.abandon()
    finally:
        # kafka-python leaves sockets that could not connect to the collector, which warns of them:
        # here, where the warning is expected, and not in some other test.
        gc.collect()

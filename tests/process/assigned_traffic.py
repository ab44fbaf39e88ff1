"""Unmodified clients at work on all partitions of a topic while they move, and the account of it.

A producer of each kind writes to its half of the partitions, with acks=all; a consumer of each kind
is assigned all of them and reads from the beginning. It needs no consumer groups, so that brokers
that offer none serve it as well.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from threading import Event
from typing import Final

from admin.demo.accounts import Written, content, number_of
from tests.process.kafka_accounts import Deliveries, Run
from tests.process.kafka_clients import (
    ConfluentProducer,
    ConfluentReader,
    PythonProducer,
    PythonReader,
    Reads,
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

PRODUCERS: Final[tuple[Callable[[str], Writes], ...]] = (PythonProducer, ConfluentProducer)
READERS: Final[dict[str, Callable[[str, str, int], Reads]]] = {
    "kafka-python": PythonReader,
    "confluent-kafka": ConfluentReader,
}


class AssignedTraffic:
    """What goes on at one topic; `assigned_traffic` starts and ends it."""

    def __init__(
        self, servers: str, topic: str, written: Sequence[Written], logs: Sequence[Path]
    ) -> None:
        """`written` is what each partition has already; `logs` are the folders of the brokers'
        logs: evidence, should there be a fault."""
        self._servers = servers
        self._topic = topic
        self._written = written
        self._logs = logs
        self._deliveries = {name: Deliveries(len(written)) for name in READERS}
        self._enough = Event()
        """No more is written."""
        self._ending = Event()
        """Everything is written: readers end once they have it all."""
        self._abandoned = Event()
        """Readers end at once."""
        self._producers: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    @property
    def acknowledged(self) -> int:
        """Records that are acknowledged, in all partitions."""
        return sum(len(each.acknowledged) for each in self._written)

    def produce(self, producer: Callable[[str], Writes], partitions: Sequence[int]) -> None:
        """Write to these partitions in turn until it is enough, and let it be acknowledged."""
        mine = [self._written[partition] for partition in partitions]
        turns = cycle(partitions)
        writes = producer(self._servers)
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

    def read(self, name: str, flowing: Event) -> None:
        """Be the reader of this name until it has everything."""
        deliveries = self._deliveries[name]
        runs = [Run() for _ in self._written]
        # That something written since comes through, and not only what was there before.
        begun = [each.given + 1 for each in self._written[: len(PRODUCERS)]]
        wanted = begun + [0] * (len(self._written) - len(begun))
        reader = READERS[name](self._servers, self._topic, len(self._written))
        try:
            while not self._has_enough(deliveries):
                for partition, offset, value in reader.poll():
                    number = number_of(value, partition)
                    deliveries.note(partition, runs[partition], offset, number)
                if not flowing.is_set() and deliveries.reach(wanted):
                    flowing.set()
        finally:
            reader.close()

    def _has_enough(self, deliveries: Deliveries) -> bool:
        if self._abandoned.is_set():
            return True
        return self._ending.is_set() and deliveries.reach([w.given for w in self._written])

    def check(self) -> None:
        """Each reader was given what was written, in its order, and nothing else."""
        assert self.acknowledged > 0
        for name, deliveries in self._deliveries.items():
            fault = deliveries.fault(self._written)
            places = deliveries.in_question(self._written)
            assert fault is None, f"{name}: {fault}\n{evidence(self._logs, self._topic, places)}"

    async def begin(self, tasks: asyncio.TaskGroup, pool: ThreadPoolExecutor) -> None:
        """Start everything in threads of `pool`; returns once both readers are given records."""
        loop = asyncio.get_running_loop()

        async def thread(work: Callable[..., None], *arguments: object) -> None:
            await loop.run_in_executor(pool, work, *arguments)

        flowing = {name: Event() for name in READERS}
        self._readers = [
            tasks.create_task(thread(self.read, name, event)) for name, event in flowing.items()
        ]
        count = len(self._written)
        self._producers = [
            tasks.create_task(thread(self.produce, producer, range(place, count, len(PRODUCERS))))
            for place, producer in enumerate(PRODUCERS)
        ]
        for name, event in flowing.items():
            came = await loop.run_in_executor(pool, event.wait, FLOWING_SECONDS)
            assert came, f"{name} was given nothing of what was written"

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
    return lambda offset: written.acknowledge(number, 1, offset)


@asynccontextmanager
async def assigned_traffic(
    servers: str, topic: str, written: Sequence[Written], logs: Sequence[Path]
) -> AsyncIterator[AssignedTraffic]:
    """Traffic that flows; at the end it is compared, and a fault fails the test."""
    it = AssignedTraffic(servers, topic, written, logs)
    with ThreadPoolExecutor(len(PRODUCERS) + len(READERS) + 1) as pool:
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

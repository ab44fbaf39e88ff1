"""A producer at a bounded rate, and a consumer that compares what was acknowledged and read."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.client.consumer import Consumer
from admin.client.producer import NO_OFFSET, Producer, Sent
from quorum.clocks import monotonic_ms, wall_ms
from quorum.records.encode import ClientRecord
from quorum.transport.address import Address

_HEAD: Final = "%05d-%012d "
_HEAD_BYTES: Final = len(_HEAD % (0, 0))
RECORD_BYTES_MIN: Final = _HEAD_BYTES


def content(partition: int, number: int, size_bytes: int) -> bytes:
    """The record of this number: partition and number, repeated up to exactly `size_bytes`."""
    assert size_bytes >= RECORD_BYTES_MIN
    head = (_HEAD % (partition, number)).encode()
    return (head * (size_bytes // _HEAD_BYTES + 1))[:size_bytes]


def number_of(value: bytes, partition: int) -> int | None:
    """Return the number of this record, or None if its content is not as written."""
    head = value[:_HEAD_BYTES]
    try:
        number = int(head[6:-1])
    except ValueError:
        return None
    return number if value == content(partition, number, max(len(value), _HEAD_BYTES)) else None


@dataclass(slots=True)
class Written:
    """The records given to one partition, and those it has acknowledged."""

    given: int = 0
    """Records handed over; their numbers are those below it."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The number of each acknowledged record, with its offset, or `NO_OFFSET`."""

    def acknowledge(self, first: int, offsets: Iterable[int]) -> None:
        """The records from `first` on are written at these offsets."""
        self.acknowledged.update(enumerate(offsets, first))


@dataclass(slots=True)
class Read:
    """The records read from one partition."""

    numbers: dict[int, int] = field(default_factory=dict)
    """The offset at which each number was first read."""
    duplicated: int = 0
    foreign: int = 0
    """Records with a content that was never written."""
    disordered: int = 0
    """Records that came after one with a higher number."""
    _last: int = -1

    def note(self, offset: int, number: int | None) -> None:
        """Count a record that was read; `number` is None if its content is not as written."""
        if number is None:
            self.foreign += 1
            return
        if number in self.numbers:
            self.duplicated += 1
            return
        if number < self._last:
            self.disordered += 1
        self._last = max(self._last, number)
        self.numbers[number] = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The two sides compared; `fault` says what is wrong, or None."""

    acknowledged: int
    read: int
    lost: int
    """Acknowledged, but not read."""
    elsewhere: int
    """Acknowledged at another offset than the one where they were read."""
    duplicated: int
    foreign: int
    disordered: int

    @property
    def fault(self) -> str | None:
        """Describe the violations, or return None."""
        wrong = {
            "acknowledged records are lost": self.lost,
            "acknowledged records are at another offset": self.elsewhere,
            "records are there twice": self.duplicated,
            "records are not what was written": self.foreign,
            "records are out of order": self.disordered,
        }
        found = [f"{count} {what}" for what, count in wrong.items() if count]
        return ", ".join(found) or None


def balance(pairs: Iterable[tuple[Written, Read]]) -> Balance:
    """Compare what was written and read in all partitions."""
    both = list(pairs)
    return Balance(
        acknowledged=sum(len(written.acknowledged) for written, _ in both),
        read=sum(len(read.numbers) + read.duplicated + read.foreign for _, read in both),
        lost=sum(len(written.acknowledged.keys() - read.numbers.keys()) for written, read in both),
        elsewhere=sum(_elsewhere(written, read) for written, read in both),
        duplicated=sum(read.duplicated for _, read in both),
        foreign=sum(read.foreign for _, read in both),
        disordered=sum(read.disordered for _, read in both),
    )


def _elsewhere(written: Written, read: Read) -> int:
    return sum(
        1
        for number, offset in written.acknowledged.items()
        if offset != NO_OFFSET and read.numbers.get(number, offset) != offset
    )


LOADED_RECORD_BYTES: Final = 4 * 1024
LOADED_GROUP_RECORDS: Final = 7
STREAMED_RECORD_BYTES: Final = 100
TICK_MS: Final = 20
READ_AGAIN_MS: Final = 100


class Workload:
    """Writes to every partition of a topic, and records what was acknowledged."""

    def __init__(self, producer: Producer, topic: str, partitions: int) -> None:
        self._producer = producer
        self._topic = topic
        self.written = [Written() for _ in range(partitions)]
        self.longest_wait_ms = 0
        """The longest time from handing records over until they were acknowledged."""

    async def load(self, *, for_ms: int, bytes_max: int) -> int:
        """Write to all partitions at full speed, for a time, but no more than `bytes_max`.

        Returns the bytes written, once everything is acknowledged.
        """
        loaded_bytes = 0
        begun_ms = monotonic_ms()
        while monotonic_ms() < begun_ms + for_ms and loaded_bytes < bytes_max:
            for partition in range(len(self.written)):
                await self._send(partition, LOADED_GROUP_RECORDS, LOADED_RECORD_BYTES)
                loaded_bytes += LOADED_GROUP_RECORDS * LOADED_RECORD_BYTES
                # Encoding keeps this task busy; the producer must be able to send meanwhile.
                await asyncio.sleep(0)
        await self._producer.flush()
        self.longest_wait_ms = 0
        return loaded_bytes

    async def stream(self, records_per_second: int, stop: asyncio.Event) -> None:
        """Write small records to all partitions in turn, at this rate, until `stop` is set."""
        partitions = len(self.written)
        started_ms = monotonic_ms()
        given = turn = 0
        while not stop.is_set():
            due = (monotonic_ms() - started_ms) * records_per_second // 1_000
            while given < due:
                count = min(due - given, max(1, records_per_second // 50))
                await self._send(turn % partitions, count, STREAMED_RECORD_BYTES)
                given += count
                turn += 1
            await asyncio.sleep(TICK_MS / 1_000)
        await self._producer.flush()

    async def _send(self, partition: int, count: int, size_bytes: int) -> None:
        written = self.written[partition]
        first, now_ms = written.given, wall_ms()
        records = [
            ClientRecord(now_ms, None, content(partition, number, size_bytes))
            for number in range(first, first + count)
        ]
        written.given += count
        sent = await self._producer.send(self._topic, partition, records)
        sent.add_done_callback(partial(self._note, written, first, monotonic_ms()))

    def _note(
        self, written: Written, first: int, given_ms: int, sent: "asyncio.Future[Sent]"
    ) -> None:
        if sent.cancelled() or sent.exception() is not None:
            return
        self.longest_wait_ms = max(self.longest_wait_ms, monotonic_ms() - given_ms)
        written.acknowledge(first, (position.offset for position in sent.result()))


async def read_back(
    bootstrap: Sequence[Address],
    topic: str,
    written: Sequence[Written],
    within_ms: int,
    config: ClientConfig = NO_CONFIG,
) -> list[Read]:
    """Read everything in the topic, at least up to the last acknowledged record.

    A new leader learns its high watermark only from its followers' next fetches, so this waits up
    to `within_ms` until all acknowledged records can be read.
    """
    partitions = range(len(written))
    found = [Read() for _ in partitions]
    expected = [max(each.acknowledged.values(), default=-1) + 1 for each in written]
    async with Consumer(bootstrap, topic, config=config) as reader:
        spans = await reader.spans(partitions)
        deadline_ms = monotonic_ms() + within_ms
        while monotonic_ms() < deadline_ms and any(
            spans[n].latest < expected[n] for n in partitions
        ):
            await asyncio.sleep(READ_AGAIN_MS / 1_000)
            spans = await reader.spans(partitions)
        start = {number: span.earliest for number, span in spans.items()}
        end = {number: span.latest for number, span in spans.items()}
        async with aclosing(reader.read(start, end)) as chunks:
            async for records in chunks:
                for each in records:
                    number = number_of(each.value or b"", each.partition)
                    found[each.partition].note(each.offset, number)
    return found

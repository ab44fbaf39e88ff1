"""A reader of a topic: from offsets to offsets, every partition in order, nothing twice.

librdkafka reads, and verifies checksums. There is no group and no commit: the caller keeps offsets.
`admin.client.group_reader` is the reader with a group.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.client.librdkafka import POLL_SECONDS, BlockingClient, is_unauthorized
from admin.faults import AdminError
from quorum.transport.address import Address

T = TypeVar("T")

TIMEOUT_MS: Final = 30_000
"""The time without an answering leader after which a reader gives up."""
RECORDS_MAX: Final = 1_000
BUFFER_KBYTES: Final = 8 * 1024


class ReadRecord(NamedTuple):
    """A record of a partition."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def record_of(message: Any) -> ReadRecord:
    """Return the record in a message of librdkafka."""
    return ReadRecord(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.headers() or (),
    )


class Span(NamedTuple):
    """The first offset that a partition holds, and the end of what may be read."""

    earliest: int
    latest: int


class Consumer:
    """Reads `topic` through the brokers at `bootstrap`; use it as an async context."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        config: ClientConfig = NO_CONFIG,
    ) -> None:
        self.topic = topic
        self._client = BlockingClient(
            bootstrap, "metaquorum-reader", timeout_ms=timeout_ms, config=config
        )
        self._consumer = KafkaConsumer(
            {
                **self._client.settings,
                "group.id": "metaquorum-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "isolation.level": "read_uncommitted",
                "enable.partition.eof": True,
                "fetch.error.backoff.ms": 100,
                "queued.max.messages.kbytes": BUFFER_KBYTES,
            }
        )

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close(self._consumer.close)

    async def spans(self, partitions: Sequence[int] | None = None) -> dict[int, Span]:
        """The offsets that these partitions, or all, have; raises `AdminError`."""
        wanted = await self._client.partitions(self.topic, partitions)
        return {each.partition: await self._span(each.partition) for each in wanted}

    async def _span(self, partition: int) -> Span:
        place = TopicPartition(self.topic, partition)
        return Span(
            *await self._until_answered(
                partition, lambda: self._consumer.get_watermark_offsets(place, timeout=1)
            )
        )

    async def offset_at(self, partition: int, time_ms: int) -> int | None:
        """The offset of the first record of this time or later, if there is one; `AdminError`."""
        place = TopicPartition(self.topic, partition, time_ms)

        def look_up() -> int:
            (found,) = self._consumer.offsets_for_times([place], timeout=1)
            if found.error is not None:
                raise KafkaException(found.error)
            return found.offset

        offset = await self._until_answered(partition, look_up)
        return None if offset < 0 else offset

    async def _until_answered(self, partition: int, ask: Callable[[], T]) -> T:
        """Ask for offsets of a partition again until its leader answers, or the time is up."""
        now = asyncio.get_running_loop().time
        deadline = now() + self._client.timeout_ms / 1_000
        while True:
            try:
                return await self._client.call(ask)
            except KafkaException as error:
                reason = self._client.reason_of(error.args[0], f"DESCRIBE on TOPIC {self.topic}")
                failing = f"offsets of {self.topic}-{partition} cannot be read"
                if is_unauthorized(error.args[0]):
                    raise AdminError(f"{failing}: {reason}") from None
                if now() >= deadline:
                    time = f"for {self._client.timeout_ms} ms"
                    raise AdminError(f"{failing} {time}: {reason}") from None
                await asyncio.sleep(POLL_SECONDS)

    def _is_end(self, error: KafkaError) -> bool:
        """Return whether this is the end of a partition; raises `AdminError` if it is a failure."""
        if error.str().startswith("FindCoordinator "):
            # librdkafka looks up the coordinator of the group, which this reader does not join.
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            reason = self._client.reason_of(error, f"READ on TOPIC {self.topic}")
            raise AdminError(f"topic {self.topic} cannot be read: {reason}")
        return True

    async def read(
        self, start: Mapping[int, int], end: Mapping[int, int] | None
    ) -> AsyncGenerator[list[ReadRecord], None]:
        """The records from `start` up to, not including, `end`; without `end`, for ever.

        Raises `AdminError` when a partition cannot be read, or is not answered for too long.
        """
        wanted = {n for n in start if end is None or start[n] < end[n]}
        self._consumer.assign([TopicPartition(self.topic, n, start[n]) for n in sorted(wanted)])
        now = asyncio.get_running_loop().time
        heard = now()
        while wanted:
            records: list[ReadRecord] = []
            messages = await self._client.call(self._consumer.consume, RECORDS_MAX, POLL_SECONDS)
            for message in messages:
                error = message.error()
                if error is not None and not self._is_end(error):
                    continue
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                if error is None:
                    if end is None or offset < end[number]:
                        records.append(record_of(message))
                    offset += 1
                if end is not None and offset >= end[number]:
                    wanted.discard(number)
            if records:
                yield records
            if messages:
                heard = now()
            elif now() >= heard + self._client.timeout_ms / 1_000:
                # Nothing new, or no leader: librdkafka does not tell which, so ask the leaders.
                await self.spans(sorted(wanted))
                heard = now()

"""A producer that loses nothing that it reports, and never changes the order in a partition.

librdkafka delivers; with acks=all it is idempotent (KIP-98). A record not delivered in time
fails the whole producer, since no later record may overtake it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, Final, NamedTuple

import confluent_kafka

from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.client.librdkafka import POLL_SECONDS, BlockingClient
from admin.faults import AdminError
from quorum.records.encode import ClientRecord
from quorum.transport.address import Address
from statemachine.vocabulary import NO_LEADER

DELIVERY_MS: Final = 60_000
"""The time limit of delivering a record."""
REPLICATION_MS: Final = 6_000
PROPAGATION_MS: Final = 2_000
"""The time in which an unknown topic may become known to the brokers."""
BATCH_BYTES: Final = 256 * 1024
BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024
RECORD_BYTES_MAX: Final = 2 * 1024 * 1024
FULL_SECONDS: Final = 0.01
"""The pause of `send` while the buffer is full."""

ANY_PARTITION: Final = -1
NO_OFFSET: Final = -1


class DeliveryFailed(AdminError):
    """Records could not be written; whether the last attempt wrote them is unknown."""


class Position(NamedTuple):
    """The position of a record; `NO_OFFSET` if the leader has it at an unknown offset."""

    partition: int
    offset: int


Sent = Sequence[Position]
"""The positions of the records of one `send`; in each partition in their order."""


class Producer:
    """Writes records through the brokers at `bootstrap`; use it as an async context."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        acks: str = "all",
        compression: str = "none",
        delivery_ms: int = DELIVERY_MS,
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
        config: ClientConfig = NO_CONFIG,
    ) -> None:
        """`acks` and `compression` are those of Kafka's producers; `batch_bytes` limits a batch,
        and `buffer_bytes_max` all records under way, above which `send` waits."""
        self._client = BlockingClient(
            bootstrap, "metaquorum-producer", timeout_ms=delivery_ms, config=config
        )
        self._producer = confluent_kafka.Producer(
            {
                **self._client.settings,
                "acks": acks,
                "enable.idempotence": acks == "all",
                "compression.type": compression,
                # With several, a record may be written twice (docs/kafka.md).
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": delivery_ms,
                "request.timeout.ms": REPLICATION_MS,
                "topic.metadata.propagation.max.ms": PROPAGATION_MS,
                "linger.ms": 0,
                "batch.size": batch_bytes,
                "message.max.bytes": RECORD_BYTES_MAX,
                "queue.buffering.max.kbytes": buffer_bytes_max // 1024,
                "partitioner": "murmur2_random",
            }
        )
        self._under_way: set[asyncio.Future[Sent]] = set()
        self._keyless: dict[str, Iterator[int]] = {}
        """By topic, the partitions of records without a key, in turn."""
        self._failure: AdminError | None = None
        self._closing = False

    async def __aenter__(self) -> "Producer":
        self._polling = asyncio.get_running_loop().create_task(self._poll())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._fail(DeliveryFailed("the producer was closed before the records were sent"))
        self._closing = True
        await self._polling
        await self._client.close(self._close)

    def _close(self) -> None:
        # A fatal error is raised here again; it has been reported.
        with contextlib.suppress(confluent_kafka.KafkaException):
            self._producer.close()

    async def check(self, topic: str, partition: int) -> None:
        """Raise `AdminError` unless the topic exists, and has the partition, if it is one.

        Records without a key then go to the partitions that have a leader now, in turn: the sticky
        partitioner of librdkafka leaves most of them empty in a short session.
        """
        wanted = None if partition == ANY_PARTITION else [partition]
        found = await self._client.partitions(topic, wanted)
        led = [each.partition for each in found if each.leader != NO_LEADER]
        self._keyless[topic] = cycle(led or [each.partition for each in found])

    async def send(
        self, topic: str, partition: int, records: Sequence[ClientRecord]
    ) -> "asyncio.Future[Sent]":
        """Send records in this order; wait while the buffer is full.

        `ANY_PARTITION` chooses one by the key, as every Kafka client does; without a key, the next
        one after a `check`, else any.
        The future tells when they are written as safely as `acks` says, or raises `AdminError`.
        """
        assert records
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[Sent] = loop.create_future()
        positions: list[Position] = []
        right = f"WRITE on TOPIC {topic}"

        def delivered(error: Any, message: Any) -> None:
            # In the thread.
            if error is not None:
                reason = f"records for {topic}-{message.partition()} were not written"
                reason += f": {self._client.reason_of(error, right)}"
                loop.call_soon_threadsafe(self._fail, DeliveryFailed(reason))
                return
            offset = message.offset()
            positions.append(Position(message.partition(), NO_OFFSET if offset is None else offset))
            if len(positions) == len(records):
                loop.call_soon_threadsafe(_resolve, sent, positions)

        self._under_way.add(sent)
        sent.add_done_callback(self._under_way.discard)
        for record in records:
            number = partition
            if number == ANY_PARTITION and record.key is None and topic in self._keyless:
                number = next(self._keyless[topic])
            await self._produce(topic, number, record, delivered)
        return sent

    async def flush(self) -> None:
        """Wait until all records are acknowledged; raises the failure of the producer, if any."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def _produce(
        self,
        topic: str,
        partition: int,
        record: ClientRecord,
        delivered: Callable[[Any, Any], None],
    ) -> None:
        while self._failure is None:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=delivered,
                    timestamp=record.timestamp_ms,
                    headers=list(record.headers),
                )
            except BufferError:
                await asyncio.sleep(FULL_SECONDS)
            except confluent_kafka.KafkaException as error:
                why = self._client.reason_of(error.args[0], f"WRITE on TOPIC {topic}")
                self._fail(DeliveryFailed(f"records for {topic} were not written: {why}"))
            else:
                return
        raise self._failure

    async def _poll(self) -> None:
        while not self._closing:
            try:
                await self._client.call(self._producer.poll, POLL_SECONDS)
            except confluent_kafka.KafkaException as error:
                # A fatal one: this producer writes nothing any more.
                topics = " or ".join(sorted(self._keyless)) or "of any name"
                why = self._client.reason_of(error.args[0], f"WRITE on TOPIC {topics}")
                self._fail(DeliveryFailed(f"records were not written: {why}"))
                return

    def _fail(self, error: AdminError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._producer.purge(blocking=False)
        for sent in list(self._under_way):
            sent.set_exception(error)
            # Retrieved here, so that a future without a waiter is not reported.
            sent.exception()


def _resolve(sent: "asyncio.Future[Sent]", positions: Sent) -> None:
    if not sent.done():
        sent.set_result(positions)

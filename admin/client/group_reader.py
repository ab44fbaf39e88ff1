"""A member of a consumer group, for one topic: what the caller has taken is committed.

A record is committed once the caller asks for more, and not if it fails with it: each is delivered
at least once. Groups need brokers that keep them, which the embedded brokers do not.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.client.consumer import BUFFER_KBYTES, RECORDS_MAX, TIMEOUT_MS, ReadRecord, record_of
from admin.client.kafka_only import KafkaOnly, check_offered
from admin.client.librdkafka import POLL_SECONDS, BlockingClient
from admin.faults import AdminError
from quorum.transport.address import Address


class GroupReader:
    """Reads `topic` as a member of `group`; use it as an async context."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        group: str,
        *,
        from_beginning: bool,
        timeout_ms: int = TIMEOUT_MS,
        config: ClientConfig = NO_CONFIG,
    ) -> None:
        """`from_beginning`: where the group has committed nothing, begin with the oldest record."""
        self.topic = topic
        self.group = group
        self._client = BlockingClient(
            bootstrap, "metaquorum-group-reader", timeout_ms=timeout_ms, config=config
        )
        self._consumer = KafkaConsumer(
            {
                **self._client.settings,
                "group.id": group,
                # What is stored is committed now and then, and by `close`.
                "enable.auto.commit": True,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest" if from_beginning else "latest",
                "check.crcs": True,
                "isolation.level": "read_uncommitted",
                "enable.partition.eof": True,
                "fetch.error.backoff.ms": 100,
                "queued.max.messages.kbytes": BUFFER_KBYTES,
            }
        )
        self._unfinished: set[int] | None = None
        """The assigned partitions that have not been read to their end; None: none is assigned."""

    async def __aenter__(self) -> "GroupReader":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close(self._consumer.close)

    async def read(
        self, records_max: int | None, *, to_end: bool
    ) -> AsyncGenerator[list[ReadRecord], None]:
        """The records that the group has not committed; raises `AdminError`.

        With `to_end` it stops where all assigned partitions have been read to their end.
        """
        await check_offered(self._client.ask, KafkaOnly.JOIN_GROUP)
        await self._client.partitions(self.topic)
        self._consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked)
        left = records_max
        now = asyncio.get_running_loop().time
        heard = now()
        while left != 0 and not (to_end and self._unfinished == set()):
            count = RECORDS_MAX if left is None else min(left, RECORDS_MAX)
            messages = await self._client.call(self._consumer.consume, count, POLL_SECONDS)
            records = [record_of(each) for each in messages if self._is_record(each)]
            if records:
                yield records
                await self._client.call(self._store, records)
                left = None if left is None else left - len(records)
            if messages:
                heard = now()
            elif now() >= heard + self._client.timeout_ms / 1_000:
                # Nothing new, or no broker: librdkafka does not tell which.
                await self._client.partitions(self.topic)
                heard = now()

    def _assigned(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        self._unfinished = {each.partition for each in partitions} or None

    def _revoked(self, _: object, __: Sequence[TopicPartition]) -> None:
        self._unfinished = None

    def _is_record(self, message: Any) -> bool:
        """Return whether it is a record, and note the end of a partition; raises `AdminError`."""
        error = message.error()
        if error is None:
            if self._unfinished is not None:
                self._unfinished.add(message.partition())
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            if self._unfinished is not None:
                self._unfinished.discard(message.partition())
            return False
        is_of_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        resource = f"GROUP {self.group}" if is_of_group else f"TOPIC {self.topic}"
        reason = self._client.reason_of(error, f"READ on {resource}")
        raise AdminError(f"topic {self.topic} cannot be read as group {self.group}: {reason}")

    def _store(self, records: Sequence[ReadRecord]) -> None:
        ends = {each.partition: each.offset + 1 for each in records}
        places = [TopicPartition(self.topic, number, end) for number, end in ends.items()]
        # Another member has the partition meanwhile: it reads these records again.
        with contextlib.suppress(KafkaException):
            self._consumer.store_offsets(offsets=places)

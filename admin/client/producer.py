"""A producer that loses nothing that it reports, and never changes the order in a partition.

Each partition is a lane: one request at a time, in the order of `send`, the next one gathering
meanwhile. With acks=all the producer is idempotent (KIP-98): it numbers its batches, and sends one
again, byte for byte, until the leader has it exactly once. What could not be delivered in time
fails the whole producer, since nothing may overtake it.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Any, Final, NamedTuple

from admin.client.asking import Asker, Question
from admin.client.channels import Channels, Form, NoResponse
from admin.client.routes import RETRIABLE, Patience, Route, Routes
from admin.faults import AdminError, Refused, explained
from admin.model import PartitionId
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.records.encode import ClientRecord, encode_client
from quorum.transport.address import Address

DELIVERY_MS: Final = 60_000
"""How long a batch is tried, from its first request on."""
ANSWER_MS: Final = 8_000
"""How long one request may stay unanswered; a broker gives up waiting for replicas before."""
REPLICATION_MS: Final = 6_000
BATCH_BYTES: Final = 256 * 1024
"""A batch gathers sends up to this size; one that is larger goes alone."""
BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of records that wait or are under way; `send` waits while there are more."""
RECORD_OVERHEAD_BYTES: Final = 24
SEQUENCE_MASK: Final = 2**31 - 1

NO_OFFSET: Final = -1

assert REPLICATION_MS < ANSWER_MS < DELIVERY_MS
assert BATCH_BYTES < BUFFER_BYTES_MAX


class Acks(IntEnum):
    """The replicas that must have a record before it counts as written."""

    ALL = -1
    LEADER = 1


class DeliveryFailed(AdminError):
    """Records could not be written in time; whether the last attempt wrote them is unknown."""


class Sent(NamedTuple):
    """The position of the records of one `send`: the offset of the first one.

    `NO_OFFSET` when an earlier attempt had written them and the leader no longer knows where.
    """

    id: PartitionId
    offset: int


@dataclass(frozen=True, slots=True)
class _Parcel:
    """The records of one `send`."""

    records: Sequence[ClientRecord]
    size_bytes: int
    sent: "asyncio.Future[Sent]"


class _Lane:
    """One partition: what waits for it, its next sequence number, and the task that delivers."""

    __slots__ = ("id", "sequence", "task", "waiting")

    def __init__(self, id: PartitionId) -> None:
        self.id = id
        self.sequence = 0
        self.waiting: deque[_Parcel] = deque()
        self.task: asyncio.Task[None] | None = None

    def take(self, batch_bytes: int) -> list[_Parcel]:
        """The parcels of the next batch: at least one, and no more than fit."""
        taken = [self.waiting.popleft()]
        size_bytes = taken[0].size_bytes
        while self.waiting and size_bytes + self.waiting[0].size_bytes <= batch_bytes:
            taken.append(self.waiting.popleft())
            size_bytes += taken[-1].size_bytes
        return taken


class Producer:
    """Writes records through the brokers at `bootstrap`; use it as an async context."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        acks: Acks = Acks.ALL,
        delivery_ms: int = DELIVERY_MS,
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
        client_id: str = "metaquorum-producer",
    ) -> None:
        """`batch_bytes` is the size up to which sends to one partition are gathered into a batch,
        `buffer_bytes_max` that of all records under way, above which `send` waits."""
        self._acks = acks
        self._delivery_ms = delivery_ms
        self._batch_bytes = batch_bytes
        self._buffer_bytes_max = buffer_bytes_max
        self._asker = Asker(bootstrap, client_id)
        self._routes = Routes(bootstrap, client_id, timeout_ms=delivery_ms)
        self._channels = Channels(client_id)
        self._lanes: dict[PartitionId, _Lane] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self._buffered_bytes = 0
        self._room = asyncio.Condition()
        self._failure: AdminError | None = None

    async def __aenter__(self) -> "Producer":
        if self._acks is Acks.ALL:
            question = Question(
                api_key=ApiKey.INIT_PRODUCER_ID,
                fill=lambda form: form.request(
                    transactional_id=None, transaction_timeout=form.patience
                ),
                failing="a producer id cannot be had",
            )
            answer = await self._asker.ask(question, within_ms=self._delivery_ms)
            self._producer_id = answer.value.producer_id
            self._producer_epoch = answer.value.producer_epoch
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def partitions(self, topic: str) -> int:
        """The number of partitions of the topic; raises `AdminError`, also for an unknown topic."""
        return len((await self._routes.find(topic)).leaders)

    async def send(
        self, topic: str, partition: int, records: Sequence[ClientRecord]
    ) -> "asyncio.Future[Sent]":
        """Hand over records that shall lie behind each other; waits while too much is under way.

        The future tells when they are written as safely as `acks` says, or raises `AdminError`.
        """
        assert records
        size_bytes = sum(map(_size_bytes, records))
        async with self._room:
            await self._room.wait_for(
                lambda: self._buffered_bytes < self._buffer_bytes_max or self._failure is not None
            )
            if self._failure is not None:
                raise self._failure
            self._buffered_bytes += size_bytes
        loop = asyncio.get_running_loop()
        parcel = _Parcel(records, size_bytes, loop.create_future())
        id = PartitionId(topic, partition)
        lane = self._lanes.get(id) or self._lanes.setdefault(id, _Lane(id))
        lane.waiting.append(parcel)
        if lane.task is None or lane.task.done():
            lane.task = loop.create_task(self._run(lane))
        return parcel.sent

    async def flush(self) -> None:
        """Return when nothing is under way; raises what made the producer fail, if it did."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        await asyncio.gather(*tasks)
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Give up what is under way (`flush` first to wait for it) and close the connections."""
        if self._failure is None:
            self._failure = DeliveryFailed("the producer was closed before the records were sent")
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail_waiting(self._failure)
        await asyncio.gather(self._channels.close(), self._routes.close(), self._asker.close())

    async def _run(self, lane: _Lane) -> None:
        while lane.waiting and self._failure is None:
            parcels = lane.take(self._batch_bytes)
            try:
                offset = await self._deliver(lane, parcels)
            except AdminError as error:
                lane.waiting.extendleft(reversed(parcels))
                self._failure = error
                self._fail_waiting(error)
            except asyncio.CancelledError:
                lane.waiting.extendleft(reversed(parcels))
                raise
            else:
                _resolve(lane.id, parcels, offset)
            await self._release(sum(parcel.size_bytes for parcel in parcels))

    async def _deliver(self, lane: _Lane, parcels: Sequence[_Parcel]) -> int:
        """Send one batch until it is written; return its offset, or `NO_OFFSET`."""
        records = [record for parcel in parcels for record in parcel.records]
        numbered = self._acks is Acks.ALL
        batch = bytes(
            encode_client(
                records,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                base_sequence=lane.sequence if numbered else -1,
            )
        )
        patience = Patience(self._delivery_ms)
        route: Route | None = None
        while True:
            route = await (
                self._routes.find(lane.id.topic)
                if route is None
                else self._routes.look_again(lane.id.topic, seen=route)
            )
            outcome = await self._attempt(lane.id, batch, route)
            if isinstance(outcome, int):
                lane.sequence = (lane.sequence + len(records)) & SEQUENCE_MASK
                return outcome
            if not await patience.pause():
                raise DeliveryFailed(
                    f"{len(records)} records for {lane.id} could not be written within "
                    f"{self._delivery_ms} ms: {outcome}"
                )

    async def _attempt(self, id: PartitionId, batch: bytes, route: Route) -> int | str:
        """The offset of the batch, or why it must be tried again; raises `Refused`."""
        leader = route.leader(id.topic, id.partition)
        if leader is None:
            return "it has no leader"

        data = {"index": id.partition, "records": batch}

        def fill(form: Form) -> Any:
            return form.request(
                transactional_id=None,
                acks=self._acks.value,
                timeout=timedelta(milliseconds=REPLICATION_MS),
                topic_data=[{"name": id.topic, "partition_data": [data]}],
            )

        try:
            response = await self._channels.ask(leader, ApiKey.PRODUCE, fill, timeout_ms=ANSWER_MS)
        except NoResponse as error:
            return str(error)
        found = response.value.responses[0].partition_responses[0]
        code = found.error_code.value
        message = getattr(found, "error_message", None)
        if code == 0:
            return int(found.base_offset)
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return NO_OFFSET
        if code in RETRIABLE:
            return f"{leader}: {explained(code, message)}"
        raise Refused(f"records for {id} were not written", code, message)

    async def _release(self, size_bytes: int) -> None:
        async with self._room:
            self._buffered_bytes -= size_bytes
            self._room.notify_all()

    def _fail_waiting(self, error: AdminError) -> None:
        for lane in self._lanes.values():
            while lane.waiting:
                sent = lane.waiting.popleft().sent
                if not sent.done():
                    sent.set_exception(error)
                    # Whoever no longer waits for it has seen the failure elsewhere.
                    sent.exception()


def _resolve(id: PartitionId, parcels: Sequence[_Parcel], offset: int) -> None:
    for parcel in parcels:
        if not parcel.sent.done():
            parcel.sent.set_result(Sent(id, offset))
        if offset != NO_OFFSET:
            offset += len(parcel.records)


def _size_bytes(record: ClientRecord) -> int:
    return len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES


_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that every Kafka client sends this key to, so that keys stay together."""
    assert partitions > 0
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash 2 of 32 bits with Kafka's seed, without a sign."""
    whole = len(data) & ~3
    hashed = _SEED ^ len(data)
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word ^= word >> 24
        hashed = (hashed * _M & _MASK) ^ (word * _M & _MASK)
    if whole < len(data):
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _M & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _M & _MASK
    return hashed ^ (hashed >> 15)

"""A reader of a topic: from offsets to offsets, every partition in order, nothing twice.

Checksums are verified. It has no group and commits nothing: whoever reads keeps the offsets.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

from admin.client.channels import Channels, Fill, NoResponse
from admin.client.routes import RETRIABLE, Patience, Route, Routes
from admin.faults import AdminError, Refused, explained
from quorum.protocol.apis import ApiKey
from quorum.records.batch import CorruptBatch, check_crc, headers, whole_bytes
from quorum.records.decode import Record, UnsupportedCodec, decode
from quorum.transport.address import Address

TIMEOUT_MS: Final = 30_000
"""How long partitions may be without a leader that answers before a reader gives up."""
ANSWER_MS: Final = 8_000
WAIT_MS: Final = 300
"""How long a leader may wait for new records."""
PARTITION_BYTES: Final = 1024 * 1024
FETCH_BYTES: Final = 8 * 1024 * 1024

CONSUMER: Final = -1
NO_EPOCH: Final = -1


class Position(IntEnum):
    """The ends of a partition, as ListOffsets calls them (KIP-79)."""

    LATEST = -1
    EARLIEST = -2


class Chunk(NamedTuple):
    """Records of one partition, behind each other; control records are left out."""

    partition: int
    records: Sequence[Record]


class _Looked(NamedTuple):
    """The answers of all leaders by partition, and the reason why some are missing."""

    found: Mapping[int, Any]
    trouble: str | None


class Consumer:
    """Reads `topic` through the brokers at `bootstrap`; use it as an async context."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        client_id: str = "metaquorum-reader",
    ) -> None:
        self.topic = topic
        self._timeout_ms = timeout_ms
        self._routes = Routes(bootstrap, client_id, timeout_ms=timeout_ms)
        self._channels = Channels(client_id)

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.gather(self._channels.close(), self._routes.close())

    async def partitions(self) -> Sequence[int]:
        """The partitions of the topic; raises `AdminError` where there is none."""
        return sorted((await self._routes.find(self.topic)).leaders)

    async def offsets(self, at: Position, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset that is held, or the end of what may be read, of each partition."""
        offsets: dict[int, int] = {}
        wanted = set(partitions)
        patience = Patience(self._timeout_ms)
        route = await self._routes.find(self.topic)
        while wanted:
            fill = partial(self._list, at=at)
            looked = await self._ask_leaders(ApiKey.LIST_OFFSETS, route, wanted, fill)
            offsets.update({number: found.offset for number, found in looked.found.items()})
            wanted -= looked.found.keys()
            if wanted:
                if not await patience.pause():
                    reason = looked.trouble or "no answer about some partitions"
                    raise self._given_up(f"offsets of topic {self.topic} cannot be had", reason)
                route = await self._routes.look_again(self.topic, seen=route)
        return offsets

    async def read(
        self, start: Mapping[int, int], end: Mapping[int, int] | None
    ) -> AsyncGenerator[Chunk, None]:
        """The records from `start` up to, not including, `end`; for ever where it is None.

        Raises `AdminError` when a partition cannot be read, or is not answered for too long.
        """
        at = dict(start)
        route = await self._routes.find(self.topic)
        patience = Patience(self._timeout_ms)
        while wanted := {n for n in at if end is None or at[n] < end[n]}:
            fill = partial(self._fetch, route=route, at=at)
            looked = await self._ask_leaders(ApiKey.FETCH, route, wanted, fill)
            for number in sorted(looked.found):
                chunk, at[number] = _chunk(
                    number, looked.found[number], at[number], None if end is None else end[number]
                )
                if chunk.records:
                    yield chunk
            if looked.trouble is None:
                patience.renew()
                continue
            if not await patience.pause():
                raise self._given_up(f"topic {self.topic} cannot be read", looked.trouble)
            route = await self._routes.look_again(self.topic, seen=route)

    def _given_up(self, failing: str, reason: str) -> AdminError:
        return AdminError(f"{failing} for {self._timeout_ms} ms: {reason}")

    async def _ask_leaders(
        self,
        api_key: ApiKey,
        route: Route,
        wanted: Iterable[int],
        fill: Callable[[Sequence[int]], Fill],
    ) -> _Looked:
        """Ask every leader at once about its partitions among `wanted`."""
        groups: dict[Address, list[int]] = {}
        trouble: str | None = None
        for number in sorted(wanted):
            leader = route.leader(self.topic, number)
            if leader is None:
                trouble = f"partition {number} has no leader"
            else:
                groups.setdefault(leader, []).append(number)
        answers = await asyncio.gather(
            *(self._ask(leader, api_key, fill(part)) for leader, part in groups.items())
        )
        found: dict[int, Any] = {}
        for leader, answer in zip(groups, answers, strict=True):
            if isinstance(answer, str):
                trouble = answer
                continue
            for each in answer:
                code = each.error_code.value
                if code == 0:
                    found[each.partition_index] = each
                elif code in RETRIABLE:
                    trouble = f"{leader}: {explained(code, None)}"
                else:
                    what = f"partition {each.partition_index} of {self.topic} cannot be read"
                    raise Refused(what, code, None)
        return _Looked(found, trouble)

    async def _ask(self, leader: Address, api_key: ApiKey, fill: Fill) -> list[Any] | str:
        """The leader's answer for each partition, or the reason why there is none."""
        try:
            response = await self._channels.ask(leader, api_key, fill, timeout_ms=ANSWER_MS)
        except NoResponse as error:
            return str(error)
        found = response.value
        topics = found.topics if api_key is ApiKey.LIST_OFFSETS else found.responses
        return [each for topic in topics for each in topic.partitions]

    def _list(self, part: Sequence[int], at: Position) -> Fill:
        partitions = [
            {"partition_index": each, "current_leader_epoch": NO_EPOCH, "timestamp": at.value}
            for each in part
        ]
        topic = {"name": self.topic, "partitions": partitions}
        return lambda form: form.request(replica_id=CONSUMER, isolation_level=0, topics=[topic])

    def _fetch(self, part: Sequence[int], route: Route, at: Mapping[int, int]) -> Fill:
        partitions = [
            {
                "partition": number,
                "current_leader_epoch": NO_EPOCH,
                "fetch_offset": at[number],
                "last_fetched_epoch": NO_EPOCH,
                "log_start_offset": -1,
                "partition_max_bytes": PARTITION_BYTES,
            }
            for number in part
        ]
        topic = {"topic": self.topic, "topic_id": route.topic_id, "partitions": partitions}
        return lambda form: form.request(
            replica_id=CONSUMER,
            max_wait=timedelta(milliseconds=WAIT_MS),
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic],
            forgotten_topics_data=(),
        )


def _chunk(partition: int, found: Any, at: int, end: int | None) -> tuple[Chunk, int]:
    """The records in one partition's part of an answer from `at` on, and where to go on."""
    data = found.records or b""
    try:
        whole = memoryview(data)[: whole_bytes(data)]
        next_offset = at
        for position, header in headers(whole):
            check_crc(header, position, whole[position : position + header.size_bytes])
            next_offset = max(next_offset, header.end_offset)
        records = [
            record
            for record in decode(whole)
            if at <= record.offset and (end is None or record.offset < end) and not record.control
        ]
    except (CorruptBatch, UnsupportedCodec) as error:
        raise AdminError(f"partition {partition} at offset {at}: {error}") from None
    return Chunk(partition, records), next_offset

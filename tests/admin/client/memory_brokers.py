"""Brokers for tests: one topic in memory, real sockets, and whatever trouble a test asks for.

A batch is appended once, whoever sends it twice: batches are told apart by producer id and
sequence number, as Kafka's brokers do. A partition is led by one of the brokers; the lead can be
moved, and all brokers share what is written.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from quorum.protocol.apis import ApiKey
from quorum.records.batch import header_at
from quorum.records.decode import Record, decode
from quorum.transport.address import Address
from tests.admin.scripted_node import Asked, HangUp, ScriptedNode, listening

TOPIC: Final = "orders"
TOPIC_ID: Final = UUID("524a1f35-3e2e-4a52-8f3e-2e2a52c5e6a6")
FIRST_ID: Final = 101
NOT_LEADER: Final = 6
UNKNOWN_TOPIC: Final = 3
NO_ERROR: Final = 0

Trouble = Callable[[int], int | None]
"""Asked before a batch for a partition is taken: an error code, None for none, or `HangUp`."""


@dataclass(slots=True)
class MemoryPartition:
    """The records of a partition, and its leader."""

    leader: int
    batches: list[bytes] = field(default_factory=list)
    appended: dict[tuple[int, int], int] = field(default_factory=dict)
    end: int = 0

    def append(self, data: bytes) -> int:
        """The base offset of the batch, appended now or before."""
        header = header_at(data)
        key = (header.producer_id, header.base_sequence)
        if header.producer_id >= 0 and key in self.appended:
            return self.appended[key]
        batch, base = bytearray(data), self.end
        batch[0:8] = base.to_bytes(8, "big")
        self.batches.append(bytes(batch))
        self.appended[key] = base
        self.end += header.record_count
        return base

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in decode(batch)]


class MemoryBrokers:
    """`count` brokers that share a topic of `partitions` partitions."""

    def __init__(self, *, count: int = 2, partitions: int = 2) -> None:
        self.partitions = [
            MemoryPartition(leader=FIRST_ID + number % count) for number in range(partitions)
        ]
        self.before_append: Trouble = lambda _: None
        self.after_append: Trouble = lambda _: None
        self.before_list: Trouble = lambda _: None
        self.nodes = [self._node(FIRST_ID + place) for place in range(count)]

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[list[Address]]:
        async with listening(*self.nodes) as addresses:
            yield addresses

    def asked(self, api_key: ApiKey) -> list[Asked]:
        """Every request for this API, of all brokers."""
        return [one for node in self.nodes for one in node.asked if one.api_key is api_key]

    def values(self, partition: int) -> list[bytes]:
        return [record.value or b"" for record in self.partitions[partition].records()]

    def _node(self, id: int) -> ScriptedNode:
        return ScriptedNode(
            {
                ApiKey.METADATA: self._metadata,
                ApiKey.INIT_PRODUCER_ID: lambda asked: asked.respond(
                    NO_ERROR, producer_id=7, producer_epoch=0
                ),
                ApiKey.PRODUCE: lambda asked: self._produce(asked, id),
                ApiKey.LIST_OFFSETS: lambda asked: self._list_offsets(asked, id),
                ApiKey.FETCH: lambda asked: self._fetch(asked, id),
            }
        )

    def _metadata(self, asked: Asked) -> Any:
        brokers = tuple(
            asked.part(
                "MetadataResponseBroker",
                node_id=FIRST_ID + place,
                host=node.address.host,
                port=node.address.port,
                rack=None,
            )
            for place, node in enumerate(self.nodes)
        )
        partitions = tuple(
            asked.part(
                "MetadataResponsePartition",
                error=NO_ERROR,
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=1,
                replica_nodes=(),
                isr_nodes=(),
                offline_replicas=(),
            )
            for number, partition in enumerate(self.partitions)
        )
        topics = tuple(
            asked.part(
                "MetadataResponseTopic",
                error=NO_ERROR if each.name == TOPIC else UNKNOWN_TOPIC,
                name=each.name,
                topic_id=TOPIC_ID,
                partitions=partitions if each.name == TOPIC else (),
            )
            for each in asked.message.topics or ()
        )
        return asked.respond(
            NO_ERROR, brokers=brokers, cluster_id="C", controller_id=FIRST_ID, topics=topics
        )

    def _produce(self, asked: Asked, id: int) -> Any:
        ((topic, data),) = [
            (topic.name, data)
            for topic in asked.message.topic_data
            for data in topic.partition_data
        ]
        partition = self.partitions[data.index]
        error = NOT_LEADER if partition.leader != id else self.before_append(data.index)
        offset = -1
        if error is None:
            offset = partition.append(data.records)
            error = self.after_append(data.index)
        answer = asked.part(
            "PartitionProduceResponse",
            error=error or NO_ERROR,
            index=data.index,
            base_offset=offset if error is None else -1,
            record_errors=(),
        )
        response = asked.part("TopicProduceResponse", name=topic, partition_responses=(answer,))
        return asked.respond(responses=(response,))

    def _list_offsets(self, asked: Asked, id: int) -> Any:
        (topic,) = asked.message.topics
        partitions = tuple(
            asked.part(
                "ListOffsetsPartitionResponse",
                error=self.before_list(each.partition_index) or NO_ERROR
                if self.partitions[each.partition_index].leader == id
                else NOT_LEADER,
                partition_index=each.partition_index,
                timestamp=-1,
                offset=0 if each.timestamp == -2 else self.partitions[each.partition_index].end,
                leader_epoch=1,
            )
            for each in topic.partitions
        )
        found = asked.part("ListOffsetsTopicResponse", name=topic.name, partitions=partitions)
        return asked.respond(topics=(found,))

    def _fetch(self, asked: Asked, id: int) -> Any:
        (topic,) = asked.message.topics
        assert topic.topic_id == TOPIC_ID
        partitions = tuple(self._fetched(asked, each, id) for each in topic.partitions)
        found = asked.part("FetchableTopicResponse", topic_id=TOPIC_ID, partitions=partitions)
        return asked.respond(NO_ERROR, session_id=0, responses=(found,))

    def _fetched(self, asked: Asked, each: Any, id: int) -> Any:
        """One batch at a time, cut in the middle of the next, as a broker may do it (KIP-74)."""
        partition = self.partitions[each.partition]
        leads = partition.leader == id
        left = [b for b in partition.batches if header_at(b).end_offset > each.fetch_offset]
        records = b"".join(left[:1]) + b"".join(left[1:2])[:40]
        return asked.part(
            "PartitionData",
            error=NO_ERROR if leads else NOT_LEADER,
            partition_index=each.partition,
            high_watermark=partition.end,
            last_stable_offset=partition.end,
            log_start_offset=0,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=records if leads else b"",
        )


def once(trouble: int | type[HangUp]) -> Trouble:
    """Trouble for the first batch only."""
    left = [trouble]

    def answer(_: int) -> int | None:
        if not left:
            return None
        found = left.pop()
        if isinstance(found, int):
            return found
        raise found

    return answer

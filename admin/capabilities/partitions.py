"""Partitions of the whole cluster by state: without a leader, under min ISR, under-replicated."""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta
from pyroaring import BitMap

from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.paging import Page, PageRequest
from admin.capabilities.schema import Answer, BrokerId, Context, PartitionNumber, Route
from statemachine.configs.effective import min_isr
from statemachine.image.image import Image
from statemachine.image.partition_index import first_after, keys_of
from statemachine.image.partition_table import Topic
from statemachine.partitions.partition_health import PartitionState, in_states, states_of
from statemachine.partitions.registration import PartitionRegistration
from statemachine.slices import LOOKED_AT_US, Slices
from statemachine.vocabulary import NO_LEADER

States = Annotated[
    tuple[PartitionState, ...], Meta(description="In any of these states; empty: all")
]


class TopicPartition(Answer, frozen=True, kw_only=True):
    """A partition of a topic."""

    partition: int
    state: Annotated[
        tuple[PartitionState, ...], Meta(description="All that apply; empty: it is well")
    ]
    leader: Annotated[int | None, Meta(description="null: it has none")]
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_isr: Annotated[int, Meta(description="At most the number of its replicas")]


class ListedPartition(TopicPartition, frozen=True, kw_only=True):
    """A partition with its topic."""

    topic: str


class Partitions(Page, frozen=True, kw_only=True):
    """Partitions in the order of topic and number."""

    partitions: tuple[ListedPartition, ...]


class ListPartitions(PageRequest[Partitions], frozen=True, kw_only=True):
    """List partitions of all topics or of one, by state."""

    state: States = ()
    topic: Annotated[str | None, Meta(description="Of this topic")] = None
    broker_id: Annotated[BrokerId | None, Meta(description="With a replica on this broker")] = None

    NAME = "partitions.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/partitions"),)
    FAILING = "the partitions cannot be listed"
    ITEMS = "partitions"
    POSITION = tuple[str, PartitionNumber]

    async def answer(self, context: Context) -> Partitions:
        return await context.read_long(self._page)

    def _page(self, image: Image) -> Slices[Partitions]:
        index = image.index
        all_topics = image.topics.values()
        topics: Iterable[Topic | None] = all_topics
        if self.topic is not None:
            topic = image.topic_named(self.topic)
            topics = [] if topic is None else [topic]
            keys = BitMap() if topic is None else (yield from keys_of(topic))
        else:
            keys = yield from index.every_key()
        if self.state:
            keys &= yield from in_states(image, self.state)
        if self.broker_id is not None:
            keys &= index.replicas_of.get(self.broker_id, BitMap())
        if len(keys) < len(all_topics):
            topics = index.topics(keys)
        found = yield from first_after(topics, keys, self.after, self.page_size + 1)
        cut = self.cut_off([(topic.name, number) for topic, number in found], len(keys))
        listed = []
        for topic, number in found[: len(cut.shown)]:
            # A page must not evict partitions from the cache of rows.
            partition = topic.partitions.peek(number)
            assert partition is not None
            fields = fields_of(image, topic, number, partition)
            listed.append(ListedPartition(topic=topic.name, **fields))
            yield LOOKED_AT_US
        return Partitions(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            partitions=tuple(listed),
        )


def fields_of(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration
) -> dict[str, Any]:
    """The fields of a `TopicPartition`."""
    return {
        "partition": number,
        "state": states_of(image, topic, partition),
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "in_sync": partition.isr,
        "min_isr": min_isr(image, topic.name, partition),
    }

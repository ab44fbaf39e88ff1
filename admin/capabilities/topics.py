"""Topics: list, create, describe, give more partitions and other configurations, delete."""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from admin.capabilities.configs import AlterConfigs, DescribedConfigs, described
from admin.capabilities.needs import (
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    Needs,
)
from admin.capabilities.paging import Page, PageRequest
from admin.capabilities.partitions import States, TopicPartition, fields_of
from admin.capabilities.schema import (
    A_co,
    Answer,
    BrokerId,
    Context,
    DryRun,
    PartitionNumber,
    Request,
    Route,
    check_part,
)
from controller.apis.topics import new_topic_id
from quorum.core.vocabulary import uuid_to_text
from statemachine.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    PartitionsCreated,
    TopicsCreated,
    TopicsDeleted,
)
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.image.partition_index import first_after, keys_of
from statemachine.partitions.partition_health import PartitionState, in_states
from statemachine.slices import LOOKED_AT_US, Slices
from statemachine.vocabulary import TOPIC_RESOURCE, Resource

BASE: Final = "/v1/topics"
_DEFAULT: Final = -1
"""In Kafka's requests: the setting of the cluster decides."""

TopicName = Annotated[str, Meta(min_length=1, max_length=249, description="Name of a topic")]
Replicas = Annotated[
    tuple[BrokerId, ...], Meta(min_length=1, description="The preferred leader first")
]
Configs = Annotated[dict[str, str], Meta(description="Values by name, as Kafka writes them")]


class ListedTopic(Answer, frozen=True, kw_only=True):
    """A topic and its size."""

    name: str
    partitions: int
    replication_factor: Annotated[
        int, Meta(description="Replicas of its first partition, after the move that is under way")
    ]


class Topics(Page, frozen=True, kw_only=True):
    """Topics in the order of their names."""

    topics: tuple[ListedTopic, ...]


class DescribedTopic(Page, frozen=True, kw_only=True):
    """A topic and a page of its partitions."""

    name: str
    topic_id: str
    partitions: tuple[TopicPartition, ...]


class CreatedTopic(Answer, frozen=True, kw_only=True):
    """The topic that was created, or would be."""

    name: str
    topic_id: Annotated[str | None, Meta(description="null after a dry run")]
    partitions: int
    replication_factor: int
    dry_run: DryRun


class ChangedTopic(Answer, frozen=True, kw_only=True):
    """The topic that was changed, or would be."""

    name: str
    dry_run: DryRun


class TopicConfigs(DescribedConfigs, frozen=True, kw_only=True):
    """The configurations of a topic in force."""

    name: str


class ListTopics(PageRequest[Topics], frozen=True, kw_only=True):
    """List topics by name."""

    prefix: Annotated[str, Meta(description="The beginning of the names")] = ""
    state: Annotated[
        tuple[PartitionState, ...],
        Meta(description="With a partition in any of these states; empty: all"),
    ] = ()

    NAME = "topics.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    FAILING = "the topics cannot be listed"
    ITEMS = "topics"
    POSITION = str

    async def answer(self, context: Context) -> Topics:
        return await context.read_long(self._page)

    def _page(self, image: Image) -> Slices[Topics]:
        names: Iterable[str | None] = image.topic_ids
        if self.state:
            found = image.index.topics((yield from in_states(image, self.state)))
            names = (None if topic is None else topic.name for topic in found)
        cut = yield from self.cut(
            None if name is None or not name.startswith(self.prefix) else name for name in names
        )
        topics = []
        for name in cut.shown:
            topics.append(_listed(image, name))
            yield LOOKED_AT_US
        return Topics(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            topics=tuple(topics),
        )


class _OfTopic(Request[A_co], frozen=True, kw_only=True):
    """A request about one topic."""

    name: TopicName

    NEEDS_OF_DRY_RUN = None

    def needs(self) -> Needs:
        """The right on this topic."""
        return super().needs().on(self.name)


class DescribeTopic(PageRequest[DescribedTopic], frozen=True, kw_only=True):
    """Describe a topic and its partitions, page by page."""

    name: TopicName
    state: States = ()

    NAME = "topics.describe"
    NEEDS = DESCRIBE_TOPIC
    ROUTES = (Route("GET", f"{BASE}/{{id}}", id="name"),)
    ERRORS = (Error.UNKNOWN_TOPIC_OR_PARTITION,)
    ITEMS = "partitions"
    POSITION = PartitionNumber

    def needs(self) -> Needs:
        """The right on this topic."""
        return self.NEEDS.on(self.name)

    def failing(self) -> str:
        return f"topic {self.name} cannot be described"

    async def answer(self, context: Context) -> DescribedTopic:
        return await context.read_long(self._page)

    def _page(self, image: Image) -> Slices[DescribedTopic | Refusal]:
        topic = image.topic_named(self.name)
        if topic is None:
            return _unknown(self.name)
        keys = yield from keys_of(topic)
        if self.state:
            keys &= yield from in_states(image, self.state)
        after = None if self.after is None else (topic.name, self.after)
        found = yield from first_after((topic,), keys, after, self.page_size + 1)
        cut = self.cut_off([number for _, number in found], len(keys))
        partitions = []
        for number in cut.shown:
            # A page must not evict partitions from the cache of rows.
            row = topic.partitions.peek(number)
            assert row is not None
            partitions.append(TopicPartition(**fields_of(image, topic, number, row)))
            yield LOOKED_AT_US
        return DescribedTopic(
            as_of_offset=image.end_offset,
            name=self.name,
            topic_id=uuid_to_text(topic.topic_id),
            total=cut.total,
            next_page_token=cut.next_page_token,
            partitions=tuple(partitions),
        )


class CreateTopic(_OfTopic[CreatedTopic], frozen=True, kw_only=True):
    """Create a topic, placed by racks, or with the replicas of each partition."""

    partitions: (
        Annotated[int, Meta(ge=1, le=2**31 - 1, description="null: `num.partitions`")] | None
    ) = None
    replication_factor: (
        Annotated[int, Meta(ge=1, le=2**15 - 1, description="null: `default.replication.factor`")]
        | None
    ) = None
    assignments: Annotated[
        tuple[Replicas, ...], Meta(description="The replicas of each partition; empty: placed")
    ] = ()
    configs: Configs = msgspec.field(default_factory=dict)
    dry_run: DryRun = False

    NAME = "topics.create"
    NEEDS = CREATE_TOPIC
    CHANGES = True
    ROUTES = (Route("POST", BASE, query=("dry_run",), large=True),)
    ERRORS = (
        Error.TOPIC_ALREADY_EXISTS,
        Error.INVALID_TOPIC_EXCEPTION,
        Error.INVALID_REPLICATION_FACTOR,
        Error.INVALID_REPLICA_ASSIGNMENT,
        Error.INVALID_CONFIG,
        Error.THROTTLING_QUOTA_EXCEEDED,
    )
    STATUS_COMMAND = "metaquorum topics list"

    def failing(self) -> str:
        return f"topic {self.name} cannot be created"

    def contradiction(self) -> str | None:
        if self.assignments and (self.partitions or self.replication_factor):
            return "assignments say how many partitions and replicas there are; omit the counts"
        return None

    async def answer(self, context: Context) -> CreatedTopic:
        defaults = context.service.defaults
        asked = NewTopic(
            name=self.name,
            topic_id=new_topic_id(),
            partition_count=self.partitions or _DEFAULT,
            replication_factor=self.replication_factor or _DEFAULT,
            assignments=tuple(enumerate(self.assignments)),
            configs=tuple(self.configs.items()),
        )
        command = CreateTopics(
            topics=(asked,),
            validate_only=self.dry_run,
            default_partition_count=defaults.num_partitions,
            default_replication_factor=defaults.replication_factor,
            client=None if self.dry_run else context.mutation_client,
        )
        answer = await context.service.carry_out(command, TopicsCreated, who=context.who)
        (found,) = answer.topics
        check_part(found, context.service.throttle_time(answer))
        return CreatedTopic(
            name=self.name,
            topic_id=None if self.dry_run else uuid_to_text(asked.topic_id),
            partitions=found.partition_count,
            replication_factor=found.replication_factor,
            dry_run=self.dry_run,
        )


class DeleteTopic(_OfTopic[ChangedTopic], frozen=True, kw_only=True):
    """Delete a topic and the data of its partitions."""

    NAME = "topics.delete"
    NEEDS = DELETE_TOPIC
    CHANGES = True
    ROUTES = (Route("DELETE", f"{BASE}/{{id}}", id="name"),)
    ERRORS = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.THROTTLING_QUOTA_EXCEEDED)
    STATUS_COMMAND = "metaquorum topics list"

    def failing(self) -> str:
        return f"topic {self.name} cannot be deleted"

    async def answer(self, context: Context) -> ChangedTopic:
        command = DeleteTopics(topics=(self.name,), client=context.mutation_client)
        answer = await context.service.carry_out(command, TopicsDeleted, who=context.who)
        (found,) = answer.topics
        check_part(found, context.service.throttle_time(answer))
        return ChangedTopic(name=self.name, dry_run=False)


class AddPartitions(_OfTopic[ChangedTopic], frozen=True, kw_only=True):
    """Add partitions to a topic, up to a total; records with a key may go elsewhere afterwards."""

    total: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Partitions afterwards")]
    assignments: Annotated[
        tuple[Replicas, ...], Meta(description="The replicas of each new one; empty: placed")
    ] = ()
    dry_run: DryRun = False

    NAME = "topics.add-partitions"
    NEEDS = ALTER_TOPIC
    CHANGES = True
    ROUTES = (Route("PUT", f"{BASE}/{{id}}/partitions", id="name", query=("dry_run",), large=True),)
    ERRORS = (
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.INVALID_PARTITIONS,
        Error.INVALID_REPLICA_ASSIGNMENT,
        Error.THROTTLING_QUOTA_EXCEEDED,
    )
    STATUS_COMMAND = "metaquorum topics list"

    def failing(self) -> str:
        return f"partitions cannot be added to topic {self.name}"

    async def answer(self, context: Context) -> ChangedTopic:
        more = MorePartitions(
            name=self.name, count=self.total, assignments=self.assignments or None
        )
        client = None if self.dry_run else context.mutation_client
        command = CreatePartitions(topics=(more,), validate_only=self.dry_run, client=client)
        answer = await context.service.carry_out(command, PartitionsCreated, who=context.who)
        (found,) = answer.topics
        check_part(found, context.service.throttle_time(answer))
        return ChangedTopic(name=self.name, dry_run=self.dry_run)


class DescribeTopicConfigs(_OfTopic[TopicConfigs], frozen=True, kw_only=True):
    """Describe the configurations of a topic that are in force, as controllers know them."""

    NAME = "topics.configs"
    NEEDS = DESCRIBE_TOPIC_CONFIGS
    ROUTES = (Route("GET", f"{BASE}/{{id}}/configs", id="name"),)
    ERRORS = (Error.UNKNOWN_TOPIC_OR_PARTITION,)

    def failing(self) -> str:
        return f"the configurations of topic {self.name} cannot be described"

    async def answer(self, context: Context) -> TopicConfigs:
        resource = TOPIC_RESOURCE, self.name
        return await context.read(
            lambda image: described(image, resource, TopicConfigs, name=self.name)
        )


class AlterTopicConfigs(AlterConfigs[ChangedTopic], frozen=True, kw_only=True):
    """Set configurations of a topic, or give them back their defaults; all of them or none."""

    name: TopicName

    NAME = "topics.alter-configs"
    NEEDS = ALTER_TOPIC_CONFIGS
    ROUTES = (Route("PATCH", f"{BASE}/{{id}}/configs", id="name", query=("dry_run",)),)
    ERRORS = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_CONFIG)

    def needs(self) -> Needs:
        """The right on this topic."""
        return super().needs().on(self.name)

    def failing(self) -> str:
        return f"the configurations of topic {self.name} cannot be changed"

    def resource(self) -> Resource:
        return TOPIC_RESOURCE, self.name

    async def answer(self, context: Context) -> ChangedTopic:
        await self.alter(context)
        return ChangedTopic(name=self.name, dry_run=self.dry_run)


def _unknown(name: str) -> Refusal:
    return Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


def _listed(image: Image, name: str) -> ListedTopic:
    topic = image.topic_named(name)
    assert topic is not None
    first = topic.partition(0)
    return ListedTopic(
        name=name,
        partitions=len(topic.partitions),
        replication_factor=0 if first is None else len(first.final),
    )

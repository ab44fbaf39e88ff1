"""What may be asked about topics. Values only, never behaviour."""

from uuid import UUID

from msgspec import Struct

from statemachine.errors import Error
from statemachine.vocabulary import Replicas


class NewTopic(Struct, frozen=True, kw_only=True, gc=False):
    """One topic to create: counts, or an assignment for each partition and both counts -1."""

    name: str
    topic_id: UUID
    """Drawn by the caller, since nothing here is random."""
    partition_count: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, Replicas], ...] = ()
    """Partition number and its replicas, the preferred leader first."""
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopics(Struct, frozen=True, kw_only=True, gc=False):
    """Create topics, or with `validate_only` say what would become of it (api 19)."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    default_partition_count: int = 1
    """`num.partitions`, for a count of -1."""
    default_replication_factor: int = 1
    """`default.replication.factor`, for a factor of -1."""


class MorePartitions(Struct, frozen=True, kw_only=True, gc=False):
    """A topic that is to have `count` partitions in all."""

    name: str
    count: int
    assignments: tuple[Replicas, ...] | None = None
    """The replicas of each new partition, the preferred leader first; None to have them placed."""


class CreatePartitions(Struct, frozen=True, kw_only=True, gc=False):
    """Give topics more partitions, or with `validate_only` say what would become of it (api 37)."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


class DeleteTopics(Struct, frozen=True, kw_only=True, gc=False):
    """Delete topics, each named or given by its id (api 20)."""

    topics: tuple[str | UUID, ...]


class TopicCreated(Struct, frozen=True, kw_only=True, gc=False):
    """One topic of CreateTopics."""

    name: str
    error: Error = Error.NONE
    message: str = ""
    topic_id: UUID | None = None
    partition_count: int = -1
    replication_factor: int = -1


class TopicsCreated(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    topics: tuple[TopicCreated, ...]


class PartitionsAdded(Struct, frozen=True, kw_only=True, gc=False):
    """One topic of CreatePartitions."""

    name: str
    error: Error = Error.NONE
    message: str = ""


class PartitionsCreated(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; a topic that is named more than once is answered once."""

    topics: tuple[PartitionsAdded, ...]


class TopicDeleted(Struct, frozen=True, kw_only=True, gc=False):
    """One topic of DeleteTopics."""

    name: str | None
    topic_id: UUID | None
    error: Error = Error.NONE
    message: str = ""


class TopicsDeleted(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    topics: tuple[TopicDeleted, ...]

"""What may be asked of the state machine, and what it answers. Values only, never behaviour.

A command holds what was asked as it was asked: it may be wrong in every way that its types allow.
An answer leaves only after the records of its decision are committed. Where a command has many
parts, each has its own result, and one that is refused leaves no trace.
"""

from enum import Enum
from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from statemachine import records
from statemachine.errors import Error
from statemachine.vocabulary import NO_EPOCH, NO_LEADER, RECOVERED, BrokerId, Directories, Replicas


class FoundCluster(Struct, frozen=True, kw_only=True, gc=False):
    """The first active controller of an empty log says which metadata.version is in force."""

    metadata_version: int


class RegisterController(Struct, frozen=True, kw_only=True, gc=False):
    """A controller says where it is (api 70, KIP-919)."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[records.Endpoint, ...]
    features: tuple[records.FeatureRange, ...]


class AllocateProducerIds(Struct, frozen=True, kw_only=True, gc=False):
    """A broker needs a block of producer ids (api 67, KIP-730)."""

    broker_id: BrokerId
    broker_epoch: int


class RegisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation of a broker wants to belong to the cluster (api 62, KIP-631)."""

    broker_id: BrokerId
    cluster_id: str
    """The cluster that the broker was formatted for."""
    our_cluster_id: str
    """The cluster that this is."""
    incarnation_id: UUID
    endpoints: tuple[records.Endpoint, ...]
    features: tuple[records.FeatureRange, ...]
    rack: str | None = None
    log_dirs: Directories = ()


class BrokerHeartbeat(Struct, frozen=True, kw_only=True, gc=False):
    """A broker lives, and says what it wants next (api 63, KIP-631)."""

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    """The offset of the last record that the broker has applied."""
    want_fence: bool = False
    want_shut_down: bool = False
    lowest_live_offset: int | None = None
    """The lowest such offset among live brokers, from `Sessions`; None if none is live."""


class FenceBrokers(Struct, frozen=True, kw_only=True, gc=False):
    """The sessions of these brokers have expired (`Sessions.expired`)."""

    broker_ids: tuple[BrokerId, ...]


class UnregisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker will not come back (api 64)."""

    broker_id: BrokerId


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


class DeleteTopics(Struct, frozen=True, kw_only=True, gc=False):
    """Delete topics, each named or given by its id (api 20)."""

    topics: tuple[str | UUID, ...]


class IsrMember(Struct, frozen=True, gc=False):
    """A replica proposed for the ISR, with the broker epoch that it fetched with (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: int = NO_EPOCH


class IsrProposal(Struct, frozen=True, kw_only=True, gc=False):
    """What the leader of one partition wants its ISR to be."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    recovery: int = RECOVERED


class AlterPartition(Struct, frozen=True, kw_only=True, gc=False):
    """A broker wants the ISR of partitions that it leads changed (api 56)."""

    broker_id: BrokerId
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]


class Reassignment(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas that a partition is to have; None cancels what is under way."""

    topic: str
    partition: int
    replicas: Replicas | None


class AlterReassignments(Struct, frozen=True, kw_only=True, gc=False):
    """Begin, change or cancel reassignments (api 45, KIP-455)."""

    reassignments: tuple[Reassignment, ...]
    may_change_factor: bool = True
    """Whether a partition may end with another number of replicas than it has (KIP-860)."""


class ElectionType(Enum):
    """Which leader an operator asks for (KIP-183, KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectLeaders(Struct, frozen=True, kw_only=True, gc=False):
    """Elect leaders for these partitions, or with None wherever one is needed (api 43)."""

    election: ElectionType
    partitions: tuple[tuple[str, int], ...] | None


PartitionCommand: TypeAlias = AlterPartition | AlterReassignments | ElectLeaders
BrokerCommand: TypeAlias = BrokerHeartbeat | RegisterBroker | FenceBrokers | UnregisterBroker
TopicCommand: TypeAlias = CreateTopics | DeleteTopics
ClusterCommand: TypeAlias = FoundCluster | RegisterController | AllocateProducerIds
Command: TypeAlias = PartitionCommand | BrokerCommand | TopicCommand | ClusterCommand


class Done(Struct, frozen=True, kw_only=True, gc=False):
    """It is done, or was so already; or it is refused as a whole."""

    error: Error = Error.NONE
    message: str = ""


class ProducerIdsAllocated(Struct, frozen=True, kw_only=True, gc=False):
    """The block of producer ids that now belongs to the broker."""

    error: Error = Error.NONE
    message: str = ""
    first_id: int = -1
    count: int = 0


class BrokerRegistered(Struct, frozen=True, kw_only=True, gc=False):
    """The epoch of this incarnation."""

    error: Error = Error.NONE
    message: str = ""
    broker_epoch: int = -1


class HeartbeatAnswered(Struct, frozen=True, kw_only=True, gc=False):
    """What the broker is from here on."""

    error: Error = Error.NONE
    message: str = ""
    caught_up: bool = False
    """It has applied its own registration."""
    fenced: bool = True
    should_shut_down: bool = False


class BrokersFenced(Struct, frozen=True, kw_only=True, gc=False):
    """The brokers that this fences, without those that are unknown or were fenced already."""

    broker_ids: tuple[BrokerId, ...]


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


class TopicDeleted(Struct, frozen=True, kw_only=True, gc=False):
    """One topic of DeleteTopics."""

    name: str | None
    topic_id: UUID | None
    error: Error = Error.NONE
    message: str = ""


class TopicsDeleted(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    topics: tuple[TopicDeleted, ...]


class PartitionAltered(Struct, frozen=True, kw_only=True, gc=False):
    """One proposal of AlterPartition; without an error, what the partition is now."""

    topic_id: UUID
    partition: int
    error: Error = Error.NONE
    message: str = ""
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    isr: Replicas = ()
    recovery: int = RECOVERED
    partition_epoch: int = -1


class PartitionsAltered(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; none if the sender is refused."""

    error: Error = Error.NONE
    message: str = ""
    partitions: tuple[PartitionAltered, ...] = ()


class ReassignmentAltered(Struct, frozen=True, kw_only=True, gc=False):
    """One part of AlterReassignments; `replicas` are those that the partition now has."""

    topic: str
    partition: int
    error: Error = Error.NONE
    message: str = ""
    replicas: Replicas = ()


class ReassignmentsAltered(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    partitions: tuple[ReassignmentAltered, ...]


class LeaderElected(Struct, frozen=True, kw_only=True, gc=False):
    """One partition of ElectLeaders."""

    topic: str
    partition: int
    error: Error = Error.NONE
    message: str = ""


class LeadersElected(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; when all were asked, those alone that needed a leader."""

    partitions: tuple[LeaderElected, ...]


Answer: TypeAlias = (
    PartitionsAltered
    | ReassignmentsAltered
    | LeadersElected
    | BrokerRegistered
    | HeartbeatAnswered
    | BrokersFenced
    | TopicsCreated
    | TopicsDeleted
    | ProducerIdsAllocated
    | Done
)


class Decision(Struct, frozen=True, gc=False):
    """The records to append, in order and in one piece, and the answer once they are committed."""

    records: tuple[records.Record, ...]
    answer: Answer

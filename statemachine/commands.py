"""Commands and answers of the state machine. Values only.

A command holds what was asked for as it was asked: it may be wrong in every way that its types
allow. An answer leaves only after the records of its decision are committed. Each part of a command
has its own result, and a refused part leaves no trace.

"""

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import Any, Self, TypeAlias
from uuid import UUID

from msgspec import Struct

from statemachine.errors import Error, Refusal
from statemachine.partitions.registration import PartitionRegistration
from statemachine.records import kafka_records
from statemachine.records.kafka_records import QuotaEntity
from statemachine.records.own_records import MoveOptions, OptionsChange
from statemachine.vocabulary import (
    NO_EPOCH,
    NO_LEADER,
    NO_MOVE,
    RECOVERED,
    BrokerId,
    Directories,
    MoveId,
    MoveKind,
    Replicas,
)


class Result(Struct, frozen=True, kw_only=True, gc=False):
    """The result of a command or of a part of it; a refused one has an error."""

    error: Error = Error.NONE
    message: str = ""

    @classmethod
    def from_refusal(cls, refusal: Refusal, **fields: Any) -> Self:
        """Return the result of what is refused; `fields` name the part that it is about."""
        return cls(error=refusal.error, message=refusal.message, **fields)


class Done(Result, frozen=True, kw_only=True, gc=False):
    """It is done, or was so already; or it is refused as a whole."""


class IsrMember(Struct, frozen=True, gc=False):
    """A replica proposed for the ISR, with the broker epoch that it fetched with (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: int = NO_EPOCH


class IsrProposal(Struct, frozen=True, kw_only=True, gc=False):
    """The ISR that the leader of one partition proposes."""

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


class AlterReassignments(MoveOptions, frozen=True, kw_only=True, gc=False):
    """Begin, change or cancel reassignments (api 45, KIP-455)."""

    reassignments: tuple[Reassignment, ...]
    may_change_factor: bool = True
    """Whether a partition may end with another number of replicas than it has (KIP-860)."""
    who: str = ""
    """Who asks: what is begun is a move of theirs."""
    dry_run: bool = False
    """Only answer what would become of it."""


class ElectionType(Enum):
    """The kind of election that an operator asks for (KIP-183, KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectLeaders(Struct, frozen=True, kw_only=True, gc=False):
    """Elect leaders for these partitions, or with None wherever one is needed (api 43)."""

    election: ElectionType
    partitions: tuple[tuple[str, int], ...] | None


class PartitionAltered(Result, frozen=True, kw_only=True, gc=False):
    """One proposal of AlterPartition; without an error, what the partition is now."""

    topic_id: UUID
    partition: int
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    isr: Replicas = ()
    recovery: int = RECOVERED
    partition_epoch: int = -1


class PartitionsAltered(Result, frozen=True, kw_only=True, gc=False):
    """In the order asked for; none if the sender is refused."""

    partitions: tuple[PartitionAltered, ...] = ()


class ReassignmentAltered(Result, frozen=True, kw_only=True, gc=False):
    """One part of AlterReassignments; `replicas` are those that the partition now has."""

    topic: str
    partition: int
    replicas: Replicas = ()
    steps: tuple[Replicas, ...] = ()
    """Of a dry run what the replicas would be after each step; told of the first partitions."""


class ReassignmentsAltered(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    partitions: tuple[ReassignmentAltered, ...]
    move_id: MoveId = NO_MOVE
    """The move that was begun; where nothing had to change, one that brings it already."""
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class LeaderElected(Result, frozen=True, kw_only=True, gc=False):
    """One partition of ElectLeaders."""

    topic: str
    partition: int


class LeadersElected(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; when all were asked, those alone that needed a leader."""

    partitions: tuple[LeaderElected, ...]


class BeginMove(MoveOptions, frozen=True, kw_only=True, gc=False):
    """Give these partitions these replicas. One that cannot be does not stop the others."""

    reassignments: tuple[Reassignment, ...]
    who: str = ""
    kind: MoveKind = MoveKind.REASSIGN
    may_change_factor: bool = True
    """Whether a partition may end with another number of replicas than it has (KIP-860)."""
    broker: BrokerId | None = None
    """Whom a drain empties."""


class MoveStarted(Result, frozen=True, kw_only=True, gc=False):
    """The move that was begun, or why there is none."""

    move_id: MoveId = 0
    """0 where nothing had to change, or nothing can, or it is only tried."""
    accepted: int = 0
    """Partitions that belong to the move; of a rollback that is only tried all that would change,
    those included that have it at once by a cancel."""
    refused_count: int = 0
    refused: tuple[ReassignmentAltered, ...] = ()
    """The first of those that are refused, with their reasons."""
    foreseen: tuple[ReassignmentAltered, ...] = ()
    """Of a rollback that is only tried: what each partition that changes would have in the end."""
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class MoveAltered(Result, frozen=True, kw_only=True, gc=False):
    """One move that was paused, resumed or altered, or why it was not."""

    move_id: MoveId


class CancelMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Revert the step that is under way and drop the rest: of all that is named here."""

    partitions: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    moves: tuple[MoveId, ...] = ()
    everything: bool = False
    """Whatever is being reassigned, in a move or not."""
    dry_run: bool = False
    """Only answer what each partition would have then."""


class MovesCancelled(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas of each partition after the cancel, by topic and number; number -1 stands for a
    topic.
    """

    partitions: tuple[ReassignmentAltered, ...] = ()
    moves: tuple[MoveAltered, ...] = ()
    """Of the moves that were named whether they were running, in the order asked."""
    done_count: int = 0
    refused_count: int = 0
    """Of the partitions; where an answer is repeated there may be more than are told of."""
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class RollBackMove(Struct, frozen=True, kw_only=True, gc=False):
    """Cancel what is left of a move, and begin one back to what its partitions had before it."""

    move_id: MoveId
    who: str = ""
    dry_run: bool = False
    """Only answer what each partition would have then."""


class PauseMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Begin no further steps of these moves; with None of any, of those to come as well."""

    moves: tuple[MoveId, ...] | None
    who: str = ""


class ResumeMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Go on with these moves, or with None end the pause of all."""

    moves: tuple[MoveId, ...] | None
    who: str = ""


class AlterMove(OptionsChange, frozen=True, kw_only=True, gc=False):
    """Change options of a running move."""

    move_id: MoveId


class MovesAltered(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; none if all were asked for at once."""

    moves: tuple[MoveAltered, ...] = ()
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class AdvanceMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Go on with what one decision did not finish: begin the steps for which there is room, and
    complete and elect what a change of configurations has allowed.

    The active controller asks it of itself.
    """


class MovesAdvanced(Struct, frozen=True, kw_only=True, gc=False):
    """The steps have begun."""

    is_left: bool
    """Whether there is more to do already."""


class ForgetMoves(Struct, frozen=True, kw_only=True, gc=False):
    """List and remember no longer what is too old or too much, and unregister brokers that were to
    go once they are empty; asked by the active controller.
    """


KeyedCommand: TypeAlias = (
    AlterReassignments
    | BeginMove
    | RollBackMove
    | CancelMoves
    | PauseMoves
    | ResumeMoves
    | AlterMove
)
KeyedAnswer: TypeAlias = ReassignmentsAltered | MoveStarted | MovesCancelled | MovesAltered


class IdempotentCommand(Struct, frozen=True, kw_only=True, gc=False):
    """A request that may be asked again, by its asker or for it, and is to be carried out once."""

    key: str
    """Chosen by the asker, of whom only this request has it."""
    fingerprint: bytes
    """Of the request as it was asked: another one with the same key is refused."""
    command: KeyedCommand


class RegisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation of a broker wants to belong to the cluster (api 62, KIP-631)."""

    broker_id: BrokerId
    cluster_id: str
    """The cluster that the broker was formatted for."""
    our_cluster_id: str
    """The cluster that this is."""
    incarnation_id: UUID
    endpoints: tuple[kafka_records.Endpoint, ...]
    features: tuple[kafka_records.FeatureRange, ...]
    rack: str | None = None
    log_dirs: Directories = ()
    previous_epoch: int | None = None
    """The epoch that it stopped cleanly with, -1 if it did not; None if it cannot say (KIP-966)."""
    kraft_version: int = 0
    """The level of kraft.version, which is in no metadata record."""


class BrokerHeartbeat(Struct, frozen=True, kw_only=True, gc=False):
    """A broker lives, and says what it wants next (api 63, KIP-631)."""

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    """The offset of the last record that the broker has applied."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Directories = ()
    """Those of its log directories that have failed (KIP-858)."""
    lowest_live_offset: int | None = None
    """The lowest such offset among live brokers, from `Sessions`; None if none is live."""


class FenceBrokers(Struct, frozen=True, kw_only=True, gc=False):
    """The sessions of these brokers have expired (`Sessions.expired`)."""

    broker_ids: tuple[BrokerId, ...]


class UnregisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker will not come back (api 64)."""

    broker_id: BrokerId
    only_if_empty: bool = False
    """Refuse a broker that is alive, or still has replicas; Kafka's request does not."""


class CordonBrokers(Struct, frozen=True, kw_only=True, gc=False):
    """These brokers shall get no new replicas, or may again. What they have stays."""

    broker_ids: tuple[BrokerId, ...]
    cordoned: bool
    unregister: bool = False
    """Of a cordon: unregister each once it has no replicas and is fenced, whoever leads then. An
    end of the cordon puts an end to that as well."""


class BrokerRegistered(Result, frozen=True, kw_only=True, gc=False):
    """The epoch of this incarnation."""

    broker_epoch: int = -1


class HeartbeatAnswered(Result, frozen=True, kw_only=True, gc=False):
    """The state of the broker from here on."""

    caught_up: bool = False
    """It has applied its own registration."""
    fenced: bool = True
    should_shut_down: bool = False


class BrokersFenced(Struct, frozen=True, kw_only=True, gc=False):
    """The brokers that this fences, without those that are unknown or were fenced already."""

    broker_ids: tuple[BrokerId, ...]


class BrokerCordoned(Result, frozen=True, kw_only=True, gc=False):
    """The result for one broker."""

    broker_id: BrokerId


class BrokersCordoned(Struct, frozen=True, kw_only=True, gc=False):
    """One result for each broker named, in the order asked."""

    brokers: tuple[BrokerCordoned, ...]


class FoundCluster(Struct, frozen=True, kw_only=True, gc=False):
    """The first active controller of an empty log says which features are in force."""

    metadata_version: int
    features: tuple[tuple[str, int], ...] = ()
    """Levels of other features, where they shall differ from the defaults of that level."""
    default_min_isr: int = 1
    """`min.insync.replicas` of the cluster, which the ELR needs in the log (KIP-966)."""


class RegisterController(Struct, frozen=True, kw_only=True, gc=False):
    """A controller says where it is (api 70, KIP-919)."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[kafka_records.Endpoint, ...]
    features: tuple[kafka_records.FeatureRange, ...]


class AllocateProducerIds(Struct, frozen=True, kw_only=True, gc=False):
    """A broker needs a block of producer ids (api 67, KIP-730)."""

    broker_id: BrokerId
    broker_epoch: int


class ProducerIdsAllocated(Result, frozen=True, kw_only=True, gc=False):
    """The block of producer ids that now belongs to the broker."""

    first_id: int = -1
    count: int = 0


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOp(Struct, frozen=True, kw_only=True, gc=False):
    """One configuration to change."""

    name: str
    operation: int
    """A `ConfigOperation`, or any other number that somebody sent."""
    value: str | None = None


class ConfigChange(Struct, frozen=True, kw_only=True, gc=False):
    """The changes of one resource; what is not named stays."""

    resource_type: int
    resource_name: str
    ops: tuple[ConfigOp, ...]


class IncrementalAlterConfigs(Struct, frozen=True, kw_only=True, gc=False):
    """Change configurations, or with `validate_only` say what would become of it (api 44)."""

    changes: tuple[ConfigChange, ...]
    validate_only: bool = False


class ConfigReplacement(Struct, frozen=True, kw_only=True, gc=False):
    """All configurations of one resource; what is not named is removed."""

    resource_type: int
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]


class AlterConfigs(Struct, frozen=True, kw_only=True, gc=False):
    """Replace all configurations of resources (api 33, which KIP-339 advises against)."""

    replacements: tuple[ConfigReplacement, ...]
    validate_only: bool = False


class ConfigAltered(Result, frozen=True, kw_only=True, gc=False):
    """One resource of a change."""

    resource_type: int
    resource_name: str


class ConfigsAltered(Struct, frozen=True, kw_only=True, gc=False):
    """Each resource once, in the order in which it is first asked for."""

    resources: tuple[ConfigAltered, ...]


class DirectoryAssignment(Struct, frozen=True, kw_only=True, gc=False):
    """The sender's replica of this partition is in this directory."""

    directory_id: UUID
    topic_id: UUID
    partition: int


class AssignReplicasToDirs(Struct, frozen=True, kw_only=True, gc=False):
    """A broker has put replicas into log directories (api 73, KIP-858)."""

    broker_id: BrokerId
    broker_epoch: int
    assignments: tuple[DirectoryAssignment, ...]


class ReplicasAssigned(Result, frozen=True, kw_only=True, gc=False):
    """In the order asked for; none if the sender is refused."""

    replicas: tuple[Done, ...] = ()


class UpgradeType(Enum):
    """The changes of a feature level that a request allows; the numbers are those of api 57."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Only where no metadata can be lost."""
    UNSAFE_DOWNGRADE = 3
    """Also where metadata can be lost."""

    @classmethod
    def _missing_(cls, value: object) -> "UpgradeType":
        return cls.UNKNOWN


class FeatureUpdate(Struct, frozen=True, kw_only=True, gc=False):
    """One feature shall be in force at another level; 0 is "not at all"."""

    name: str
    level: int
    upgrade: UpgradeType = UpgradeType.UPGRADE


class UpdateFeatures(Struct, frozen=True, kw_only=True, gc=False):
    """Features shall be in force at other levels, all of them or none (api 57, KIP-584)."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    controller_id: int
    """The active controller, which speaks for this code."""
    voters: tuple[int, ...]
    """The controllers that must be able to follow."""
    kraft_version: int = 0
    """The level of kraft.version, which is in no metadata record."""
    default_min_isr: int = 1
    """`min.insync.replicas` of the cluster where no record says it, for KIP-966."""


class QuotaOp(Struct, frozen=True, kw_only=True, gc=False):
    """One quota to set, or to remove; the value then says nothing."""

    key: str
    value: float = 0.0
    remove: bool = False


class QuotaChange(Struct, frozen=True, kw_only=True, gc=False):
    """The quotas of one entity to change; what is not named stays."""

    entity: tuple[QuotaEntity, ...]
    ops: tuple[QuotaOp, ...]


class AlterClientQuotas(Struct, frozen=True, kw_only=True, gc=False):
    """Change quotas, or with `validate_only` say what would become of it (api 49, KIP-546)."""

    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


class QuotaAltered(Result, frozen=True, kw_only=True, gc=False):
    """One entity of AlterClientQuotas."""

    entity: tuple[QuotaEntity, ...]


class ClientQuotasAltered(Struct, frozen=True, kw_only=True, gc=False):
    """Each entity once, in the order in which it is first asked for."""

    entities: tuple[QuotaAltered, ...]


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


class TopicCreated(Result, frozen=True, kw_only=True, gc=False):
    """One topic of CreateTopics."""

    name: str
    topic_id: UUID | None = None
    partition_count: int = -1
    replication_factor: int = -1


class TopicsCreated(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    topics: tuple[TopicCreated, ...]


class PartitionsAdded(Result, frozen=True, kw_only=True, gc=False):
    """One topic of CreatePartitions."""

    name: str


class PartitionsCreated(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; a topic that is named more than once is answered once."""

    topics: tuple[PartitionsAdded, ...]


class TopicDeleted(Result, frozen=True, kw_only=True, gc=False):
    """One topic of DeleteTopics."""

    name: str | None
    topic_id: UUID | None


class TopicsDeleted(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    topics: tuple[TopicDeleted, ...]


Command: TypeAlias = (
    AlterPartition
    | ElectLeaders
    | KeyedCommand
    | IdempotentCommand
    | ForgetMoves
    | AdvanceMoves
    | BrokerHeartbeat
    | RegisterBroker
    | FenceBrokers
    | UnregisterBroker
    | CordonBrokers
    | AssignReplicasToDirs
    | CreateTopics
    | CreatePartitions
    | DeleteTopics
    | FoundCluster
    | RegisterController
    | AllocateProducerIds
    | UpdateFeatures
    | IncrementalAlterConfigs
    | AlterConfigs
    | AlterClientQuotas
)

Answer: TypeAlias = (
    PartitionsAltered
    | KeyedAnswer
    | MovesAdvanced
    | LeadersElected
    | BrokerRegistered
    | HeartbeatAnswered
    | BrokersFenced
    | BrokersCordoned
    | ReplicasAssigned
    | TopicsCreated
    | PartitionsCreated
    | TopicsDeleted
    | ProducerIdsAllocated
    | ConfigsAltered
    | ClientQuotasAltered
    | Done
)


class Decision(Struct, frozen=True, gc=False):
    """The records to append, in order and in one piece, and the answer once they are committed."""

    records: Sequence[kafka_records.Record]
    answer: Answer
    is_complete: bool = True
    """Otherwise it is too much for one decision: the same command leads to the rest, decided on
    what these records leave, and the answer is that of the last one.
    """
    decided: Mapping[int, PartitionRegistration] = {}
    """The partitions that the records change once, as these leave them; for `replay_decided`."""

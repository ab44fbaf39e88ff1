"""Commands and answers of the state machine. Values only.

A command is an unchecked request: it may be wrong in every way that its types allow. An answer
is sent only after the records of its decision are committed. Each part of a command has its own
result, and a refused part has no effect.
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


class Command(Struct, frozen=True, gc=False):
    """A command; `decide.RULES` has the rule of each."""


class KeyedCommand(Command, frozen=True, gc=False):
    """A command that may come with an idempotency key."""


class Answer(Struct, frozen=True, gc=False):
    """The answer to a command."""


class Result(Answer, frozen=True, kw_only=True, gc=False):
    """The result of a command or of a part of it; a refused one has an error."""

    error: Error = Error.NONE
    message: str = ""

    @classmethod
    def from_refusal(cls, refusal: Refusal | None, **fields: Any) -> Self:
        """Return the result of the part that `fields` name, which may be refused."""
        if refusal is None:
            return cls(**fields)
        return cls(error=refusal.error, message=refusal.message, **fields)


class Done(Result, frozen=True, kw_only=True, gc=False):
    """The command is carried out, or changes nothing, or is refused as a whole."""


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


class AlterPartition(Command, frozen=True, kw_only=True, gc=False):
    """Change the ISR of partitions that the sender leads (api 56)."""

    broker_id: BrokerId
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]


class Reassignment(Struct, frozen=True, kw_only=True, gc=False):
    """The target replicas of a partition; None cancels its reassignment."""

    topic: str
    partition: int
    replicas: Replicas | None


class AlterReassignments(MoveOptions, KeyedCommand, frozen=True, kw_only=True, gc=False):
    """Begin, change or cancel reassignments (api 45, KIP-455)."""

    reassignments: tuple[Reassignment, ...]
    may_change_factor: bool = True
    """Whether a partition may end with another number of replicas than it has (KIP-860)."""
    who: str = ""
    """The principal of the request."""
    dry_run: bool = False
    """Answer with the effects, and change nothing."""


class ElectionType(Enum):
    """The kind of election that an operator asks for (KIP-183, KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectLeaders(Command, frozen=True, kw_only=True, gc=False):
    """Elect leaders for these partitions, or with None wherever one is needed (api 43)."""

    election: ElectionType
    partitions: tuple[tuple[str, int], ...] | None


class PartitionAltered(Result, frozen=True, kw_only=True, gc=False):
    """The result of one proposal; without an error, the partition as it is now."""

    topic_id: UUID
    partition: int
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    isr: Replicas = ()
    recovery: int = RECOVERED
    partition_epoch: int = -1


class PartitionsAltered(Result, frozen=True, kw_only=True, gc=False):
    """One result for each part of the request, in its order; none if the sender is refused."""

    partitions: tuple[PartitionAltered, ...] = ()


class ReassignmentAltered(Result, frozen=True, kw_only=True, gc=False, array_like=True):
    """One part of AlterReassignments; `replicas` are those that the partition now has."""

    topic: str
    partition: int
    replicas: Replicas = ()
    steps: tuple[Replicas, ...] = ()
    """In a dry run, the replicas after each step of the first partitions."""


class ReassignmentsAltered(Answer, frozen=True, kw_only=True, gc=False):
    """One result for each part of the request, in its order."""

    partitions: tuple[ReassignmentAltered, ...]
    move_id: MoveId = NO_MOVE
    """The move that was begun; if nothing had to change, a running move with these targets."""
    repeated: bool = False
    """Whether this is the stored answer to an earlier request with the same key."""


class LeaderElected(Result, frozen=True, kw_only=True, gc=False):
    """One partition of ElectLeaders."""

    topic: str
    partition: int


class LeadersElected(Answer, frozen=True, kw_only=True, gc=False):
    """One result for each partition named, in order; or for each that needed a leader."""

    partitions: tuple[LeaderElected, ...]


class BeginMove(MoveOptions, KeyedCommand, frozen=True, kw_only=True, gc=False):
    """Begin a move to these replicas. A partition that is refused does not stop the others."""

    reassignments: tuple[Reassignment, ...]
    who: str = ""
    kind: MoveKind = MoveKind.REASSIGN
    may_change_factor: bool = True
    """Whether a partition may end with another number of replicas than it has (KIP-860)."""
    broker: BrokerId | None = None
    """The broker that a drain empties."""


class MoveStarted(Result, frozen=True, kw_only=True, gc=False):
    """The move that was begun, or why there is none."""

    move_id: MoveId = 0
    """0 if nothing had to change, nothing can, or the request is a dry run."""
    accepted: int = 0
    """Partitions that belong to the move; in the dry run of a rollback, all that would change."""
    refused_count: int = 0
    refused: tuple[ReassignmentAltered, ...] = ()
    """The first partitions that are refused, with their reasons."""
    foreseen: tuple[ReassignmentAltered, ...] = ()
    """In the dry run of a rollback, the replicas that each changed partition would have."""
    repeated: bool = False
    """Whether this is the stored answer to an earlier request with the same key."""


class MoveAltered(Result, frozen=True, kw_only=True, gc=False):
    """The result of pausing, resuming, cancelling or altering one move."""

    move_id: MoveId


class CancelMoves(KeyedCommand, frozen=True, kw_only=True, gc=False):
    """Revert the steps under way of everything named here, and drop the steps after them."""

    partitions: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    moves: tuple[MoveId, ...] = ()
    everything: bool = False
    """All partitions under reassignment, in a move or not."""
    dry_run: bool = False
    """Answer with the replicas of each partition afterwards, and change nothing."""


class MovesCancelled(Answer, frozen=True, kw_only=True, gc=False):
    """The replicas of each partition after the cancel, by topic and number; -1 is a whole topic."""

    partitions: tuple[ReassignmentAltered, ...] = ()
    moves: tuple[MoveAltered, ...] = ()
    """Whether each named move was running, in order."""
    done_count: int = 0
    refused_count: int = 0
    """Of partitions; a repeated answer may name fewer."""
    repeated: bool = False
    """Whether this is the stored answer to an earlier request with the same key."""


class RollBackMove(KeyedCommand, frozen=True, kw_only=True, gc=False):
    """Cancel the rest of a move, and begin one back to the replicas before it."""

    move_id: MoveId
    who: str = ""
    dry_run: bool = False
    """Answer with the replicas of each partition afterwards, and change nothing."""


class PauseMoves(KeyedCommand, frozen=True, kw_only=True, gc=False):
    """Pause or resume these moves; None is all moves, including later ones."""

    moves: tuple[MoveId, ...] | None
    who: str = ""
    paused: bool = True
    after_step: bool = False
    """Let the steps under way complete; otherwise their copying stops."""


class AlterMove(OptionsChange, KeyedCommand, frozen=True, kw_only=True, gc=False):
    """Change options of a running move."""

    move_id: MoveId


class MovesAltered(Answer, frozen=True, kw_only=True, gc=False):
    """One result for each move named, in order; none if the request was for all."""

    moves: tuple[MoveAltered, ...] = ()
    repeated: bool = False
    """Whether this is the stored answer to an earlier request with the same key."""


class AdvanceMoves(Command, frozen=True, kw_only=True, gc=False):
    """Continue what bounded decisions left: begin steps within the limits, complete and elect.

    The active controller issues it.
    """


class MovesAdvanced(Answer, frozen=True, kw_only=True, gc=False):
    """The answer to AdvanceMoves."""

    is_left: bool
    """Whether another AdvanceMoves has something to do."""


class ForgetMoves(Command, frozen=True, kw_only=True, gc=False):
    """Forget old moves and keys, and unregister empty brokers that are leaving.

    The active controller issues it.
    """


KeyedAnswer: TypeAlias = ReassignmentsAltered | MoveStarted | MovesCancelled | MovesAltered


class IdempotentCommand(Command, frozen=True, kw_only=True, gc=False):
    """A request with an idempotency key: however often it is repeated, it is carried out once."""

    key: str
    """Chosen by the client for this request alone."""
    fingerprint: bytes
    """Of the request: another request with the same key is refused."""
    command: KeyedCommand


class RegisterBroker(Command, frozen=True, kw_only=True, gc=False):
    """Register an incarnation of a broker (api 62, KIP-631)."""

    broker_id: BrokerId
    cluster_id: str
    """The cluster that the broker was formatted for."""
    our_cluster_id: str
    """The id of this cluster."""
    incarnation_id: UUID
    endpoints: tuple[kafka_records.Endpoint, ...]
    features: tuple[kafka_records.FeatureRange, ...]
    rack: str | None = None
    log_dirs: Directories = ()
    previous_epoch: int | None = None
    """The epoch of its clean shutdown, -1 if there was none; None if it cannot say (KIP-966)."""
    kraft_version: int = 0
    """The level of kraft.version, which is in no metadata record."""


class BrokerHeartbeat(Command, frozen=True, kw_only=True, gc=False):
    """Report that a broker is alive, and request its next state (api 63, KIP-631)."""

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    """The offset of the last record that the broker has applied."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Directories = ()
    """Its log directories that have failed (KIP-858)."""
    cordoned_log_dirs: Directories | None = None
    """Its log directories that get no new replicas; None if it does not say (KIP-1066)."""
    lowest_live_offset: int | None = None
    """The lowest such offset among live brokers; None if none is live."""


class FenceBrokers(Command, frozen=True, kw_only=True, gc=False):
    """Fence brokers whose sessions have expired."""

    broker_ids: tuple[BrokerId, ...]


class UnregisterBroker(Command, frozen=True, kw_only=True, gc=False):
    """Unregister a broker that will not come back (api 64)."""

    broker_id: BrokerId
    only_if_empty: bool = False
    """Refuse a broker that is alive or has replicas, which Kafka's request does not."""


class CordonBrokers(Command, frozen=True, kw_only=True, gc=False):
    """Place no new replicas on these brokers, or end that. Existing replicas stay."""

    broker_ids: tuple[BrokerId, ...]
    cordoned: bool
    unregister: bool = False
    """With a cordon: unregister each broker once it has no replicas and is fenced. The end of the
    cordon cancels that too."""


class BrokerRegistered(Result, frozen=True, kw_only=True, gc=False):
    """The result of a registration: the broker epoch of the incarnation."""

    broker_epoch: int = -1


class HeartbeatAnswered(Result, frozen=True, kw_only=True, gc=False):
    """The state of the broker after its heartbeat."""

    caught_up: bool = False
    """Whether it has applied its own registration."""
    fenced: bool = True
    should_shut_down: bool = False


class BrokersFenced(Answer, frozen=True, kw_only=True, gc=False):
    """The brokers that the command has fenced."""

    broker_ids: tuple[BrokerId, ...]


class BrokerCordoned(Result, frozen=True, kw_only=True, gc=False):
    """The result for one broker."""

    broker_id: BrokerId


class BrokersCordoned(Answer, frozen=True, kw_only=True, gc=False):
    """One result for each broker named, in order."""

    brokers: tuple[BrokerCordoned, ...]


class FoundCluster(Command, frozen=True, kw_only=True, gc=False):
    """Put the features and credentials of a new cluster in force."""

    metadata_version: int
    features: tuple[tuple[str, int], ...] = ()
    """Levels of other features, if not the defaults of that level."""
    default_min_isr: int = 1
    """`min.insync.replicas` of the cluster, which the ELR needs in the log (KIP-966)."""
    scram_credentials: tuple[kafka_records.UserScramCredential, ...] = ()
    """Of `kafka-storage format --add-scram` (KIP-900)."""


class RegisterController(Command, frozen=True, kw_only=True, gc=False):
    """Register the endpoints of a controller (api 70, KIP-919)."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[kafka_records.Endpoint, ...]
    features: tuple[kafka_records.FeatureRange, ...]


class AllocateProducerIds(Command, frozen=True, kw_only=True, gc=False):
    """Allocate a block of producer ids to a broker (api 67, KIP-730)."""

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
    """A `ConfigOperation`, or any other number in the request."""
    value: str | None = None


class ConfigChange(Struct, frozen=True, kw_only=True, gc=False):
    """The changes of one resource."""

    resource_type: int
    resource_name: str
    ops: tuple[ConfigOp, ...]
    is_whole: bool = False
    """True for AlterConfigs, which removes configurations that it does not name."""


class IncrementalAlterConfigs(Command, frozen=True, kw_only=True, gc=False):
    """Change configurations, or with `validate_only` only check the change (apis 44 and 33)."""

    changes: tuple[ConfigChange, ...]
    validate_only: bool = False
    forwarded: bool = False
    """True if a broker has forwarded it, which has checked what only it knows."""


class ConfigAltered(Result, frozen=True, kw_only=True, gc=False):
    """One resource of a change."""

    resource_type: int
    resource_name: str


class ConfigsAltered(Answer, frozen=True, kw_only=True, gc=False):
    """Each resource once, in the order of its first occurrence."""

    resources: tuple[ConfigAltered, ...]


class DirectoryAssignment(Struct, frozen=True, kw_only=True, gc=False):
    """The directory of the sender's replica of one partition."""

    directory_id: UUID
    topic_id: UUID
    partition: int


class AssignReplicasToDirs(Command, frozen=True, kw_only=True, gc=False):
    """Report the log directories of a broker's replicas (api 73, KIP-858)."""

    broker_id: BrokerId
    broker_epoch: int
    assignments: tuple[DirectoryAssignment, ...]


class ReplicasAssigned(Result, frozen=True, kw_only=True, gc=False):
    """One result for each part of the request, in its order; none if the sender is refused."""

    replicas: tuple[Done, ...] = ()


class UpgradeType(Enum):
    """The changes of a feature level that a request allows; the numbers are those of api 57."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Only if no metadata can be lost."""
    UNSAFE_DOWNGRADE = 3
    """Even if metadata can be lost."""

    @classmethod
    def _missing_(cls, value: object) -> "UpgradeType":
        return cls.UNKNOWN


class FeatureUpdate(Struct, frozen=True, kw_only=True, gc=False):
    """A feature and its new level; 0 is "not in force"."""

    name: str
    level: int
    upgrade: UpgradeType = UpgradeType.UPGRADE


class UpdateFeatures(Command, frozen=True, kw_only=True, gc=False):
    """Change the levels of features, all of them or none (api 57, KIP-584)."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    controller_id: int
    """The active controller, which decides."""
    voters: tuple[int, ...]
    """The controllers that must have registered and support the levels."""
    observers: tuple[int, ...] | None = None
    """Those of them that have registered as controllers must support the levels too. None: a new
    leader does not know yet who follows the log, so every registered controller must."""
    kraft_version: int = 0
    """The level of kraft.version, which is in no metadata record."""
    default_min_isr: int = 1
    """`min.insync.replicas` of the cluster if no record sets it, for KIP-966."""


class QuotaOp(Struct, frozen=True, kw_only=True, gc=False):
    """One quota to set, or to remove; a removal ignores the value."""

    key: str
    value: float = 0.0
    remove: bool = False


class QuotaChange(Struct, frozen=True, kw_only=True, gc=False):
    """The quotas of one entity to change; others stay."""

    entity: tuple[QuotaEntity, ...]
    ops: tuple[QuotaOp, ...]


class AlterClientQuotas(Command, frozen=True, kw_only=True, gc=False):
    """Change quotas, or with `validate_only` only check the change (api 49, KIP-546)."""

    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


class QuotaAltered(Result, frozen=True, kw_only=True, gc=False):
    """One entity of AlterClientQuotas."""

    entity: tuple[QuotaEntity, ...]


class ClientQuotasAltered(Answer, frozen=True, kw_only=True, gc=False):
    """Each entity once, in the order of its first occurrence."""

    entities: tuple[QuotaAltered, ...]


class AclCreation(Struct, frozen=True, kw_only=True, gc=False):
    """One ACL to create. Its fields are those of the record."""

    id: UUID
    """Chosen at random by the caller: the state machine is deterministic."""
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class CreateAcls(Command, frozen=True, kw_only=True, gc=False):
    """Create ACLs, each by itself (api 30, KIP-801)."""

    creations: tuple[AclCreation, ...]


class AclFilter(Struct, frozen=True, kw_only=True, gc=False):
    """A condition on ACLs; None and the ANY of each number match everything (KIP-290)."""

    resource_type: int
    resource_name: str | None = None
    pattern_type: int
    principal: str | None = None
    host: str | None = None
    operation: int
    permission_type: int


class DeleteAcls(Command, frozen=True, kw_only=True, gc=False):
    """Delete the ACLs that match each filter (api 31)."""

    filters: tuple[AclFilter, ...]
    dry_run: bool = False
    """Answer with the ACLs that match, and change nothing."""


class AclsCreated(Answer, frozen=True, kw_only=True, gc=False):
    """One result for each part of the request, in its order."""

    results: tuple[Done, ...]


class AclsMatched(Result, frozen=True, kw_only=True, gc=False):
    """The ACLs that one filter has deleted."""

    acls: tuple[kafka_records.AccessControlEntry, ...] = ()


class AclsDeleted(Answer, frozen=True, kw_only=True, gc=False):
    """One result for each filter of the request, in its order."""

    results: tuple[AclsMatched, ...]


class AlterUserScramCredentials(Command, frozen=True, kw_only=True, gc=False):
    """Delete and set SCRAM credentials, one of each user (api 51, KIP-554)."""

    deletions: tuple[kafka_records.RemoveUserScramCredential, ...] = ()
    upsertions: tuple[kafka_records.UserScramCredential, ...] = ()
    """With the keys already derived from the salted password; without keys if it is empty."""


class ScramCredentialAltered(Result, frozen=True, kw_only=True, gc=False):
    """The result for one user."""

    user: str


class ScramCredentialsAltered(Answer, frozen=True, kw_only=True, gc=False):
    """Each user once, in the order of the first occurrence."""

    users: tuple[ScramCredentialAltered, ...]


class CreateDelegationToken(Command, frozen=True, kw_only=True, gc=False):
    """Create a delegation token (api 38, KIP-48 and KIP-373)."""

    token_id: str
    """Chosen at random by the caller."""
    owner: str
    """Principals are written like User:alice."""
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int
    """Of the request; 0 and less for the default."""
    default_max_lifetime_ms: int
    """`delegation.token.max.lifetime.ms`, which the token never exceeds."""
    default_renew_period_ms: int
    """`delegation.token.expiry.time.ms`."""


class RenewDelegationToken(Command, frozen=True, kw_only=True, gc=False):
    """Let a token be valid for longer (api 39)."""

    token_id: str | None
    """None if there is no token with the HMAC of the request."""
    requester: str
    renew_period_ms: int
    """Of the request; 0 and less for the default."""
    default_renew_period_ms: int


class ExpireDelegationToken(Command, frozen=True, kw_only=True, gc=False):
    """Let a token expire after a time, or with a negative one now (api 40)."""

    token_id: str | None
    requester: str
    expiry_period_ms: int


class DelegationTokenGiven(Result, frozen=True, kw_only=True, gc=False):
    """The token after the command; without one if it is refused or gone."""

    token: kafka_records.DelegationToken | None = None
    expiry_timestamp_ms: int = -1


class ForgetDelegationTokens(Command, frozen=True, kw_only=True, gc=False):
    """Remove the delegation tokens that have expired.

    The active controller issues it.
    """


class NewTopic(Struct, frozen=True, kw_only=True, gc=False):
    """One topic to create: counts, or an assignment for each partition and both counts -1."""

    name: str
    topic_id: UUID
    """Chosen at random by the caller: the state machine is deterministic."""
    partition_count: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, Replicas], ...] = ()
    """Partition number and its replicas, the preferred leader first."""
    configs: tuple[tuple[str, str | None], ...] = ()


class MutationClient(Struct, frozen=True, kw_only=True, gc=False):
    """The client whose quota of controller mutations a command uses (KIP-599)."""

    user: str
    """The name of its principal."""
    client_id: str
    """Empty if it has none."""
    is_strict: bool = True
    """True if a quota that is used up refuses the command; False for old versions of a request,
    whose clients do not know this error: the command is carried out, and its client waits."""


QuotaOwner: TypeAlias = tuple[str, str]
"""The user and the client id that a quota is counted for; an empty one stands for all of them."""


class MutationTokens(Struct, frozen=True, gc=False):
    """The tokens left in the bucket of a client (`statemachine.topics.mutation_quota`)."""

    owner: QuotaOwner
    tokens: float
    at_ms: int
    """When they were counted, by the monotonic clock of the controller."""


class CreateTopics(Command, frozen=True, kw_only=True, gc=False):
    """Create topics, or with `validate_only` only check the request (api 19)."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    client: MutationClient | None = None
    """Without it no quota applies."""
    default_partition_count: int = 1
    """`num.partitions`, for a count of -1."""
    default_replication_factor: int = 1
    """`default.replication.factor`, for a factor of -1."""


class MorePartitions(Struct, frozen=True, kw_only=True, gc=False):
    """A topic and its new total of partitions."""

    name: str
    count: int
    assignments: tuple[Replicas, ...] | None = None
    """The replicas of each new partition, the preferred leader first; None to have them placed."""


class CreatePartitions(Command, frozen=True, kw_only=True, gc=False):
    """Add partitions to topics, or with `validate_only` only check the request (api 37)."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False
    client: MutationClient | None = None
    """Without it no quota applies."""


class DeleteTopics(Command, frozen=True, kw_only=True, gc=False):
    """Delete topics, each by name or by id (api 20)."""

    topics: tuple[str | UUID, ...]
    client: MutationClient | None = None
    """Without it no quota applies."""


class MutationsAnswered(Answer, frozen=True, kw_only=True, gc=False):
    """The answer to a command that uses a quota of controller mutations."""

    throttled_until_ms: int = 0
    """The time, by the clock of the controller, until which the client is to wait; 0 if it need
    not."""


class TopicCreated(Result, frozen=True, kw_only=True, gc=False):
    """One topic of CreateTopics."""

    name: str
    topic_id: UUID | None = None
    partition_count: int = -1
    replication_factor: int = -1


class TopicsCreated(MutationsAnswered, frozen=True, kw_only=True, gc=False):
    """One result for each part of the request, in its order."""

    topics: tuple[TopicCreated, ...]


class PartitionsAdded(Result, frozen=True, kw_only=True, gc=False):
    """One topic of CreatePartitions."""

    name: str


class PartitionsCreated(MutationsAnswered, frozen=True, kw_only=True, gc=False):
    """One result for each topic, in the order of the request."""

    topics: tuple[PartitionsAdded, ...]


class TopicDeleted(Result, frozen=True, kw_only=True, gc=False):
    """One topic of DeleteTopics."""

    name: str | None
    topic_id: UUID | None


class TopicsDeleted(MutationsAnswered, frozen=True, kw_only=True, gc=False):
    """One result for each part of the request, in its order."""

    topics: tuple[TopicDeleted, ...]


def is_dry_run(command: Command) -> bool:
    """Return True if the command is only a check: the records of its decision are dropped."""
    return getattr(command, "dry_run", False) or getattr(command, "validate_only", False)


class Decision(Struct, frozen=True, gc=False):
    """The records to append, in order and in one piece, and the answer once they are committed."""

    records: Sequence[kafka_records.Record]
    answer: Answer
    is_complete: bool = True
    """False if the work is too much for one decision: the same command must be decided again after
    these records, and the last answer counts.
    """
    decided: Mapping[int, PartitionRegistration] = {}
    """The partitions that the records change once, with their new values; for `replay_decided`."""
    tokens: MutationTokens | None = None
    """What it leaves of the quota of its client, once its records are appended."""

"""Kafka's metadata records as values, named as in Kafka without the trailing "Record".

Each class is the schema of its record: `codec` encodes it by its annotations, in their order.
Source: `metadata/src/main/resources/common/metadata/*.json` of Kafka; ClearElr (28) from the bytes
and the dump of a 4.2 cluster. Tags from `OURS_FROM` on are this project's, and Kafka skips them.
Other modules write `kafka_records.Topic`, since the image has a `Topic` too.
"""

from typing import Annotated, ClassVar, Final, TypeAlias
from uuid import UUID

from msgspec import Struct

from statemachine.records.own_records import OurRecord
from statemachine.records.primitives import (
    I8,
    I16,
    I32,
    I64,
    IDS,
    U16,
    Ids,
    Int8,
    Int16,
    Int32,
    Int64,
    Wire,
    nullable,
)
from statemachine.vocabulary import (
    NO_MOVE,
    RECOVERED,
    BrokerId,
    Directories,
    MoveId,
    Replicas,
)

OURS_FROM: Final = 10_000
"""Tags from here on are this project's own."""


class Endpoint(Struct, frozen=True, kw_only=True, gc=False):
    """The address of a listener of a broker or controller."""

    name: str
    host: str
    port: Annotated[int, U16]
    security_protocol: Int16


class FeatureRange(Struct, frozen=True, kw_only=True, gc=False):
    """The levels of one feature that a broker or controller supports, both ends included."""

    name: str
    min_supported: Annotated[int, I16, Wire(name="minSupportedVersion")]
    max_supported: Annotated[int, I16, Wire(name="maxSupportedVersion")]


class QuotaEntity(Struct, frozen=True, kw_only=True, gc=False):
    """One part of whom a quota is for; no name means the default of that type."""

    type: Annotated[str, Wire(name="entityType")]
    name: Annotated[str | None, Wire(name="entityName")]


Endpoints: TypeAlias = Annotated[tuple[Endpoint, ...], Wire(name="endPoints")]


class RegisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation of a broker says where it is and what it can do."""

    API_KEY: ClassVar[int] = 0
    broker_id: Int32
    is_migrating_zk_broker: Annotated[bool, Wire(since=2)] = False
    incarnation_id: UUID
    broker_epoch: Int64
    """Unique to the incarnation, and rising: the offset of its first such record."""
    endpoints: Endpoints
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, Wire(since=1)] = False
    log_dirs: Annotated[Directories, Wire(tag=0, since=3)] = ()
    registered_at: Annotated[int | None, I64, Wire(OURS_FROM)] = None
    """In an image or a snapshot: the offset of the record that registered it last."""
    stopping_at: Annotated[int | None, I64, Wire(OURS_FROM + 1)] = None
    """There, while it is in controlled shutdown: the offset of the record that says so."""
    cordoned: Annotated[bool, Wire(OURS_FROM + 2)] = False
    """There: whether it is given no new replicas. In the log this stays as it was before."""
    leaving: Annotated[bool, Wire(OURS_FROM + 4)] = False
    """There: whether it is unregistered once it has no replicas and is fenced; as above."""
    fenced_at_ms: Annotated[int | None, I64, Wire(OURS_FROM + 3)] = None
    """There: since when it has been fenced, if that is known."""

    @property
    def live(self) -> bool:
        """True if the broker may lead and be in an ISR: neither fenced nor stopping."""
        return not (self.fenced or self.in_controlled_shutdown)


class UnregisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker is gone for good."""

    API_KEY: ClassVar[int] = 1
    broker_id: Int32
    broker_epoch: Int64


class Topic(Struct, frozen=True, kw_only=True, gc=False):
    """A topic exists; its partitions follow."""

    API_KEY: ClassVar[int] = 2
    name: str
    topic_id: UUID


class Partition(Struct, frozen=True, kw_only=True, gc=False):
    """A partition exists and is all this."""

    API_KEY: ClassVar[int] = 3
    partition_id: Int32
    topic_id: UUID
    replicas: Ids
    isr: Ids
    removing: Annotated[Replicas, IDS, Wire(name="removingReplicas")] = ()
    adding: Annotated[Replicas, IDS, Wire(name="addingReplicas")] = ()
    leader: Int32
    recovery: Annotated[int, I8, Wire(0, name="leaderRecoveryState")] = RECOVERED
    leader_epoch: Int32
    partition_epoch: Int32
    directories: Annotated[Directories, Wire(since=1)] = ()
    elr: Annotated[Replicas, IDS, Wire(1, since=2, name="eligibleLeaderReplicas")] = ()
    last_known_elr: Annotated[Replicas, IDS, Wire(2, since=2)] = ()
    target: Annotated[Replicas, IDS, Wire(OURS_FROM)] = ()
    original: Annotated[Replicas, IDS, Wire(OURS_FROM + 1)] = ()
    base: Annotated[Replicas, IDS, Wire(OURS_FROM + 2)] = ()
    move: Annotated[MoveId, I64, Wire(OURS_FROM + 3)] = NO_MOVE
    step: Annotated[int, I16, Wire(OURS_FROM + 4)] = 0
    since_ms: Annotated[int, I64, Wire(OURS_FROM + 5)] = 0


class Config(Struct, frozen=True, kw_only=True, gc=False):
    """One configuration of one resource; no value means that it is removed."""

    API_KEY: ClassVar[int] = 4
    resource_type: Int8
    resource_name: str
    name: str
    value: str | None


class PartitionChange(Struct, frozen=True, kw_only=True, gc=False):
    """The change of a partition by one record. None means "unchanged", never "empty".

    A leader that is named, even the same one, begins a new leader epoch
    (`PartitionRegistration.merge` of Kafka). A record that speaks of adding or removing without
    naming a target is of a controller that does not know targets: the target falls away. With the
    target all falls away that is said of the move there.
    """

    API_KEY: ClassVar[int] = 5
    partition_id: Int32
    topic_id: UUID
    isr: Annotated[Replicas | None, IDS, Wire(0)] = None
    leader: Annotated[BrokerId | None, nullable(I32, -2), Wire(1)] = None
    replicas: Annotated[Replicas | None, IDS, Wire(2)] = None
    removing: Annotated[Replicas | None, IDS, Wire(3, name="removingReplicas")] = None
    adding: Annotated[Replicas | None, IDS, Wire(4, name="addingReplicas")] = None
    recovery: Annotated[int | None, nullable(I8, -1), Wire(5, name="leaderRecoveryState")] = None
    elr: Annotated[Replicas | None, IDS, Wire(6, 2, "eligibleLeaderReplicas")] = None
    last_known_elr: Annotated[Replicas | None, IDS, Wire(7, since=2)] = None
    directories: Annotated[Directories | None, Wire(8, since=1)] = None
    target: Annotated[Replicas | None, IDS, Wire(OURS_FROM)] = None
    original: Annotated[Replicas | None, IDS, Wire(OURS_FROM + 1)] = None
    base: Annotated[Replicas | None, IDS, Wire(OURS_FROM + 2)] = None
    move: Annotated[MoveId | None, I64, Wire(OURS_FROM + 3)] = None
    step: Annotated[int | None, I16, Wire(OURS_FROM + 4)] = None
    since_ms: Annotated[int | None, I64, Wire(OURS_FROM + 5)] = None


class FenceBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker may no longer lead or be in sync (before metadata.version 6)."""

    API_KEY: ClassVar[int] = 7
    broker_id: Annotated[BrokerId, I32, Wire(name="id")]
    broker_epoch: Annotated[int, I64, Wire(name="epoch")]


class UnfenceBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker may lead again (before metadata.version 6)."""

    API_KEY: ClassVar[int] = 8
    broker_id: Annotated[BrokerId, I32, Wire(name="id")]
    broker_epoch: Annotated[int, I64, Wire(name="epoch")]


class RemoveTopic(Struct, frozen=True, kw_only=True, gc=False):
    """A topic is gone, with its partitions and its configuration."""

    API_KEY: ClassVar[int] = 9
    topic_id: UUID


class DelegationToken(Struct, frozen=True, kw_only=True, gc=False):
    """A delegation token (KIP-48)."""

    API_KEY: ClassVar[int] = 10
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: Annotated[int, I64, Wire(name="issueTimestamp")]
    max_timestamp_ms: Annotated[int, I64, Wire(name="maxTimestamp")]
    expiration_timestamp_ms: Annotated[int, I64, Wire(name="expirationTimestamp")]
    token_id: str


class UserScramCredential(Struct, frozen=True, kw_only=True, gc=False):
    """A user's SCRAM credential (KIP-900)."""

    API_KEY: ClassVar[int] = 11
    name: str
    mechanism: Int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32


class FeatureLevel(Struct, frozen=True, kw_only=True, gc=False):
    """A feature is in force at this level; level 0 means that it is not (KIP-584)."""

    API_KEY: ClassVar[int] = 12
    name: str
    level: Annotated[int, I16, Wire(name="featureLevel")]


class ClientQuota(Struct, frozen=True, kw_only=True, gc=False):
    """A quota of clients is set or removed (KIP-546)."""

    API_KEY: ClassVar[int] = 14
    entity: tuple[QuotaEntity, ...]
    key: str
    value: float
    remove: bool


class ProducerIds(Struct, frozen=True, kw_only=True, gc=False):
    """A broker was given the block of producer ids that ends before the next one."""

    API_KEY: ClassVar[int] = 15
    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


class BrokerRegistrationChange(Struct, frozen=True, kw_only=True, gc=False):
    """The change of a broker: fenced 1, unfenced -1, stopping 1, cordoned 1, given replicas
    again -1, to be unregistered once it is empty 1, to stay -1; 0 or () is "unchanged".
    """

    API_KEY: ClassVar[int] = 17
    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[int, I8, Wire(0)] = 0
    in_controlled_shutdown: Annotated[int, I8, Wire(1, since=1)] = 0
    log_dirs: Annotated[Directories, Wire(2, since=2)] = ()
    cordoned: Annotated[int, I8, Wire(OURS_FROM)] = 0
    leaving: Annotated[int, I8, Wire(OURS_FROM + 2)] = 0
    at_ms: Annotated[int | None, I64, Wire(OURS_FROM + 1)] = None
    """When, by the clock of the controller; of a broker that is fenced."""


class AccessControlEntry(Struct, frozen=True, kw_only=True, gc=False):
    """An entry of the access control list."""

    API_KEY: ClassVar[int] = 18
    id: UUID
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntry(Struct, frozen=True, kw_only=True, gc=False):
    """An access control entry is gone."""

    API_KEY: ClassVar[int] = 19
    id: UUID


class NoOp(Struct, frozen=True, kw_only=True, gc=False):
    """Nothing happened; it keeps the log moving."""

    API_KEY: ClassVar[int] = 20


class ZkMigrationState(Struct, frozen=True, kw_only=True, gc=False):
    """The state of a migration from ZooKeeper (KIP-866)."""

    API_KEY: ClassVar[int] = 21
    state: Annotated[int, I8, Wire(name="zkMigrationState")]


class RemoveUserScramCredential(Struct, frozen=True, kw_only=True, gc=False):
    """A SCRAM credential is gone."""

    API_KEY: ClassVar[int] = 22
    name: str
    mechanism: Int8


class BeginTransaction(Struct, frozen=True, kw_only=True, gc=False):
    """The begin of a transaction: its records count only if an EndTransaction follows (KIP-868)."""

    API_KEY: ClassVar[int] = 23
    name: Annotated[str | None, Wire(0)] = None


class EndTransaction(Struct, frozen=True, kw_only=True, gc=False):
    """The commit of the records since BeginTransaction."""

    API_KEY: ClassVar[int] = 24


class AbortTransaction(Struct, frozen=True, kw_only=True, gc=False):
    """The abort of the records since BeginTransaction."""

    API_KEY: ClassVar[int] = 25
    reason: Annotated[str | None, Wire(0)] = None


class RemoveDelegationToken(Struct, frozen=True, kw_only=True, gc=False):
    """A delegation token is gone."""

    API_KEY: ClassVar[int] = 26
    token_id: str


class RegisterController(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation of a controller says where it is and what it can do (KIP-919)."""

    API_KEY: ClassVar[int] = 27
    controller_id: Int32
    incarnation_id: UUID
    zk_migration_ready: bool = False
    endpoints: Endpoints
    features: tuple[FeatureRange, ...]


class ClearElr(Struct, frozen=True, kw_only=True, gc=False):
    """The ELR is empty from here on: of a topic, or with an empty name of all (KIP-966)."""

    API_KEY: ClassVar[int] = 28
    topic_name: str


class Unknown(Struct, frozen=True, kw_only=True, gc=False):
    """A record of a type that this version does not know. It changes nothing."""

    type_id: int
    version: int
    body: bytes


Record: TypeAlias = (
    RegisterBroker
    | UnregisterBroker
    | Topic
    | Partition
    | Config
    | PartitionChange
    | FenceBroker
    | UnfenceBroker
    | RemoveTopic
    | DelegationToken
    | UserScramCredential
    | FeatureLevel
    | ClientQuota
    | ProducerIds
    | BrokerRegistrationChange
    | AccessControlEntry
    | RemoveAccessControlEntry
    | NoOp
    | ZkMigrationState
    | RemoveUserScramCredential
    | BeginTransaction
    | EndTransaction
    | AbortTransaction
    | RemoveDelegationToken
    | RegisterController
    | ClearElr
    | OurRecord
    | Unknown
)

"""Kafka's metadata records as values, named as in Kafka without the trailing "Record".

Each class is the schema of its record: `codec` encodes its annotated fields in their order.
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
    OWN_UUID,
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
    EMBEDDED_BROKER,
    NO_MOVE,
    RECOVERED,
    BrokerId,
    Directories,
    MoveId,
    Replicas,
)

OURS_FROM: Final = 10_000
"""Tags from here on are this project's own."""

Secret: TypeAlias = Annotated[bytes, Wire(is_secret=True)]
OwnUuid: TypeAlias = Annotated[UUID, OWN_UUID]


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
    """One part of the entity of a quota; no name means the default of that type."""

    type: Annotated[str, Wire(name="entityType")]
    name: Annotated[str | None, Wire(name="entityName")]


Endpoints: TypeAlias = Annotated[tuple[Endpoint, ...], Wire(name="endPoints")]


class RegisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """The registration of an incarnation of a broker: its endpoints, features and directories."""

    API_KEY: ClassVar[int] = 0
    broker_id: Int32
    is_migrating_zk_broker: Annotated[bool, Wire(since=2)] = False
    incarnation_id: UUID
    broker_epoch: Int64
    """The offset of the first registration record of the incarnation: unique and rising."""
    endpoints: Endpoints
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, Wire(since=1)] = False
    log_dirs: Annotated[Directories, Wire(tag=0, since=3)] = ()
    cordoned_log_dirs: Annotated[Directories | None, Wire(tag=1, since=4)] = None
    """Its log directories that get no new replicas; None until it has reported them (KIP-1066)."""
    registered_at: Annotated[int | None, I64, Wire(OURS_FROM)] = None
    """In an image or a snapshot: the offset of its last registration record."""
    stopping_at: Annotated[int | None, I64, Wire(OURS_FROM + 1)] = None
    """There: the offset of the record that began its controlled shutdown, if one is under way."""
    cordoned: Annotated[bool, Wire(OURS_FROM + 2)] = False
    """There: whether an operator has cordoned it. A registration record does not change it."""
    leaving: Annotated[bool, Wire(OURS_FROM + 4)] = False
    """There: whether it is unregistered once it is empty and fenced; like `cordoned`."""
    fenced_at_ms: Annotated[int | None, I64, Wire(OURS_FROM + 3)] = None
    """There: when it was fenced, if that is known."""

    @property
    def live(self) -> bool:
        """True if the broker may lead and be in an ISR: neither fenced nor stopping."""
        return not (self.fenced or self.in_controlled_shutdown)

    @property
    def is_embedded(self) -> bool:
        """True for an embedded broker; any other counts as one of Kafka's."""
        return any(feature.name == EMBEDDED_BROKER for feature in self.features)


class UnregisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """The removal of a broker's registration."""

    API_KEY: ClassVar[int] = 1
    broker_id: Int32
    broker_epoch: Int64


class Topic(Struct, frozen=True, kw_only=True, gc=False):
    """The creation of a topic; its partitions follow."""

    API_KEY: ClassVar[int] = 2
    name: str
    topic_id: UUID


class Partition(Struct, frozen=True, kw_only=True, gc=False):
    """The whole state of a partition."""

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
    """One configuration of one resource; no value removes it."""

    API_KEY: ClassVar[int] = 4
    resource_type: Int8
    resource_name: str
    name: str
    value: str | None


class PartitionChange(Struct, frozen=True, kw_only=True, gc=False):
    """The change of a partition by one record. None means "unchanged", never "empty".

    A leader, even the same one, begins a new leader epoch (Kafka's `PartitionRegistration.merge`).
    A record with adding or removing replicas and without a target comes from a controller that
    does not know targets: it removes the target, and with it the original replicas and the stage.
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
    """The fencing of a broker (before metadata.version 6)."""

    API_KEY: ClassVar[int] = 7
    broker_id: Annotated[BrokerId, I32, Wire(name="id")]
    broker_epoch: Annotated[int, I64, Wire(name="epoch")]


class UnfenceBroker(Struct, frozen=True, kw_only=True, gc=False):
    """The unfencing of a broker (before metadata.version 6)."""

    API_KEY: ClassVar[int] = 8
    broker_id: Annotated[BrokerId, I32, Wire(name="id")]
    broker_epoch: Annotated[int, I64, Wire(name="epoch")]


class RemoveTopic(Struct, frozen=True, kw_only=True, gc=False):
    """The deletion of a topic with its partitions and configurations."""

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
    salt: Secret
    stored_key: Secret
    server_key: Secret
    iterations: Int32

    def __repr__(self) -> str:
        """Name the credential; nothing that helps to guess the password."""
        shown = f"name={self.name!r}, mechanism={self.mechanism}, iterations={self.iterations}"
        return f"UserScramCredential({shown})"


class FeatureLevel(Struct, frozen=True, kw_only=True, gc=False):
    """The level of a feature; 0 means that it is not in force (KIP-584)."""

    API_KEY: ClassVar[int] = 12
    name: str
    level: Annotated[int, I16, Wire(name="featureLevel")]


class ClientQuota(Struct, frozen=True, kw_only=True, gc=False):
    """The value of a client quota, or its removal (KIP-546)."""

    API_KEY: ClassVar[int] = 14
    entity: tuple[QuotaEntity, ...]
    key: str
    value: float
    remove: bool


class ProducerIds(Struct, frozen=True, kw_only=True, gc=False):
    """The allocation of the producer ids below the next one to a broker."""

    API_KEY: ClassVar[int] = 15
    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


class BrokerRegistrationChange(Struct, frozen=True, kw_only=True, gc=False):
    """The change of a broker's registration; 0, () or None is "unchanged".

    1 begins and -1 ends a state: fenced, in controlled shutdown, cordoned, or leaving.
    """

    API_KEY: ClassVar[int] = 17
    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[int, I8, Wire(0)] = 0
    in_controlled_shutdown: Annotated[int, I8, Wire(1, since=1)] = 0
    log_dirs: Annotated[Directories, Wire(2, since=2)] = ()
    cordoned_log_dirs: Annotated[Directories | None, Wire(3, since=3)] = None
    cordoned: Annotated[int, I8, Wire(OURS_FROM)] = 0
    leaving: Annotated[int, I8, Wire(OURS_FROM + 2)] = 0
    at_ms: Annotated[int | None, I64, Wire(OURS_FROM + 1)] = None
    """When the broker was fenced, by the clock of the controller."""


class AccessControlEntry(Struct, frozen=True, kw_only=True, gc=False):
    """An entry of the access control list."""

    API_KEY: ClassVar[int] = 18
    id: OwnUuid
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntry(Struct, frozen=True, kw_only=True, gc=False):
    """The removal of an access control entry."""

    API_KEY: ClassVar[int] = 19
    id: OwnUuid


class NoOp(Struct, frozen=True, kw_only=True, gc=False):
    """A record without effect, which makes the log advance."""

    API_KEY: ClassVar[int] = 20


class ZkMigrationState(Struct, frozen=True, kw_only=True, gc=False):
    """The state of a migration from ZooKeeper (KIP-866)."""

    API_KEY: ClassVar[int] = 21
    state: Annotated[int, I8, Wire(name="zkMigrationState")]


class RemoveUserScramCredential(Struct, frozen=True, kw_only=True, gc=False):
    """The removal of a SCRAM credential."""

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
    """The removal of a delegation token."""

    API_KEY: ClassVar[int] = 26
    token_id: str


class RegisterController(Struct, frozen=True, kw_only=True, gc=False):
    """The registration of an incarnation of a controller: endpoints and features (KIP-919)."""

    API_KEY: ClassVar[int] = 27
    controller_id: Int32
    incarnation_id: UUID
    zk_migration_ready: bool = False
    endpoints: Endpoints
    features: tuple[FeatureRange, ...]


class ClearElr(Struct, frozen=True, kw_only=True, gc=False):
    """The clearing of the ELR of a topic, or of all topics if the name is empty (KIP-966)."""

    API_KEY: ClassVar[int] = 28
    topic_name: str


class Unknown(Struct, frozen=True, kw_only=True, gc=False):
    """A record of an unknown type, which tools show and no image takes."""

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

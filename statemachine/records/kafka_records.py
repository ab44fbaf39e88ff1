"""Kafka's metadata records as values, named as in Kafka without the trailing "Record".

`codec` encodes them, `replay` applies them. They are written `kafka_records.Topic` elsewhere, since
the image has a `Topic` too.

"""

from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from statemachine.records.own_records import OurRecord
from statemachine.vocabulary import (
    NO_MOVE,
    RECOVERED,
    BrokerId,
    Directories,
    MoveId,
    Replicas,
)


class Endpoint(Struct, frozen=True, kw_only=True, gc=False):
    """The address of a listener of a broker or controller."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(Struct, frozen=True, kw_only=True, gc=False):
    """The levels of one feature that a broker or controller supports, both ends included."""

    name: str
    min_supported: int
    max_supported: int


class QuotaEntity(Struct, frozen=True, kw_only=True, gc=False):
    """One part of whom a quota is for; no name means the default of that type."""

    type: str
    name: str | None


class RegisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation of a broker says where it is and what it can do."""

    broker_id: BrokerId
    is_migrating_zk_broker: bool = False
    incarnation_id: UUID
    broker_epoch: int
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: Directories = ()
    registered_at: int | None = None
    """In a snapshot: at which offset of the log it registered."""
    stopping_at: int | None = None
    """In a snapshot: at which offset of the log it began to stop, if it has."""
    cordoned: bool = False
    """In a snapshot: whether it is given no new replicas. Otherwise that is as it was before."""
    leaving: bool = False
    """In a snapshot: whether it is to be unregistered once it is empty. Otherwise as before."""
    fenced_at_ms: int | None = None
    """In a snapshot: when it was fenced, if it is and somebody noted the time."""


class UnregisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker is gone for good."""

    broker_id: BrokerId
    broker_epoch: int


class Topic(Struct, frozen=True, kw_only=True, gc=False):
    """A topic exists; its partitions follow."""

    name: str
    topic_id: UUID


class Partition(Struct, frozen=True, kw_only=True, gc=False):
    """A partition exists and is all this."""

    partition_id: int
    topic_id: UUID
    replicas: Replicas
    isr: Replicas
    removing: Replicas = ()
    adding: Replicas = ()
    leader: BrokerId
    recovery: int = RECOVERED
    leader_epoch: int
    partition_epoch: int
    directories: Directories = ()
    elr: Replicas = ()
    last_known_elr: Replicas = ()
    target: Replicas = ()
    original: Replicas = ()
    base: Replicas = ()
    move: MoveId = NO_MOVE
    step: int = 0
    since_ms: int = 0


class Config(Struct, frozen=True, kw_only=True, gc=False):
    """One configuration of one resource; no value means that it is removed."""

    resource_type: int
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

    partition_id: int
    topic_id: UUID
    isr: Replicas | None = None
    leader: BrokerId | None = None
    replicas: Replicas | None = None
    removing: Replicas | None = None
    adding: Replicas | None = None
    recovery: int | None = None
    elr: Replicas | None = None
    last_known_elr: Replicas | None = None
    directories: Directories | None = None
    target: Replicas | None = None
    original: Replicas | None = None
    base: Replicas | None = None
    move: MoveId | None = None
    step: int | None = None
    since_ms: int | None = None


class FenceBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker may no longer lead or be in sync (before metadata.version 6)."""

    broker_id: BrokerId
    broker_epoch: int


class UnfenceBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker may lead again (before metadata.version 6)."""

    broker_id: BrokerId
    broker_epoch: int


class RemoveTopic(Struct, frozen=True, kw_only=True, gc=False):
    """A topic is gone, with its partitions and its configuration."""

    topic_id: UUID


class DelegationToken(Struct, frozen=True, kw_only=True, gc=False):
    """A delegation token (KIP-48)."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int
    token_id: str


class UserScramCredential(Struct, frozen=True, kw_only=True, gc=False):
    """A user's SCRAM credential (KIP-900)."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class FeatureLevel(Struct, frozen=True, kw_only=True, gc=False):
    """A feature is in force at this level; level 0 means that it is not (KIP-584)."""

    name: str
    level: int


class ClientQuota(Struct, frozen=True, kw_only=True, gc=False):
    """A quota of clients is set or removed (KIP-546)."""

    entity: tuple[QuotaEntity, ...]
    key: str
    value: float
    remove: bool


class ProducerIds(Struct, frozen=True, kw_only=True, gc=False):
    """A broker was given the block of producer ids that ends before the next one."""

    broker_id: BrokerId
    broker_epoch: int
    next_producer_id: int


class BrokerRegistrationChange(Struct, frozen=True, kw_only=True, gc=False):
    """The change of a broker: fenced 1, unfenced -1, stopping 1, cordoned 1, given replicas
    again -1, to be unregistered once it is empty 1, to stay -1; 0 or () is "unchanged".
    """

    broker_id: BrokerId
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: Directories = ()
    cordoned: int = 0
    leaving: int = 0
    at_ms: int | None = None
    """When, by the clock of the controller; of a broker that is fenced."""


class AccessControlEntry(Struct, frozen=True, kw_only=True, gc=False):
    """An entry of the access control list."""

    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class RemoveAccessControlEntry(Struct, frozen=True, kw_only=True, gc=False):
    """An access control entry is gone."""

    id: UUID


class NoOp(Struct, frozen=True, kw_only=True, gc=False):
    """Nothing happened; it keeps the log moving."""


class ZkMigrationState(Struct, frozen=True, kw_only=True, gc=False):
    """The state of a migration from ZooKeeper (KIP-866)."""

    state: int


class RemoveUserScramCredential(Struct, frozen=True, kw_only=True, gc=False):
    """A SCRAM credential is gone."""

    name: str
    mechanism: int


class BeginTransaction(Struct, frozen=True, kw_only=True, gc=False):
    """The begin of a transaction: its records count only if an EndTransaction follows (KIP-868)."""

    name: str | None = None


class EndTransaction(Struct, frozen=True, kw_only=True, gc=False):
    """The commit of the records since BeginTransaction."""


class AbortTransaction(Struct, frozen=True, kw_only=True, gc=False):
    """The abort of the records since BeginTransaction."""

    reason: str | None = None


class RemoveDelegationToken(Struct, frozen=True, kw_only=True, gc=False):
    """A delegation token is gone."""

    token_id: str


class RegisterController(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation of a controller says where it is and what it can do (KIP-919)."""

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool = False
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]


class ClearElr(Struct, frozen=True, kw_only=True, gc=False):
    """The ELR is empty from here on: of a topic, or with an empty name of all (KIP-966)."""

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

"""Kafka's schemas of the metadata records as a table, and which version is written when.

Source: `metadata/src/main/resources/common/metadata/*.json` of Kafka; ClearElr (28) from the bytes
and the dump of a 4.2 cluster. The two records that come by the million, Partition (3) and
PartitionChange (5), are not here: `partitions` writes and reads them by hand. Nothing here runs but
the choice of a version.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import Struct

from statemachine.records import kafka_records
from statemachine.records.primitives import (
    BOOL,
    BYTES,
    F64,
    I8,
    I16,
    I32,
    I64,
    NULLABLE_STRING,
    STRING,
    U16,
    UUID_KIND,
    Field,
    array,
    structure,
)

OURS_FROM: Final = 10_000
"""Tags from here on are this project's own."""

_DIRECTORIES: Final = array(UUID_KIND)
_ENDPOINTS: Final = array(
    structure(
        kafka_records.Endpoint,
        Field("name", STRING),
        Field("host", STRING),
        Field("port", U16),
        Field("security_protocol", I16),
    )
)
_FEATURES: Final = array(
    structure(
        kafka_records.FeatureRange,
        Field("name", STRING),
        Field("min_supported", I16),
        Field("max_supported", I16),
    )
)
_QUOTA_ENTITY: Final = array(
    structure(kafka_records.QuotaEntity, Field("type", STRING), Field("name", NULLABLE_STRING))
)


class Schema(NamedTuple):
    """The encoding of one record type."""

    type_id: int
    shape: type[Struct]
    fields: tuple[Field, ...]
    newest: int = 0
    """The highest version that is understood."""
    version: Callable[[Any, int], int] = lambda _record, _level: 0
    """The version to write, given the record and the level of metadata.version."""


def _register_broker_version(_record: kafka_records.RegisterBroker, level: int) -> int:
    return 3 if level >= 17 else 2 if level >= 8 else 1 if level >= 7 else 0


def _registration_change_version(
    record: kafka_records.BrokerRegistrationChange, _level: int
) -> int:
    return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0


_BROKER_ID_AND_EPOCH: Final = (Field("broker_id", I32), Field("broker_epoch", I64))
_SERVER: Final = (Field("endpoints", _ENDPOINTS), Field("features", _FEATURES))

_REGISTER_BROKER: Final = (
    Field("broker_id", I32),
    Field("is_migrating_zk_broker", BOOL, since=2, default=False),
    Field("incarnation_id", UUID_KIND),
    Field("broker_epoch", I64),
    *_SERVER,
    Field("rack", NULLABLE_STRING),
    Field("fenced", BOOL),
    Field("in_controlled_shutdown", BOOL, since=1, default=False),
    Field("log_dirs", _DIRECTORIES, since=3, tag=0, default=()),
    Field("registered_at", I64, tag=OURS_FROM),
    Field("stopping_at", I64, tag=OURS_FROM + 1),
    Field("cordoned", BOOL, tag=OURS_FROM + 2, default=False),
    Field("fenced_at_ms", I64, tag=OURS_FROM + 3),
    Field("leaving", BOOL, tag=OURS_FROM + 4, default=False),
)
_REGISTRATION_CHANGE: Final = (
    *_BROKER_ID_AND_EPOCH,
    Field("fenced", I8, tag=0, default=0),
    Field("in_controlled_shutdown", I8, since=1, tag=1, default=0),
    Field("log_dirs", _DIRECTORIES, since=2, tag=2, default=()),
    Field("cordoned", I8, tag=OURS_FROM, default=0),
    Field("at_ms", I64, tag=OURS_FROM + 1),
    Field("leaving", I8, tag=OURS_FROM + 2, default=0),
)
_DELEGATION_TOKEN: Final = (
    Field("owner", STRING),
    Field("requester", STRING),
    Field("renewers", array(STRING)),
    Field("issue_timestamp_ms", I64),
    Field("max_timestamp_ms", I64),
    Field("expiration_timestamp_ms", I64),
    Field("token_id", STRING),
)
_SCRAM: Final = (
    Field("name", STRING),
    Field("mechanism", I8),
    Field("salt", BYTES),
    Field("stored_key", BYTES),
    Field("server_key", BYTES),
    Field("iterations", I32),
)
_CONFIG: Final = (
    Field("resource_type", I8),
    Field("resource_name", STRING),
    Field("name", STRING),
    Field("value", NULLABLE_STRING),
)
_QUOTA: Final = (
    Field("entity", _QUOTA_ENTITY),
    Field("key", STRING),
    Field("value", F64),
    Field("remove", BOOL),
)
_ACCESS: Final = (
    Field("id", UUID_KIND),
    Field("resource_type", I8),
    Field("resource_name", STRING),
    Field("pattern_type", I8),
    Field("principal", STRING),
    Field("host", STRING),
    Field("operation", I8),
    Field("permission_type", I8),
)
_REGISTER_CONTROLLER: Final = (
    Field("controller_id", I32),
    Field("incarnation_id", UUID_KIND),
    Field("zk_migration_ready", BOOL),
    *_SERVER,
)

_ALL: Final = (
    Schema(0, kafka_records.RegisterBroker, _REGISTER_BROKER, 3, _register_broker_version),
    Schema(1, kafka_records.UnregisterBroker, _BROKER_ID_AND_EPOCH),
    Schema(2, kafka_records.Topic, (Field("name", STRING), Field("topic_id", UUID_KIND))),
    Schema(4, kafka_records.Config, _CONFIG),
    Schema(7, kafka_records.FenceBroker, _BROKER_ID_AND_EPOCH),
    Schema(8, kafka_records.UnfenceBroker, _BROKER_ID_AND_EPOCH),
    Schema(9, kafka_records.RemoveTopic, (Field("topic_id", UUID_KIND),)),
    Schema(10, kafka_records.DelegationToken, _DELEGATION_TOKEN),
    Schema(11, kafka_records.UserScramCredential, _SCRAM),
    Schema(12, kafka_records.FeatureLevel, (Field("name", STRING), Field("level", I16))),
    Schema(14, kafka_records.ClientQuota, _QUOTA),
    Schema(15, kafka_records.ProducerIds, (*_BROKER_ID_AND_EPOCH, Field("next_producer_id", I64))),
    Schema(
        17,
        kafka_records.BrokerRegistrationChange,
        _REGISTRATION_CHANGE,
        2,
        _registration_change_version,
    ),
    Schema(18, kafka_records.AccessControlEntry, _ACCESS),
    Schema(19, kafka_records.RemoveAccessControlEntry, (Field("id", UUID_KIND),)),
    Schema(20, kafka_records.NoOp, ()),
    Schema(21, kafka_records.ZkMigrationState, (Field("state", I8),)),
    Schema(22, kafka_records.RemoveUserScramCredential, _SCRAM[:2]),
    Schema(23, kafka_records.BeginTransaction, (Field("name", NULLABLE_STRING, tag=0),)),
    Schema(24, kafka_records.EndTransaction, ()),
    Schema(25, kafka_records.AbortTransaction, (Field("reason", NULLABLE_STRING, tag=0),)),
    Schema(26, kafka_records.RemoveDelegationToken, (Field("token_id", STRING),)),
    Schema(27, kafka_records.RegisterController, _REGISTER_CONTROLLER),
    Schema(28, kafka_records.ClearElr, (Field("topic_name", STRING),)),
)

BY_TYPE_ID: Final = {schema.type_id: schema for schema in _ALL}
BY_SHAPE: Final[dict[type, Schema]] = {schema.shape: schema for schema in _ALL}

"""Which APIs and versions a broker offers to its clients, as data."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ALTER_QUORUM,
        ApiKey.TRANSFER_LEADERSHIP,
        ApiKey.ALTER_MOVES,
        ApiKey.DESCRIBE_MOVES,
        ApiKey.DESCRIBE_MOVE_PLAN,
        ApiKey.PLAN_MOVES,
        ApiKey.ALTER_BROKERS,
        ApiKey.SAFE_TO_STOP,
        ApiKey.DESCRIBE_BROKERS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
    }
)
"""What only the active controller can do: it gets the request in an Envelope (KIP-590)."""

_OWN: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        ApiKey.PRODUCE: VersionRange(3, 11),
        ApiKey.FETCH: VersionRange(4, 17),
        ApiKey.LIST_OFFSETS: VersionRange(1, 8),
        ApiKey.METADATA: VersionRange(0, 13),
        ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
        ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 4),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
        ApiKey.DISCOVER_BROKERS: VersionRange(0, 0),
    }
)

OFFERED: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {**_OWN, **{key: SPOKEN[key] for key in FORWARDED}}
)
"""Everything on the listener: of what is forwarded, what our controllers serve, and no more."""

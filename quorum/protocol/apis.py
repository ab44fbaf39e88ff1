"""The APIs that we can read and write: key, name, versions. A listener offers some of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ApiKey(IntEnum):
    """The numbers of the requests that we know: Kafka's, and from 20000 on our own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    ALLOCATE_PRODUCER_IDS = 67
    CONTROLLER_REGISTRATION = 70
    ASSIGN_REPLICAS_TO_DIRS = 73
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    DISCOVER_BROKERS = 20_000
    ALTER_QUORUM = 20_001
    CAPABILITY = 20_010

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions from `lowest` to `highest`, both included."""

    lowest: int
    highest: int

    def __post_init__(self) -> None:
        assert 0 <= self.lowest <= self.highest, f"no range: {self.lowest} to {self.highest}"

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"{self.lowest}"
        return f"{self.lowest} to {self.highest}"


SPOKEN: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        ApiKey.PRODUCE: VersionRange(3, 12),
        # A metadata log is offered from v13 on, by topic id (KIP-516).
        ApiKey.FETCH: VersionRange(4, 17),
        ApiKey.LIST_OFFSETS: VersionRange(1, 10),
        ApiKey.METADATA: VersionRange(0, 13),
        ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.CREATE_TOPICS: VersionRange(2, 7),
        ApiKey.DELETE_TOPICS: VersionRange(1, 6),
        ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
        ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
        ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 4),
        ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
        ApiKey.ELECT_LEADERS: VersionRange(0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 1),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: VersionRange(0, 1),
        # v2 carries the pre-vote (KIP-996).
        ApiKey.VOTE: VersionRange(0, 2),
        ApiKey.BEGIN_QUORUM_EPOCH: VersionRange(0, 1),
        ApiKey.END_QUORUM_EPOCH: VersionRange(0, 1),
        ApiKey.DESCRIBE_QUORUM: VersionRange(0, 2),
        ApiKey.ALTER_PARTITION: VersionRange(2, 3),
        ApiKey.UPDATE_FEATURES: VersionRange(0, 2),
        ApiKey.ENVELOPE: VersionRange(0, 0),
        ApiKey.FETCH_SNAPSHOT: VersionRange(0, 1),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
        ApiKey.BROKER_REGISTRATION: VersionRange(0, 4),
        ApiKey.BROKER_HEARTBEAT: VersionRange(0, 1),
        ApiKey.UNREGISTER_BROKER: VersionRange(0, 0),
        ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0),
        ApiKey.CONTROLLER_REGISTRATION: VersionRange(0, 0),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: VersionRange(0, 0),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
        ApiKey.ADD_RAFT_VOTER: VersionRange(0, 0),
        ApiKey.REMOVE_RAFT_VOTER: VersionRange(0, 0),
        ApiKey.UPDATE_RAFT_VOTER: VersionRange(0, 0),
        ApiKey.DISCOVER_BROKERS: VersionRange(0, 0),
        ApiKey.ALTER_QUORUM: VersionRange(0, 0),
        ApiKey.CAPABILITY: VersionRange(0, 0),
    }
)


class UnsupportedVersion(Exception):
    """An API, or a version of it, that we do not speak."""

    def __init__(self, api_key: int, version: int) -> None:
        spoken = SPOKEN.get(api_key)
        known = "unknown" if spoken is None else f"spoken are versions {spoken}"
        super().__init__(f"{api_name(api_key)} v{version}: {known}")
        self.api_key = api_key
        self.version = version


def api_name(api_key: int) -> str:
    """The name of the API, or its number if we do not know it."""
    try:
        return str(ApiKey(api_key))
    except ValueError:
        return f"api {api_key}"


METADATA_BY_TOPIC_ID_SINCE: Final = 12
"""The first version of Metadata (3) in which a topic may be asked for by its id. Versions 10 and 11
have the field, but a topic in their answer must have a name."""

OWN_TAG: Final = 10_000
"""The tag of our field in Kafka's messages."""

PRIVATE_API_KEYS_FROM: Final = 20_000
"""Far above Kafka's numbers; there is one version of each, 0."""

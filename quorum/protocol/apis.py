"""The known APIs: key, name, versions. A listener offers some of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final


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


class ApiKey(IntEnum):
    """The APIs, Kafka's and from 20000 on our own, with the lowest and highest version that we
    speak, by default 0."""

    spoken: VersionRange

    PRODUCE = 0, 3, 12
    # A metadata log is offered from v13 on, by topic id (KIP-516).
    FETCH = 1, 4, 17
    LIST_OFFSETS = 2, 1, 10
    METADATA = 3, 0, 13
    FIND_COORDINATOR = 10, 0, 6
    SASL_HANDSHAKE = 17, 0, 1
    API_VERSIONS = 18, 0, 4
    CREATE_TOPICS = 19, 2, 7
    DELETE_TOPICS = 20, 1, 6
    INIT_PRODUCER_ID = 22, 0, 5
    OFFSET_FOR_LEADER_EPOCH = 23, 2, 4
    # v0, which Kafka 4 gave up, knows no patterns.
    DESCRIBE_ACLS = 29, 1, 3
    CREATE_ACLS = 30, 1, 3
    DELETE_ACLS = 31, 1, 3
    DESCRIBE_CONFIGS = 32, 1, 4
    ALTER_CONFIGS = 33, 0, 2
    DESCRIBE_LOG_DIRS = 35, 1, 5
    SASL_AUTHENTICATE = 36, 0, 2
    CREATE_PARTITIONS = 37, 0, 3
    CREATE_DELEGATION_TOKEN = 38, 1, 3
    RENEW_DELEGATION_TOKEN = 39, 1, 2
    EXPIRE_DELEGATION_TOKEN = 40, 1, 2
    DESCRIBE_DELEGATION_TOKEN = 41, 1, 3
    ELECT_LEADERS = 43, 0, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 1
    LIST_PARTITION_REASSIGNMENTS = 46
    DESCRIBE_CLIENT_QUOTAS = 48, 0, 1
    ALTER_CLIENT_QUOTAS = 49, 0, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    # v2 carries the pre-vote (KIP-996).
    VOTE = 52, 0, 2
    BEGIN_QUORUM_EPOCH = 53, 0, 1
    END_QUORUM_EPOCH = 54, 0, 1
    DESCRIBE_QUORUM = 55, 0, 2
    ALTER_PARTITION = 56, 2, 3
    UPDATE_FEATURES = 57, 0, 2
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59, 0, 1
    DESCRIBE_CLUSTER = 60, 0, 1
    BROKER_REGISTRATION = 62, 0, 4
    BROKER_HEARTBEAT = 63, 0, 2
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

    def __new__(cls, key: int, lowest: int = 0, highest: int = 0) -> "ApiKey":
        self = int.__new__(cls, key)
        self._value_ = key
        self.spoken = VersionRange(lowest, highest)
        return self

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


SPOKEN: Final[Mapping[int, VersionRange]] = MappingProxyType({key: key.spoken for key in ApiKey})
"""The versions of each API that we speak."""


class UnsupportedVersion(Exception):
    """An API, or a version of it, that we do not speak."""

    def __init__(self, api_key: int, version: int) -> None:
        spoken = SPOKEN.get(api_key)
        known = "unknown" if spoken is None else f"spoken are versions {spoken}"
        super().__init__(f"{api_name(api_key)} v{version}: {known}")


def api_name(api_key: int) -> str:
    """Return the name of the API, or its number if it is unknown."""
    try:
        return str(ApiKey(api_key))
    except ValueError:
        return f"api {api_key}"


OWN_TAG: Final = 10_000
"""The tag of our field in Kafka's messages, out of the way of tags that Kafka may add."""

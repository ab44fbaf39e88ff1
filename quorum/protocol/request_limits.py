"""The size of a request, bounded before it is decoded: bytes by API, and elements of its arrays.

Decoding costs about a microsecond an element, in the loop's thread, whoever asks. The bytes are
checked as soon as the first eight bytes of a frame are there, so that nothing larger is collected;
the elements before anything is built (`quorum.protocol.shape`). Requests that an administrator
sends about every partition of a large cluster get the most; what comes often, or from anybody, gets
little.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from quorum.core.limits import FRAME_BYTES_MAX
from quorum.protocol.apis import ApiKey

KIB: Final = 1024
MIB: Final = 1024 * KIB


class RequestLimits(NamedTuple):
    """The limits of one request."""

    bytes_max: int
    """The whole frame, header included, without its length prefix."""
    elements_max: int
    """The items of all its arrays and its tagged fields together. Eight numbers count as one
    element; the inside of bytes fields does not count."""


_SHORT: Final = RequestLimits(4 * KIB, 64)
"""It names one thing, or nothing."""
_VOTERS: Final = RequestLimits(16 * KIB, 512)
"""It names voters (`VOTERS_MAX`) and their listeners."""
_LIST: Final = RequestLimits(64 * KIB, 4_096)
"""It lists directories, listeners, features or groups."""
_PARTITIONS: Final = RequestLimits(2 * MIB, 20_000)
"""A client or a follower asks about the partitions of one broker."""
_CHANGES: Final = RequestLimits(4 * MIB, 50_000)
"""A broker tells the controller about its partitions, some thousand at a time."""
_BULK: Final = RequestLimits(FRAME_BYTES_MAX, 250_000)
"""An administrator changes 100,000 partitions at once, each with its replicas."""
_OPAQUE: Final = RequestLimits(FRAME_BYTES_MAX, 4_096)
"""Its bytes are records or another request, which have limits of their own."""

UNKNOWN: Final = RequestLimits(64 * KIB, 64)
"""An API that nobody here speaks: its connection is closed with its name in the log."""

REQUEST_LIMITS: Final[Mapping[int, RequestLimits]] = MappingProxyType(
    {
        ApiKey.PRODUCE: _OPAQUE,
        ApiKey.FETCH: _PARTITIONS,
        ApiKey.LIST_OFFSETS: _PARTITIONS,
        ApiKey.METADATA: _PARTITIONS,
        ApiKey.FIND_COORDINATOR: _LIST,
        ApiKey.API_VERSIONS: _SHORT,
        ApiKey.SASL_HANDSHAKE: _SHORT,
        # It carries a token of OAUTHBEARER; sasl.server.max.receive.size is the tighter limit.
        ApiKey.SASL_AUTHENTICATE: RequestLimits(MIB, 64),
        ApiKey.CREATE_TOPICS: _BULK,
        ApiKey.DELETE_TOPICS: _BULK,
        ApiKey.INIT_PRODUCER_ID: _SHORT,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS: _BULK,
        ApiKey.ALTER_CONFIGS: _BULK,
        ApiKey.DESCRIBE_LOG_DIRS: _PARTITIONS,
        ApiKey.CREATE_PARTITIONS: _BULK,
        ApiKey.ELECT_LEADERS: _BULK,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _BULK,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _BULK,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _BULK,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _LIST,
        ApiKey.ALTER_CLIENT_QUOTAS: _PARTITIONS,
        ApiKey.DESCRIBE_ACLS: _LIST,
        ApiKey.CREATE_ACLS: _PARTITIONS,
        ApiKey.DELETE_ACLS: _PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN: _LIST,
        ApiKey.RENEW_DELEGATION_TOKEN: _SHORT,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _SHORT,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: _LIST,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _PARTITIONS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _PARTITIONS,
        ApiKey.VOTE: _SHORT,
        ApiKey.BEGIN_QUORUM_EPOCH: _VOTERS,
        ApiKey.END_QUORUM_EPOCH: _VOTERS,
        # Kafka answers with an error for each topic, so its name may be long.
        ApiKey.DESCRIBE_QUORUM: RequestLimits(64 * KIB, 64),
        ApiKey.ALTER_PARTITION: _CHANGES,
        ApiKey.UPDATE_FEATURES: _LIST,
        ApiKey.ENVELOPE: _OPAQUE,
        ApiKey.FETCH_SNAPSHOT: _SHORT,
        ApiKey.DESCRIBE_CLUSTER: _SHORT,
        ApiKey.BROKER_REGISTRATION: _LIST,
        # Kafka's heartbeat lists the directories that are offline, ours the copies under way.
        ApiKey.BROKER_HEARTBEAT: RequestLimits(256 * KIB, 4_096),
        ApiKey.UNREGISTER_BROKER: _SHORT,
        ApiKey.ALLOCATE_PRODUCER_IDS: _SHORT,
        ApiKey.CONTROLLER_REGISTRATION: _LIST,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _CHANGES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _PARTITIONS,
        ApiKey.ADD_RAFT_VOTER: _VOTERS,
        ApiKey.REMOVE_RAFT_VOTER: _SHORT,
        ApiKey.UPDATE_RAFT_VOTER: _VOTERS,
        ApiKey.DISCOVER_BROKERS: _SHORT,
        ApiKey.ALTER_QUORUM: _VOTERS,
        ApiKey.CAPABILITY: _OPAQUE,
    }
)
"""The limits of each API. A listener may set lower ones for the bytes (`ServerLimits`)."""

LIMIT_BYTES_MIN: Final = min(each.bytes_max for each in REQUEST_LIMITS.values())
"""No API has a lower limit: a shorter frame needs no look at its key."""

METADATA_LOG_FETCH_BYTES_MAX: Final = 4 * KIB
"""A Fetch at a listener of the quorum: exactly one partition, the metadata log."""

HEADER_TAGS_MAX: Final = 64
"""Tagged fields of a header; Kafka has none so far."""


def limits_of(api_key: int) -> RequestLimits:
    """The limits of this API."""
    return REQUEST_LIMITS.get(api_key, UNKNOWN)


def bytes_max_of(api_key: int) -> int:
    """The limit in bytes of this API."""
    return REQUEST_LIMITS.get(api_key, UNKNOWN).bytes_max

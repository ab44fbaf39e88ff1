"""Bounds and times of a broker, each with its unit."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorum.core.limits import FRAME_BYTES_MAX
from quorum.protocol.apis import VersionRange
from statemachine.features.features import FEATURES
from statemachine.limits import METADATA_VERSION_MAX
from statemachine.vocabulary import EMBEDDED_BROKER, METADATA_VERSION

# --- the life of a broker ----------------------------------------------------------------------

SESSION_TIMEOUT_MS: Final = 9_000
"""`broker.session.timeout.ms`: silence after which the controller fences a broker."""
HEARTBEAT_INTERVAL_MS: Final = 2_000
"""`broker.heartbeat.interval.ms`."""
STARTING_HEARTBEAT_MS: Final = 10
"""Between two heartbeats of a broker that is not unfenced yet, as Kafka's brokers do it."""
CONTROLLED_SHUTDOWN_MS: Final = 1_200
"""How long a stopping broker waits for its leaderships to move."""
CONTROLLED_SHUTDOWN_HEARTBEAT_MS: Final = 50
SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {
        **{name: VersionRange(each.lowest, each.highest) for name, each in FEATURES.items()},
        METADATA_VERSION: VersionRange(1, METADATA_VERSION_MAX),
    }
)
"""The features and levels that this broker supports.

The ELR feature requires that the high watermark stands still below min ISR, which it does here.
Features of group and transaction coordinators do not concern this broker.
"""
REGISTERED_FEATURES: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {**SUPPORTED_FEATURES, EMBEDDED_BROKER: VersionRange(0, 1)}
)
"""The same, with the feature by which controllers tell this broker from one of Kafka's."""

# --- replication -------------------------------------------------------------------------------

REPLICA_LAG_TIME_MS_MAX: Final = 30_000
"""`replica.lag.time.max.ms`: a follower not caught up for this long leaves the ISR."""
REPLICA_FETCH_BYTES_MAX: Final = 1024 * 1024
"""`replica.fetch.max.bytes`: of one partition; one larger batch is still sent (KIP-74)."""
REPLICA_FETCH_ANSWER_BYTES_MAX: Final = 10 * 1024 * 1024
"""`replica.fetch.response.max.bytes`: of all partitions in one answer."""
REPLICA_FETCH_WAIT_MS_MAX: Final = 500
REPLICA_FETCH_TIMEOUT_MS: Final = 10_000
"""A fetch without a response after this time fails, and its connection is closed."""
REPLICA_FETCH_PARTITIONS_MAX: Final = 10_000
"""Partitions in one fetch; the next one takes the rest."""
COPY_REPORT_INTERVAL_MS: Final = 2_000
"""How often a heartbeat carries progress reports, and how many replicas one covers."""
REPLICA_BACKOFF_MS: Final = 50
REPLICA_BACKOFF_MS_MAX: Final = 1_000
"""The wait before a retry of a partition; doubles from the first to the second."""
ALTER_PARTITION_PARTITIONS_MAX: Final = 5_000
"""ISR proposals in one AlterPartition request; one request is in flight at a time."""
ALTER_PARTITION_RETRY_MS: Final = 50
ASSIGNED_PARTITIONS_MAX: Final = 2_000
"""Replicas in one AssignReplicasToDirs request; one request is in flight at a time."""
TIMESTAMP_AFTER_MS_MAX: Final = 3_600_000
"""`message.timestamp.after.max.ms`: a record may be this far ahead of the leader's clock."""
TIMESTAMP_BEFORE_MS_MAX: Final = 2**63 - 1
"""`message.timestamp.before.max.ms`: the same behind it."""
PENDING_APPENDS_PER_PARTITION_MAX: Final = 10_000
"""Produce requests of one partition that may wait for its followers."""

# --- partition logs ----------------------------------------------------------------------------

OPENING_THREADS: Final = 8
CLOSING_THREADS: Final = 8
"""Logs that are opened, or closed on shutdown, in parallel."""
SETTLED_AT_ONCE: Final = 64
"""Partitions that are opened before the metadata is checked again."""
LOG_SEGMENT_BYTES: Final = 1024 * 1024 * 1024
MESSAGE_BYTES_MAX: Final = 1024 * 1024 + 12
"""`max.message.bytes`: one record batch from a producer, length field included."""
PRODUCER_BATCHES_REMEMBERED: Final = 5
"""Batches of one producer that are remembered to detect duplicates (KIP-98)."""
PRODUCERS_PER_PARTITION_MAX: Final = 100_000
"""Producers that a partition remembers; beyond it the longest idle one is forgotten."""

# --- the listener -------------------------------------------------------------------------------

LARGE_REQUESTS_BYTES_MAX: Final = 128 * 1024 * 1024
"""All large requests of the listener together: producers wait for followers with theirs."""
CONNECTIONS_MAX: Final = 4_096
REQUEST_BYTES_MAX: Final = FRAME_BYTES_MAX
"""One request; a larger one closes its connection."""
FETCH_ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of records in one response to a consumer, whatever it requests."""
DELAYED_PARTITIONS_MAX: Final = 400_000
"""Partitions of all fetches that wait for records, about half a KiB each; one address gets half of
them. A further fetch is answered at once."""
DELAYED_FETCH_PARTITIONS_MIN: Final = 40
"""What a fetch of fewer partitions counts as."""
FETCH_WAIT_MS_MAX: Final = 30_000
"""The longest wait of a fetch, whatever it requests."""
SWEEP_MS: Final = 25
"""How often deadlines are checked; one timer for all."""
PRODUCE_TIMEOUT_MS_MAX: Final = 60_000
HELD_REQUESTS_MAX: Final = 10_000
"""Requests held until a starting broker is unfenced."""
LISTENER_CLOSE_MS: Final = 200
"""How long pending responses may take to leave when the broker stops."""
LONG_BODY_BYTES: Final = 32 * 1024
"""A longer request that is forwarded is decoded in a thread: some thousand partitions, a few
milliseconds. `LARGE_REQUESTS_BYTES_MAX` bounds all of them."""
FORWARDED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of requests that are being forwarded; a further one is answered REQUEST_TIMED_OUT."""
FORWARD_TIMEOUT_MS: Final = 30_000
"""How long a request without a timeout of its own is retried, elections included."""
PRODUCER_ID_WAITERS_MAX: Final = 10_000
DESCRIBED_PARTITIONS_MAX: Final = 2_000
"""`max.request.partition.size.limit`: partitions in one DescribeTopicPartitions answer."""
DESCRIBED_TOPICS_MAX: Final = 1_000
"""Topics that one DescribeTopicPartitions answer is made from; a cursor names the next one."""

# Both leave time, of two seconds, to sync the logs.
assert CONTROLLED_SHUTDOWN_MS + LISTENER_CLOSE_MS <= 1_500
assert 2 * HEARTBEAT_INTERVAL_MS <= SESSION_TIMEOUT_MS
# Waiting followers must not look silent.
assert 2 * REPLICA_FETCH_WAIT_MS_MAX < REPLICA_FETCH_TIMEOUT_MS < REPLICA_LAG_TIME_MS_MAX
# A batch and every fetch response must fit in a frame.
assert MESSAGE_BYTES_MAX + 64 * 1024 <= REQUEST_BYTES_MAX
assert FETCH_ANSWER_BYTES_MAX + 1024 * 1024 <= FRAME_BYTES_MAX
assert REPLICA_FETCH_ANSWER_BYTES_MAX + 1024 * 1024 <= FRAME_BYTES_MAX

"""The settings of a broker as one frozen value; nothing is read from files or flags here.

The caller turns files, flags and environment into it and names the key of an invalid value. Checks
between values are here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from broker.limits import (
    CONNECTIONS_MAX,
    HEARTBEAT_INTERVAL_MS,
    LOG_SEGMENT_BYTES,
    MESSAGE_BYTES_MAX,
    REPLICA_FETCH_BYTES_MAX,
    REPLICA_LAG_TIME_MS_MAX,
    SESSION_TIMEOUT_MS,
)
from quorum.core.limits import Timeouts
from quorum.snapshotting import SnapshotLimits


class InvalidConfig(ValueError):
    """Contradictory settings; the message names them and a valid choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The settings of one broker, with Kafka's defaults where Kafka has the setting."""

    node_id: int
    """Must not be the id of a voter: a broker only observes the quorum."""
    cluster_id: str | None = None
    """The id of the cluster; None takes the id that the controllers name."""
    host: str = "127.0.0.1"
    port: int = 9092
    """The address of the listener; with port 0 the system chooses one."""
    advertised_host: str | None = None
    advertised_port: int | None = None
    """The address for clients and other brokers; None: the address of the listener."""
    log_dir: Path
    voters: Mapping[int, tuple[str, int] | None] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """The controllers: id to host and port (`quorum.voters`)."""
    bootstrap: tuple[tuple[str, int], ...] = ()
    """Servers that know the controllers (`bootstrap.servers`)."""
    rack: str | None = None
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    replica_lag_time_max_ms: int = REPLICA_LAG_TIME_MS_MAX
    replica_fetch_max_bytes: int = REPLICA_FETCH_BYTES_MAX
    """The bytes of records requested of one partition in one fetch."""
    log_segment_bytes: int = LOG_SEGMENT_BYTES
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """`message.max.bytes`, for topics without `max.message.bytes`."""
    min_insync_replicas: int = 1
    """Shown by DescribeConfigs; the metadata has the one in force."""
    connections_max: int = CONNECTIONS_MAX
    timeouts: Timeouts = field(default_factory=Timeouts)
    """The timeouts of the metadata quorum."""
    snapshots: SnapshotLimits = field(default_factory=SnapshotLimits)
    """When to take snapshots of the metadata, and how many to keep."""
    listener_name: str = "PLAINTEXT"
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Other settings from the file, shown by DescribeConfigs and not used."""

    def __post_init__(self) -> None:
        """Raise `InvalidConfig` if no broker could run with these values."""
        reason = self._contradiction()
        if reason is not None:
            raise InvalidConfig(reason)

    def _contradiction(self) -> str | None:
        if self.node_id < 0:
            return f"node.id is {self.node_id}, it must be 0 or above"
        if not any(self.voters.values()) and not self.bootstrap:
            return "neither bootstrap.servers nor an address of a controller is given"
        if self.node_id in self.voters:
            return f"node.id {self.node_id} is a voter in quorum.voters; a broker needs another id"
        if not 0 <= self.port <= 65_535:
            return f"port is {self.port}, it must be from 0 to 65535"
        if 2 * self.heartbeat_interval_ms > self.session_timeout_ms:
            return (
                f"broker.heartbeat.interval.ms is {self.heartbeat_interval_ms}; it must be at most "
                f"half of broker.session.timeout.ms, which is {self.session_timeout_ms}"
            )
        return None

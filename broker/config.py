"""The settings of a broker as one frozen value; nothing is read from files or flags here.

The caller turns files, flags and environment into it and names the key of an invalid value. Checks
between values are here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from broker.cordoned_log_dirs import cordon_refusal
from broker.limits import (
    CONNECTIONS_MAX,
    HEARTBEAT_INTERVAL_MS,
    LOG_SEGMENT_BYTES,
    MESSAGE_BYTES_MAX,
    REPLICA_FETCH_BYTES_MAX,
    REPLICA_LAG_TIME_MS_MAX,
    SESSION_TIMEOUT_MS,
)
from quorum.persistent_state import QuorumConfig
from quorum.process_log import LogConfig
from quorum.transport.address import Address
from quorum.transport.limits import CONNECTIONS_PER_ADDRESS_MAX
from quorum.transport.listener import Listener, named
from quorum.transport.security.credentials import LateCredentials
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.security.token_hmacs import NO_TOKENS, DelegationTokenConfig
from statemachine.security.authorization import AuthorizerConfig


class InvalidConfig(ValueError):
    """Contradictory settings; the message names them and a valid choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The settings of one broker, with Kafka's defaults where Kafka has the setting."""

    quorum: QuorumConfig
    """The replica of the metadata log. The id of the broker is not that of a voter: it only
    observes. Its folder holds the partitions too. Its advertised address is for other nodes to ask
    who is where."""
    listeners: Sequence[Listener]
    """Where clients and other brokers connect; all are registered."""
    inter_broker_listener: str = "PLAINTEXT"
    """The name of the listener that brokers use among themselves."""
    inter_broker: ClientSecurity = PLAIN_CLIENT
    """Of the connections to other brokers."""
    credentials: LateCredentials = field(default_factory=LateCredentials)
    """What the SASL listeners look up; the server says where."""
    tokens: DelegationTokenConfig = NO_TOKENS
    """Only the key counts here: the controllers decide how long tokens live."""
    authorizer: AuthorizerConfig | None = None
    """None: everybody may do everything."""
    rack: str | None = None
    cordoned_log_dirs: str = ""
    """`cordoned.log.dirs` of the file: the data folder, `*` or nothing (KIP-1066)."""
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
    connections_per_address_max: int = CONNECTIONS_PER_ADDRESS_MAX
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The settings as they were given, without secrets; shown by DescribeConfigs."""
    log: LogConfig = field(default_factory=LogConfig)

    @property
    def listener(self) -> Address:
        """The address of the listener for other brokers."""
        return named(self.listeners, self.inter_broker_listener).address

    @property
    def other_connections_max(self) -> int:
        """The connections of listeners that do not speak Kafka's protocol."""
        return 0

    def __post_init__(self) -> None:
        """Raise `InvalidConfig` if no broker could run with these values."""
        node_id = self.quorum.node_id
        if node_id in self.quorum.voters:
            raise InvalidConfig(
                f"node.id {node_id} is a voter in quorum.voters; a broker needs another id"
            )
        if 2 * self.heartbeat_interval_ms > self.session_timeout_ms:
            raise InvalidConfig(
                f"broker.heartbeat.interval.ms is {self.heartbeat_interval_ms}; it must be at most "
                f"half of broker.session.timeout.ms, which is {self.session_timeout_ms}"
            )
        refusal = cordon_refusal(self.cordoned_log_dirs, self.quorum.folder)
        if refusal is not None:
            raise InvalidConfig(refusal)

"""The events of a node's log: one stable name for each, whatever words its message has.

Every message of level INFO and above names its event: `logger.info(..., extra=LogEvent.X.extra)`.
`quorum.process_log` writes it. The names stay as they are: alerts and searches rely on them.
docs/logging.md lists them.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class LogEvent(Enum):
    """An event: its name, and its meaning for an operator."""

    # The process.
    NODE_STARTED = "node-started", "the node listens"
    NODE_STOPPING = "node-stopping", "the node was asked to stop"
    NODE_FAILED = "node-failed", "an error ends the process"
    LOG_LEVEL_CHANGED = "log-level-changed", "somebody has changed the level of a logger"
    LINES_LEFT_OUT = "lines-left-out", "more lines of one event came than are written"
    DESCRIPTORS_FEW = "descriptors-few", "the process may open too few files"
    LISTENER_EXPOSED = "listener-exposed", "others can reach a listener without authentication"
    LISTENER_OPENED = "listener-opened", "a listener opened late, once the ACLs were loaded"

    # The quorum.
    LEADER_CHANGED = "leader-changed", "this node knows another leader, or none"
    ELECTED = "elected", "this node is the active controller"
    RESIGNED = "resigned", "this node is the active controller no more"
    VOTER_ADDED = "voter-added", "a controller became a voter"
    VOTER_REMOVED = "voter-removed", "a controller is a voter no more"
    QUORUM_WARNING = "quorum-warning", "the quorum meets something that should not be"
    CLUSTER_FOUNDED = "cluster-founded", "this node begins a new log"
    CLUSTER_JOINED = "cluster-joined", "this node has learned the id of its cluster"
    QUORUM_FOUND = "quorum-found", "this node founds no other quorum, for there is one"
    VOTERS_UNLOCATED = "voters-unlocated", "the addresses of voters are not known"
    ADDRESS_CONTESTED = "address-contested", "two nodes may have the same id"
    DISCOVERY_FAILED = "discovery-failed", "another node did not answer who is where"
    DISCOVERY_DECLINED = "discovery-declined", "a node of Kafka does not know that question"
    CONTROLLER_REGISTERED = "controller-registered", "the active controller knows this one"
    CONTROLLER_NOT_REGISTERED = "controller-not-registered", "it does not know it yet"
    LOADING = "loading", "the node begins to load a snapshot or to replay the log"
    LOADED = "loaded", "the node has replayed everything that is committed"
    COMMAND_FAILED = "command-failed", "the controller could not carry out a command of its own"

    # The disk.
    DISK_FULL = "disk-full", "there is no room to write"
    DISK_HAS_ROOM = "disk-has-room", "there is room again"
    LOG_CUT = "log-cut", "the end of a log was not whole, and was cut off"
    SNAPSHOT_WRITTEN = "snapshot-written", "a snapshot was taken"
    SNAPSHOT_FAILED = "snapshot-failed", "a snapshot could not be written; it is tried again"
    SNAPSHOT_INSTALLED = "snapshot-installed", "a snapshot of the leader replaced the log"
    SNAPSHOT_DAMAGED = "snapshot-damaged", "a damaged snapshot was set aside"
    SNAPSHOT_NOT_REMOVED = "snapshot-not-removed", "an old snapshot could not be removed"
    APPEND_TIMES_FAILED = "append-times-failed", "the index for lag reports has a gap"

    # Connections.
    PEER_REFUSED = "peer-refused", "a request or a connection is refused"
    REQUEST_FAILED = "request-failed", "a fault of this node; the line has the place"
    CONNECTION_IDLE = "connection-idle", "an idle connection was closed"
    CONNECTIONS_PAUSED = "connections-paused", "no connection is accepted for a moment"
    CONNECTION_INSECURE = "connection-insecure", "no secure connection to another node"
    CONNECTION_SECURE = "connection-secure", "it came about again"
    CERTIFICATE_LOADED = "certificate-loaded", "new certificates are in use"
    CERTIFICATE_NOT_LOADED = "certificate-not-loaded", "the former certificates stay in use"
    CERTIFICATE_EXPIRING = "certificate-expiring", "a certificate has expired or soon will"
    KEYS_NOT_FETCHED = "keys-not-fetched", "the former keys of OAUTHBEARER stay in use"
    TOKENS_LOADED = "tokens-loaded", "the tokens of the HTTP listener were read"
    TOKENS_INVALID = "tokens-invalid", "a line of the token file is no token"
    RESPONSE_INVALID = "response-invalid", "the answer of another node cannot be read"

    # Brokers, as the active controller sees them.
    BROKER_FENCED = "broker-fenced", "brokers sent no heartbeat in time"
    BROKER_REFUSED = "broker-refused", "the registration of a broker is refused"

    # An embedded broker.
    BROKER_REGISTERED = "broker-registered", "the controller knows this broker"
    BROKER_STATE = "broker-state", "the controller has fenced or unfenced this broker"
    BROKER_SERVES = "broker-serves", "clients are served from now on"
    CONTROLLER_UNREACHABLE = "controller-unreachable", "no active controller answers"
    HEARTBEAT_REFUSED = "heartbeat-refused", "this broker registers again"
    SHUTDOWN_UNCONTROLLED = "shutdown-uncontrolled", "this broker stops with leaders on it"
    PARTITIONS_OPENED = "partitions-opened", "the logs of all partitions are open"
    PARTITION_OPENED = "partition-opened", "the log of a partition is open"
    PARTITION_FAILED = "partition-failed", "the log of a partition cannot be used"
    PARTITION_REMOVED = "partition-removed", "the log of a partition was deleted"
    PARTITION_SET_ASIDE = "partition-set-aside", "a folder belongs to another topic"
    DIRECTORY_LOST = "directory-lost", "a replica has lost its data and must not lead"
    DIRECTORY_REPORTED = "directory-reported", "the controller knows where replicas are"
    DIRECTORY_REFUSED = "directory-refused", "the controller refuses where a replica is"
    ISR_CHANGED = "isr-changed", "a partition has other replicas in sync"
    ISR_REFUSED = "isr-refused", "the controller refuses a change of these"
    FETCH_FAILED = "fetch-failed", "this broker cannot copy from another one"
    RECORDS_CORRUPT = "records-corrupt", "another broker sent records that are damaged"
    LOG_DIVERGED = "log-diverged", "a replica drops what its leader does not have"

    # `metaquorum backup --every`.
    BACKUP_MADE = "backup-made", "a scheduled backup is complete"
    BACKUP_FAILED = "backup-failed", "a scheduled backup failed; the next one is tried"
    METRICS_NOT_WRITTEN = "metrics-not-written", "the metrics of backups are those of before"

    def __init__(self, event: str, meaning: str) -> None:
        self.event = event
        self.meaning = meaning
        self.extra: Final[Mapping[str, str]] = {"event": event}
        """The argument of that name in a call of a logger."""


def as_markdown() -> str:
    """The table as docs/logging.md has it."""
    rows = [f"| `{each.event}` | {each.meaning} |" for each in LogEvent]
    return "\n".join(("| event | meaning |", "| --- | --- |", *rows, ""))

"""The table of metrics: name, type, labels, source and meaning of everything that a scrape shows.

The exposition and `docs/metrics.md` are made from it. Names that begin with `kafka_` are those
that the usual rules of jmx_exporter make of Kafka's MBeans, so that dashboards for Kafka find them.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from quorum.histogram import Histogram


class Kind(StrEnum):
    """The types of Prometheus that are used."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Scope(StrEnum):
    """The nodes that show a metric."""

    ALL = "all"
    CONTROLLERS = "controllers"
    LEADER = "leader"
    """The active controller alone."""
    BROKERS = "brokers"
    BACKUPS = "backups"
    """`metaquorum backup --every --metrics-file`."""


class Metric(Struct, frozen=True):
    """One row of the table."""

    name: str
    kind: Kind
    scope: Scope
    help: str
    labels: tuple[str, ...] = ()
    mbean: str = ""
    """The MBean of Kafka whose name it has, or would have."""


class Sample(NamedTuple):
    """The value of one series; `labels` are values, in the order of the table."""

    name: str
    value: float | Histogram
    labels: tuple[str, ...] = ()


_GAUGE, _COUNTER, _HISTOGRAM = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM
_RAFT: Final = "kafka.server:type=raft-metrics"
_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
_REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="


def _raft(attribute: str, text: str, scope: Scope = Scope.ALL, *labels: str) -> Metric:
    name = f"kafka_server_raft_metrics_{attribute.replace('-', '_')}"
    return Metric(
        name + ("_info" if labels else ""), _GAUGE, scope, text, labels, f"{_RAFT},{attribute}"
    )


def _controller(bean: str, text: str) -> Metric:
    name = f"kafka_controller_kafkacontroller_{bean.lower()}"
    return Metric(name, _GAUGE, Scope.CONTROLLERS, text, (), _CONTROLLER + bean)


def _replicas(bean: str, text: str) -> Metric:
    name = f"kafka_server_replicamanager_{bean.lower()}"
    return Metric(name, _GAUGE, Scope.BROKERS, text, (), _REPLICAS + bean)


def _per_second(group: str, bean: str, text: str) -> Metric:
    kind = group.rpartition("type=")[2].partition(",")[0].lower()
    name = f"kafka_server_{kind}_{bean.removesuffix('PerSec').lower()}_total"
    return Metric(name, _COUNTER, Scope.BROKERS, text, (), group + bean)


_ROWS: Final = (
    # --- the quorum ---------------------------------------------------------------------------
    _raft("current-leader", "The id of the leader; -1 if none is known."),
    _raft("current-epoch", "The epoch."),
    _raft("current-vote", "The id of the candidate that has this node's vote; -1 without a vote."),
    _raft("current-state", "1 for the state that this node is in.", Scope.ALL, "state"),
    _raft("high-watermark", "Everything below this offset is committed; -1 if unknown."),
    _raft("log-end-offset", "The end of this node's copy of the metadata log."),
    _raft("log-end-epoch", "The epoch of the last record of that copy."),
    _raft("number-of-voters", "The number of voters."),
    _raft("number-of-observers", "The observers that have fetched.", Scope.LEADER),
    _raft("uncommitted-voter-change", "1 while the voters are being changed.", Scope.LEADER),
    Metric(
        "quorum_leaderless_seconds",
        _GAUGE,
        Scope.ALL,
        "The time since this node knew a leader; 0 while it knows one.",
    ),
    Metric(
        "quorum_leader_changes_total",
        _COUNTER,
        Scope.ALL,
        "How often this node has learned of a leader.",
    ),
    Metric(
        "quorum_election_seconds",
        _HISTOGRAM,
        Scope.ALL,
        "From the moment when this node stood until it led.",
    ),
    Metric(
        "quorum_failover_seconds",
        _HISTOGRAM,
        Scope.ALL,
        "From the loss of a leader until this node knew the next one.",
    ),
    Metric(
        "quorum_commit_latency_seconds",
        _HISTOGRAM,
        Scope.ALL,
        "From an append on the leader to its commit. One append at a time is measured.",
    ),
    Metric(
        "quorum_log_append_seconds",
        _HISTOGRAM,
        Scope.ALL,
        "The time to write and sync what was appended to the metadata log.",
    ),
    Metric(
        "quorum_log_fsync_seconds",
        _HISTOGRAM,
        Scope.ALL,
        "The time of an fsync of the metadata log; a part of the append.",
    ),
    Metric(
        "quorum_disk_full",
        _GAUGE,
        Scope.ALL,
        "1 while this node's disk is full.",
    ),
    Metric(
        "quorum_metadata_lag_records",
        _GAUGE,
        Scope.ALL,
        "Committed records of the metadata log that this node has not applied.",
    ),
    Metric(
        "quorum_replica_lag_records",
        _GAUGE,
        Scope.LEADER,
        "The records that a voter lacks. Absent until its first fetch from this leader.",
        ("replica",),
    ),
    Metric(
        "quorum_replica_lag_seconds",
        _GAUGE,
        Scope.LEADER,
        "The time since a voter was caught up, by its last fetch. Absent until then.",
        ("replica",),
    ),
    Metric(
        "quorum_replica_last_fetch_seconds",
        _GAUGE,
        Scope.LEADER,
        "The time since a voter's last fetch. Absent until its first one.",
        ("replica",),
    ),
    Metric(
        "quorum_observer_lag_records_max",
        _GAUGE,
        Scope.LEADER,
        "The records that the slowest observer lacks. Observers have no series of their own.",
    ),
    Metric(
        "quorum_failure_tolerance",
        _GAUGE,
        Scope.LEADER,
        "The voters that may be lost before the quorum stops.",
    ),
    Metric(
        "quorum_uncommitted_records",
        _GAUGE,
        Scope.LEADER,
        "Records that are appended and not committed yet.",
    ),
    Metric(
        "quorum_certificate_expiry_timestamp_seconds",
        _GAUGE,
        Scope.ALL,
        "When the first certificate of this node ends. Absent without TLS.",
    ),
    # --- the cluster, as each controller's image has it -----------------------------------------
    _controller("ActiveControllerCount", "1 on the active controller, else 0."),
    _controller("ActiveBrokerCount", "Registered brokers that are not fenced."),
    _controller("FencedBrokerCount", "Registered brokers that are fenced."),
    _controller("GlobalTopicCount", "Topics."),
    _controller("GlobalPartitionCount", "Partitions."),
    _controller("OfflinePartitionsCount", "Partitions without a leader."),
    _controller("LastAppliedRecordOffset", "The offset of the last record in the image."),
    _controller("LastCommittedRecordOffset", "The offset of the last committed record."),
    Metric(
        "quorum_under_replicated_partitions",
        _GAUGE,
        Scope.CONTROLLERS,
        "Partitions with a replica that is not in sync, without those that are being added. "
        "Counted at a scrape; in a very large cluster it may be the count of the scrape before.",
    ),
    Metric(
        "quorum_under_min_isr_partitions",
        _GAUGE,
        Scope.CONTROLLERS,
        "Partitions with fewer replicas in sync than min.insync.replicas. Counted together with "
        "the metric above.",
    ),
    Metric(
        "quorum_throttled_mutation_requests_total",
        _COUNTER,
        Scope.CONTROLLERS,
        "Requests to create or delete topics or partitions for which this node, as the active "
        "controller, made the client wait: its `controller_mutation_rate` was used up.",
    ),
    # --- moves ----------------------------------------------------------------------------------
    Metric(
        "reassignment_moves",
        _GAUGE,
        Scope.CONTROLLERS,
        "Moves that have not ended, by state.",
        ("state",),
    ),
    Metric(
        "reassignment_partitions",
        _GAUGE,
        Scope.CONTROLLERS,
        "Partitions that are being reassigned: `stepping` with a step under way, or `waiting`.",
        ("state",),
    ),
    Metric(
        "reassignment_replicas_adding",
        _GAUGE,
        Scope.CONTROLLERS,
        "Replicas that are being added.",
    ),
    Metric(
        "reassignment_stalled_partitions",
        _GAUGE,
        Scope.LEADER,
        "Partitions whose step goes on only after somebody has acted. Counted like "
        "`quorum_under_min_isr_partitions`.",
    ),
    # --- brokers --------------------------------------------------------------------------------
    Metric(
        "kafka_server_kafkaserver_brokerstate",
        _GAUGE,
        Scope.BROKERS,
        "1 while the broker starts or is fenced, 3 while it runs.",
        (),
        "kafka.server:type=KafkaServer,name=BrokerState",
    ),
    Metric(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        _GAUGE,
        Scope.BROKERS,
        "The offset of the last metadata record that the broker has applied.",
        (),
        "kafka.server:type=broker-metadata-metrics,last-applied-record-offset",
    ),
    _replicas("LeaderCount", "Partitions that this broker leads."),
    _replicas("PartitionCount", "Replicas on this broker."),
    _replicas("OfflineReplicaCount", "Replicas whose log cannot be opened."),
    _replicas("UnderReplicatedPartitions", "Led partitions with a replica that is not in sync."),
    _replicas("UnderMinIsrPartitionCount", "Led partitions under min.insync.replicas."),
    _replicas("ReassigningPartitions", "Led partitions that are being reassigned."),
    _per_second(_REPLICAS, "IsrShrinksPerSec", "ISRs that this broker, as leader, has shrunk."),
    _per_second(_REPLICAS, "IsrExpandsPerSec", "ISRs that it has expanded."),
    _per_second(_TOPICS, "BytesInPerSec", "Bytes of records that producers have written."),
    _per_second(_TOPICS, "BytesOutPerSec", "Bytes of records that consumers have read."),
    _per_second(_TOPICS, "ReplicationBytesInPerSec", "Bytes of records copied from leaders."),
    _per_second(_TOPICS, "ReplicationBytesOutPerSec", "Bytes of records read by followers."),
    Metric(
        "kafka_server_replicafetchermanager_maxlag",
        _GAUGE,
        Scope.BROKERS,
        "The records that the slowest replica of this broker lacks.",
        ("clientId",),
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
    ),
    # --- requests and the process ---------------------------------------------------------------
    Metric(
        "kafka_network_requestmetrics_requests_total",
        _COUNTER,
        Scope.ALL,
        "Answered requests of the Kafka listeners, by API.",
        ("request",),
        "kafka.network:type=RequestMetrics,name=RequestsPerSec",
    ),
    Metric(
        "quorum_request_seconds",
        _HISTOGRAM,
        Scope.ALL,
        "The time from the arrival of a request to its answer, waits of a long poll included.",
        ("request",),
    ),
    Metric("quorum_connections", _GAUGE, Scope.ALL, "Open connections of the Kafka listeners."),
    Metric("quorum_build_info", _GAUGE, Scope.ALL, "1, with the version as label.", ("version",)),
    Metric("process_cpu_seconds_total", _COUNTER, Scope.ALL, "Processor time of this process."),
    Metric("process_start_time_seconds", _GAUGE, Scope.ALL, "When this process began."),
    Metric("process_resident_memory_bytes", _GAUGE, Scope.ALL, "Memory of this process."),
    Metric("process_virtual_memory_bytes", _GAUGE, Scope.ALL, "Its address space."),
    Metric("process_open_fds", _GAUGE, Scope.ALL, "Its open file descriptors."),
    Metric("process_max_fds", _GAUGE, Scope.ALL, "Its limit of file descriptors."),
    # --- scheduled backups ----------------------------------------------------------------------
    Metric(
        "backup_last_success_timestamp_seconds",
        _GAUGE,
        Scope.BACKUPS,
        "When the newest backup was taken; not there as long as there is none.",
    ),
    Metric(
        "backup_failures_total",
        _COUNTER,
        Scope.BACKUPS,
        "The backups that failed since the process began.",
    ),
)

METRICS: Final[Mapping[str, Metric]] = MappingProxyType({each.name: each for each in _ROWS})
"""Every metric by its name, in the order of the exposition."""

assert len(METRICS) == len(_ROWS), "a metric has two rows"

_SCOPES: Final = {
    Scope.ALL: "all nodes",
    Scope.CONTROLLERS: "controllers",
    Scope.LEADER: "the active controller",
    Scope.BROKERS: "our brokers",
    Scope.BACKUPS: "`backup --every`",
}


def as_markdown() -> str:
    """The table as it is in `docs/metrics.md`."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| metric | type | on | meaning |"
    yield "| --- | --- | --- | --- |"
    for each in METRICS.values():
        labels = f" by `{'`, `'.join(each.labels)}`" if each.labels else ""
        mbean = f" Kafka: `{each.mbean}`." if each.mbean else ""
        where = _SCOPES[each.scope]
        yield f"| `{each.name}`{labels} | {each.kind} | {where} | {each.help}{mbean} |"

"""The samples of every node: its replica of the metadata log, and its listeners."""

from collections.abc import Iterator
from typing import Final

from admin.monitoring.health_rules import Member, tolerance
from admin.monitoring.metric_table import Sample
from quorum.core.node import QuorumNode
from quorum.core.roles import Follower, Leader
from quorum.driver import Quorum
from quorum.log.disk_thread import DiskThread
from quorum.log.segmented_log import SegmentedLog
from quorum.protocol.apis import api_name
from quorum.transport.security.validity import WARNINGS
from quorum.transport.server import Server
from quorum.version import VERSION

UNKNOWN: Final = -1
_RAFT: Final = "kafka_server_raft_metrics_"


def quorum_samples(
    quorum: Quorum, disk: DiskThread, log: SegmentedLog, applied: int
) -> Iterator[Sample]:
    """Yield the samples of a replica whose owner has applied everything below `applied`."""
    node, times = quorum.node, quorum.times
    vote, high_watermark = node.voted_for, node.high_watermark
    leader = UNKNOWN if quorum.leader is None else quorum.leader
    yield Sample(f"{_RAFT}current_leader", leader)
    yield Sample(f"{_RAFT}current_epoch", node.epoch)
    yield Sample(f"{_RAFT}current_vote", UNKNOWN if vote is None else vote.id)
    yield Sample(f"{_RAFT}current_state_info", 1, (state_of(node),))
    yield Sample(f"{_RAFT}high_watermark", UNKNOWN if high_watermark is None else high_watermark)
    yield Sample(f"{_RAFT}log_end_offset", node.log_end.offset)
    yield Sample(f"{_RAFT}log_end_epoch", node.log_end.epoch)
    yield Sample(f"{_RAFT}number_of_voters", len(node.voters))
    yield Sample("quorum_leaderless_seconds", quorum.leaderless_ms / 1_000)
    yield Sample("quorum_leader_changes_total", times.leader_changes)
    yield Sample("quorum_election_seconds", times.elections)
    yield Sample("quorum_failover_seconds", times.failovers)
    yield Sample("quorum_commit_latency_seconds", times.commits)
    yield Sample("quorum_log_append_seconds", disk.commits)
    yield Sample("quorum_log_fsync_seconds", log.syncs)
    yield Sample("quorum_disk_full", int(not quorum.replica.has_room))
    yield Sample("quorum_metadata_lag_records", max(0, (high_watermark or 0) - applied))
    yield Sample("quorum_build_info", 1, (VERSION,))
    if WARNINGS.first_end_s is not None:
        yield Sample("quorum_certificate_expiry_timestamp_seconds", WARNINGS.first_end_s)


def leader_samples(quorum: Quorum) -> Iterator[Sample]:
    """Yield what a leader knows of the other replicas; nothing on other nodes."""
    node, now_ms = quorum.node, quorum.now_ms
    if not isinstance(node.role, Leader):
        return
    replicas, end = node.replicas(), node.log_end.offset
    observers = [each for each in replicas if not each.voter]
    members = []
    for each in replicas:
        if each.voter is None:
            continue
        is_leader = each.replica == node.me
        fetched_ms = None if each.last_fetch_ms is None else now_ms - each.last_fetch_ms
        id_ = (str(each.replica.id),)
        members.append(
            Member(
                id=each.replica.id, is_voter=True, is_leader=is_leader, fetched_ms_ago=fetched_ms
            )
        )
        if each.log_end is not None:
            yield Sample("quorum_replica_lag_records", max(0, end - each.log_end), id_)
        caught_up_ms = now_ms if is_leader else each.last_caught_up_ms
        if caught_up_ms is not None:
            yield Sample("quorum_replica_lag_seconds", (now_ms - caught_up_ms) / 1_000, id_)
        if is_leader or fetched_ms is not None:
            yield Sample("quorum_replica_last_fetch_seconds", (fetched_ms or 0) / 1_000, id_)
    lags = [end - each.log_end for each in observers if each.log_end is not None]
    yield Sample(f"{_RAFT}number_of_observers", len(observers))
    yield Sample(f"{_RAFT}uncommitted_voter_change", int(node.target_voters is not None))
    yield Sample("quorum_observer_lag_records_max", max(0, max(lags, default=0)))
    yield Sample("quorum_failure_tolerance", tolerance(members))
    yield Sample("quorum_uncommitted_records", max(0, end - (node.high_watermark or 0)))


def listener_samples(server: Server) -> Iterator[Sample]:
    """Yield the samples of the Kafka listeners of a node."""
    for api_key, found in sorted(server.times.of_api.items()):
        name = (api_name(api_key),)
        yield Sample("kafka_network_requestmetrics_requests_total", found.count, name)
        yield Sample("quorum_request_seconds", found, name)
    yield Sample("quorum_connections", server.connections)


def state_of(node: QuorumNode) -> str:
    """The state by the name that Kafka has for it."""
    if isinstance(node.role, Follower) and not node.voters.has(node.me):
        return "observer"
    return type(node.role).__name__.lower()

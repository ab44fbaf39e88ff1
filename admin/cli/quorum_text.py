"""The quorum as text: the tables of KIP-595, those of Kafka's present tool, and as data.

Pure functions from answers to text or plain values.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from admin.cli.output import Columns, columns, kafka_columns
from admin.model import NodePlace, Whereabouts
from admin.units import show_duration
from controller.quorum_description import (
    UNKNOWN,
    QuorumDescription,
    ReplicaInfo,
    lag,
    lag_time_ms,
    max_follower_lag,
    max_follower_lag_time_ms,
)
from quorum.core.vocabulary import NO_DIRECTORY, uuid_to_text

LABEL_WIDTH: Final = 24
"""The column where values begin, as in Kafka's tool."""


def status(quorum: QuorumDescription) -> str:
    """The summary of KIP-595's `--describe`."""
    return _labelled(
        [
            ("LeaderId", quorum.leader_id),
            ("LeaderEpoch", quorum.leader_epoch),
            ("HighWatermark", quorum.high_watermark),
            ("MaxFollowerLag", max_follower_lag(quorum)),
            ("MaxFollowerLagTimeMs", max_follower_lag_time_ms(quorum)),
            ("CurrentVoters", sorted(voter.id for voter in quorum.voters)),
            ("TargetVoters", sorted(quorum.target_voters or ())),
            *([] if quorum.waits_for is None else [("WaitsFor", quorum.waits_for)]),
            *([("FullDisks", list(quorum.full_disks))] if quorum.full_disks else []),
        ]
    )


class _Row(NamedTuple):
    """One replica in the tables."""

    role: str
    replica: ReplicaInfo
    lag: int
    lag_time_ms: int
    is_target: bool


def _rows(quorum: QuorumDescription) -> Iterator[_Row]:
    """The replicas: the leader, other voters, observers."""
    leader = quorum.leader
    replicas = [] if leader is None else [("Leader", leader)]
    replicas += [("Follower", voter) for voter in quorum.voters if voter is not leader]
    replicas += [("Observer", observer) for observer in quorum.observers]
    for role, replica in replicas:
        yield _Row(
            role,
            replica,
            UNKNOWN if leader is None else lag(replica, leader),
            UNKNOWN if leader is None else lag_time_ms(replica, leader),
            replica.id in (quorum.target_voters or ()),
        )


def replication(quorum: QuorumDescription, *, human_readable: bool = False) -> str:
    """The table of KIP-595's `--describe replication`."""

    def duration(time_ms: int) -> str:
        if not human_readable:
            return str(time_ms)
        return "unknown" if time_ms == UNKNOWN else show_duration(time_ms)

    cells: Columns[_Row] = {
        "ReplicaId": lambda row: row.replica.id,
        "LogEndOffset": lambda row: row.replica.log_end_offset,
        "Lag": lambda row: row.lag,
        "LagTimeMs": lambda row: duration(row.lag_time_ms),
        "Status": lambda row: row.role,
        "IsReassignTarget": lambda row: "Yes" if row.is_target else "No",
    }
    return columns(_rows(quorum), cells)


def kafka_status(quorum: QuorumDescription) -> str:
    """The output of `kafka-metadata-quorum.sh describe --status` since Kafka 4.0."""
    return _labelled(
        [
            ("ClusterId", quorum.cluster_id),
            ("LeaderId", quorum.leader_id),
            ("LeaderEpoch", quorum.leader_epoch),
            ("HighWatermark", quorum.high_watermark),
            ("MaxFollowerLag", max_follower_lag(quorum)),
            ("MaxFollowerLagTimeMs", max_follower_lag_time_ms(quorum)),
            ("CurrentVoters", _kafka_nodes(quorum, quorum.voters)),
            ("CurrentObservers", _kafka_nodes(quorum, quorum.observers)),
        ]
    )


def kafka_replication(quorum: QuorumDescription, *, human_readable: bool, now_ms: int) -> str:
    """The output of `kafka-metadata-quorum.sh describe --replication` since Kafka 4.0."""

    def moment(time_ms: int) -> str:
        if time_ms == UNKNOWN or not human_readable:
            return str(time_ms)
        return f"{max(0, now_ms - time_ms)} ms ago"

    cells: Columns[_Row] = {
        "NodeId": lambda row: row.replica.id,
        "DirectoryId": lambda row: uuid_to_text(row.replica.directory_id),
        "LogEndOffset": lambda row: row.replica.log_end_offset,
        "Lag": lambda row: row.lag,
        "LastFetchTimestamp": lambda row: moment(row.replica.last_fetch_ms),
        "LastCaughtUpTimestamp": lambda row: moment(row.replica.last_caught_up_ms),
        "Status": lambda row: row.role,
    }
    return kafka_columns(_rows(quorum), cells)


def status_data(quorum: QuorumDescription) -> dict[str, Any]:
    """The summary as plain values."""
    target = quorum.target_voters
    return {
        "cluster_id": quorum.cluster_id,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "as_of_offset": quorum.high_watermark,
        "max_follower_lag": max_follower_lag(quorum),
        "max_follower_lag_time_ms": max_follower_lag_time_ms(quorum),
        "current_voters": [_node_data(quorum, voter) for voter in quorum.voters],
        "target_voters": None if target is None else sorted(target),
        "waits_for": quorum.waits_for,
        "full_disks": list(quorum.full_disks),
        "observers": [_node_data(quorum, observer) for observer in quorum.observers],
    }


def replication_data(quorum: QuorumDescription) -> dict[str, Any]:
    """The replicas as plain values; -1 is unknown."""
    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "as_of_offset": quorum.high_watermark,
        "replicas": [
            {
                "replica_id": row.replica.id,
                "directory_id": uuid_to_text(row.replica.directory_id),
                "log_end_offset": row.replica.log_end_offset,
                "lag": row.lag,
                "lag_time_ms": row.lag_time_ms,
                "last_fetch_timestamp_ms": row.replica.last_fetch_ms,
                "last_caught_up_timestamp_ms": row.replica.last_caught_up_ms,
                "status": row.role,
                "is_reassign_target": row.is_target,
            }
            for row in _rows(quorum)
        ],
    }


def altered(quorum: QuorumDescription) -> str:
    """The output of `alter`."""
    current = f"CurrentVoters: {sorted(each.id for each in quorum.voters)}"
    target = quorum.target_voters
    return f"{current}\nTargetVoters: {sorted(target)}" if target else current


def _labelled(lines: Sequence[tuple[str, object]]) -> str:
    return "\n".join(f"{label + ':':<{LABEL_WIDTH}}{value}" for label, value in lines)


def _endpoints(quorum: QuorumDescription, replica: ReplicaInfo) -> list[str]:
    return [f"{name}://{address}" for name, address in quorum.addresses.get(replica.id, ())]


def _kafka_nodes(quorum: QuorumDescription, replicas: Sequence[ReplicaInfo]) -> str:
    nodes = []
    for replica in replicas:
        directory = replica.directory_id
        known = "null" if directory == NO_DIRECTORY else f'"{uuid_to_text(directory)}"'
        endpoints = _endpoints(quorum, replica)
        shown = f', "endpoints": {json.dumps(endpoints)}' if endpoints else ""
        nodes.append(f'{{"id": {replica.id}, "directoryId": {known}{shown}}}')
    return f"[{', '.join(nodes)}]"


def _node_data(quorum: QuorumDescription, replica: ReplicaInfo) -> dict[str, Any]:
    return {
        "id": replica.id,
        "directory_id": uuid_to_text(replica.directory_id),
        "endpoints": _endpoints(quorum, replica),
    }


def places_table(found: Whereabouts) -> str:
    """One line per node that the asked node knows."""
    cells: Columns[NodePlace] = {
        "NodeId": lambda node: node.id,
        "Address": lambda node: node.address,
        "Booted": _booted,
        "DirectoryId": lambda node: (
            "-" if node.directory_id == NO_DIRECTORY else uuid_to_text(node.directory_id)
        ),
        "Status": lambda node: "Leader" if node.id == found.leader_id else "",
    }
    return columns(found.nodes, cells)


def _booted(node: NodePlace) -> str:
    try:
        return datetime.fromtimestamp(node.boot_timestamp_ms / 1_000, UTC).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        # A timestamp that no calendar has is shown as a number.
        return str(node.boot_timestamp_ms)


def places_data(found: Whereabouts) -> dict[str, Any]:
    """The same as plain values; a leader of -1 is unknown."""
    return {
        "cluster_id": found.cluster_id,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "nodes": [
            {
                "node_id": node.id,
                "host": node.address.host,
                "port": node.address.port,
                "boot_timestamp_ms": node.boot_timestamp_ms,
                "directory_id": uuid_to_text(node.directory_id),
            }
            for node in found.nodes
        ],
    }

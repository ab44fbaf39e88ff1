"""The quorum as text: the tables of KIP-595, those of Kafka's present tool, and as data.

Pure functions from answers to text or plain values.
"""

import json
from collections.abc import Sequence
from typing import Any

from admin.capabilities.quorum import NodeAddress, Nodes, Quorum, Replica
from admin.capabilities.schema import json_of
from admin.cli.output import Columns, columns, kafka_columns, labelled
from admin.units import show_duration, show_time
from controller.quorum_description import UNKNOWN
from quorum.core.vocabulary import NO_DIRECTORY, uuid_to_text
from quorum.transport.address import Address


def _totals(quorum: Quorum) -> list[tuple[str, object]]:
    return [
        ("LeaderId", quorum.leader_id),
        ("LeaderEpoch", quorum.leader_epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", quorum.max_follower_lag),
        ("MaxFollowerLagTimeMs", quorum.max_follower_lag_time_ms),
    ]


def status(quorum: Quorum) -> str:
    """The summary of KIP-595's `--describe`."""
    return labelled(
        [
            *_totals(quorum),
            ("CurrentVoters", sorted(voter.replica_id for voter in quorum.current_voters)),
            ("TargetVoters", sorted(quorum.target_voters or ())),
            *([] if quorum.waits_for is None else [("WaitsFor", quorum.waits_for)]),
            *([("FullDisks", list(quorum.full_disks))] if quorum.full_disks else []),
        ]
    )


def _rows(quorum: Quorum) -> list[Replica]:
    """The replicas: the leader, other voters, observers."""
    voters = sorted(quorum.current_voters, key=lambda each: each.replica_id != quorum.leader_id)
    return [*voters, *quorum.observers]


def _is_target(quorum: Quorum, replica: Replica) -> bool:
    return replica.replica_id in (quorum.target_voters or ())


def replication(quorum: Quorum, *, human_readable: bool = False) -> str:
    """The table of KIP-595's `--describe replication`."""

    def duration(time_ms: int) -> str:
        if not human_readable:
            return str(time_ms)
        return "unknown" if time_ms == UNKNOWN else show_duration(time_ms)

    cells: Columns[Replica] = {
        "ReplicaId": lambda row: row.replica_id,
        "LogEndOffset": lambda row: row.log_end_offset,
        "Lag": lambda row: row.lag,
        "LagTimeMs": lambda row: duration(row.lag_time_ms),
        "Status": lambda row: row.status.capitalize(),
        "IsReassignTarget": lambda row: "Yes" if _is_target(quorum, row) else "No",
    }
    return columns(_rows(quorum), cells)


def kafka_status(quorum: Quorum) -> str:
    """The output of `kafka-metadata-quorum.sh describe --status` since Kafka 4.0."""
    return labelled(
        [
            ("ClusterId", quorum.cluster_id),
            *_totals(quorum),
            ("CurrentVoters", _kafka_nodes(quorum.current_voters)),
            ("CurrentObservers", _kafka_nodes(quorum.observers)),
        ]
    )


def kafka_replication(quorum: Quorum, *, human_readable: bool, now_ms: int) -> str:
    """The output of `kafka-metadata-quorum.sh describe --replication` since Kafka 4.0."""

    def moment(time_ms: int) -> str:
        if time_ms == UNKNOWN or not human_readable:
            return str(time_ms)
        return f"{max(0, now_ms - time_ms)} ms ago"

    cells: Columns[Replica] = {
        "NodeId": lambda row: row.replica_id,
        "DirectoryId": lambda row: row.directory_id,
        "LogEndOffset": lambda row: row.log_end_offset,
        "Lag": lambda row: row.lag,
        "LastFetchTimestamp": lambda row: moment(row.last_fetch_timestamp),
        "LastCaughtUpTimestamp": lambda row: moment(row.last_caught_up_timestamp),
        "Status": lambda row: row.status.capitalize(),
    }
    return kafka_columns(_rows(quorum), cells)


def status_data(quorum: Quorum) -> dict[str, Any]:
    """The summary as plain values."""
    target = quorum.target_voters
    return {
        **json_of(quorum),
        "current_voters": [_node_data(voter) for voter in quorum.current_voters],
        "target_voters": None if target is None else sorted(target),
        "observers": [_node_data(observer) for observer in quorum.observers],
    }


def replication_data(quorum: Quorum) -> dict[str, Any]:
    """The replicas as plain values; -1 is unknown."""
    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "as_of_offset": quorum.high_watermark,
        "replicas": [
            {
                "replica_id": row.replica_id,
                "directory_id": row.directory_id,
                "log_end_offset": row.log_end_offset,
                "lag": row.lag,
                "lag_time_ms": row.lag_time_ms,
                "last_fetch_timestamp_ms": row.last_fetch_timestamp,
                "last_caught_up_timestamp_ms": row.last_caught_up_timestamp,
                "status": row.status.capitalize(),
                "is_reassign_target": _is_target(quorum, row),
            }
            for row in _rows(quorum)
        ],
    }


def altered(quorum: Quorum) -> str:
    """The output of `alter`."""
    current = f"CurrentVoters: {sorted(each.replica_id for each in quorum.current_voters)}"
    target = quorum.target_voters
    return f"{current}\nTargetVoters: {sorted(target)}" if target else current


def _endpoints(replica: Replica) -> list[str]:
    return [f"{each.name}://{Address(each.host, each.port)}" for each in replica.endpoints]


def _kafka_nodes(replicas: Sequence[Replica]) -> str:
    nodes = []
    for replica in replicas:
        is_known = replica.directory_id != uuid_to_text(NO_DIRECTORY)
        directory = f'"{replica.directory_id}"' if is_known else "null"
        endpoints = _endpoints(replica)
        shown = f', "endpoints": {json.dumps(endpoints)}' if endpoints else ""
        nodes.append(f'{{"id": {replica.replica_id}, "directoryId": {directory}{shown}}}')
    return f"[{', '.join(nodes)}]"


def _node_data(replica: Replica) -> dict[str, Any]:
    return {
        "id": replica.replica_id,
        "directory_id": replica.directory_id,
        "endpoints": _endpoints(replica),
    }


def nodes_table(found: Nodes) -> str:
    """One line per node that the asked node knows."""
    cells: Columns[NodeAddress] = {
        "NodeId": lambda node: node.replica_id,
        "Address": lambda node: node.address,
        "Booted": lambda node: show_time(node.boot_timestamp),
        "DirectoryId": lambda node: (
            "-" if node.directory_id == uuid_to_text(NO_DIRECTORY) else node.directory_id
        ),
        "Version": lambda node: node.software_version or "-",
        "Status": lambda node: "Leader" if node.replica_id == found.leader_id else "",
    }
    return columns(found.brokers, cells)


def nodes_data(found: Nodes) -> dict[str, Any]:
    """The same as plain values; a leader of -1 is unknown."""
    return {
        "cluster_id": found.cluster_id,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "nodes": [
            {
                "node_id": node.replica_id,
                "host": node.host,
                "port": node.port,
                "boot_timestamp_ms": node.boot_timestamp,
                "directory_id": node.directory_id,
                "software_version": node.software_version,
            }
            for node in found.brokers
        ],
    }

"""What the answers look like, as plain values for JSON."""

from typing import Any

from admin.model import (
    LeadTransfer,
    QuorumDescription,
    ReplicaInfo,
    lag,
    lag_time_ms,
    max_follower_lag,
    max_follower_lag_time_ms,
)
from admin.whereabouts import Whereabouts
from quorum.log.uuids import uuid_to_text


def quorum_body(quorum: QuorumDescription) -> dict[str, Any]:
    """The same facts as DescribeQuorum and the status and replication tables; -1 is unknown."""
    return {
        "cluster_id": quorum.cluster_id,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "as_of_offset": quorum.high_watermark,
        "max_follower_lag": max_follower_lag(quorum),
        "max_follower_lag_time_ms": max_follower_lag_time_ms(quorum),
        "current_voters": [_replica(quorum, each, "voter") for each in quorum.voters],
        "observers": [_replica(quorum, each, "observer") for each in quorum.observers],
        "target_voters": quorum.target_voters,
        "waits_for": quorum.waits_for,
        "full_disks": list(quorum.full_disks),
    }


def whereabouts_body(found: Whereabouts) -> dict[str, Any]:
    """The same facts as DiscoverBrokers; a leader of -1 is unknown."""
    return {
        "cluster_id": found.cluster_id,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "brokers": [
            {
                "replica_id": node.id,
                "directory_id": uuid_to_text(node.directory_id),
                "boot_timestamp": node.boot_timestamp_ms,
                "host": node.address.host,
                "port": node.address.port,
            }
            for node in found.nodes
        ],
    }


def voters_body(quorum: QuorumDescription) -> dict[str, Any]:
    """Who votes, who is to, and what the change waits for."""
    return {
        "current_voters": sorted(each.id for each in quorum.voters),
        "target_voters": quorum.target_voters,
        "waits_for": quorum.waits_for,
        "as_of_offset": quorum.high_watermark,
    }


def transfer_body(found: LeadTransfer) -> dict[str, Any]:
    """Who leads now; -1 where nobody is known to yet."""
    return {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "duration_ms": found.duration_ms,
    }


def _replica(quorum: QuorumDescription, replica: ReplicaInfo, kind: str) -> dict[str, Any]:
    leader = quorum.leader
    status = {"voter": "follower", "observer": "observer"}[kind]
    return {
        "replica_id": replica.id,
        "directory_id": uuid_to_text(replica.directory_id),
        "status": "leader" if replica.id == quorum.leader_id else status,
        "log_end_offset": replica.log_end_offset,
        "lag": -1 if leader is None else lag(replica, leader),
        "lag_time_ms": -1 if leader is None else lag_time_ms(replica, leader),
        "last_fetch_timestamp": replica.last_fetch_ms,
        "last_caught_up_timestamp": replica.last_caught_up_ms,
        "endpoints": [
            {"name": name, "host": address.host, "port": address.port}
            for name, address in quorum.addresses.get(replica.id, ())
        ],
    }

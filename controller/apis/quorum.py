"""The quorum: DescribeQuorum (55) and changes of its voters (KIP-595, KIP-836, KIP-853).

AlterQuorum (20001), AddRaftVoter (80), RemoveRaftVoter (81) and UpdateRaftVoter (82) are answered
once their record is committed.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from controller.apis.request import TIMEOUT_MS_MAX, Extended, KafkaRequest, refuse
from controller.quorum_description import ReplicaInfo
from controller.service import Service
from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from quorum.core.vocabulary import NO_DIRECTORY, Epoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import Extension
from quorum.protocol.raft_types import METADATA_PARTITION, METADATA_TOPIC
from quorum.protocol.refusals import error_fields


async def describe_quorum(request: KafkaRequest, service: Service) -> Any:
    asked = [
        (topic.topic_name, partition.partition_index)
        for topic in request.message.topics
        for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, METADATA_PARTITION)]:
        message = f"the quorum has one log, {METADATA_TOPIC}-{METADATA_PARTITION}, not {asked}"
        return refuse(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    found = await service.describe_quorum(stale=request.stale)
    none = error_fields(ErrorCode.NONE, "")
    partition = {
        **none,
        "partition_index": METADATA_PARTITION,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "current_voters": map(_replica, found.voters),
        "observers": map(_replica, found.observers),
    }
    nodes = [
        {
            "node_id": each,
            "listeners": [
                {"name": name, "host": address.host, "port": address.port}
                for name, address in listeners
            ],
        }
        for each, listeners in sorted(found.addresses.items())
    ]
    topic = {"topic_name": METADATA_TOPIC, "partitions": (partition,)}
    return Extended(
        request.respond(**none, topics=(topic,), nodes=nodes),
        Extension.with_details(found, as_of=found.high_watermark),
    )


def _replica(replica: ReplicaInfo) -> Mapping[str, Any]:
    return {
        "replica_id": replica.id,
        "replica_directory_id": None
        if replica.directory_id == NO_DIRECTORY
        else replica.directory_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_ms,
        "last_caught_up_timestamp": replica.last_caught_up_ms,
    }


UNSAID_TIMEOUT_MS: Final = 2_000
"""Time for a change without a timeout of its own (RemoveRaftVoter of Kafka's tool), like Kafka's
controller.quorum.request.timeout.ms: the client hears the reason and may repeat it."""

_SHARE_OF_TIME: Final = 9 / 10
"""The part of the client's timeout used by the leader: its answer has to reach the client."""


async def alter_quorum(request: KafkaRequest, service: Service) -> Any:
    target = request.message.target_voters
    keys = None if target is None else tuple(_key(each) for each in target)
    return await _ask(
        request, service, AlterQuorumRequest(target=keys, timeout_ms=_timeout_ms(request))
    )


async def add_voter(request: KafkaRequest, service: Service) -> Any:
    voter = Voter(_key(request.message), _endpoints(request))
    if voter.id < 0 or not voter.directory_id_is_known:
        return refuse(
            request,
            ErrorCode.INVALID_REQUEST,
            f"{voter.key.text}: an id and a directory id are needed",
        )
    if not voter.endpoints:
        return refuse(request, ErrorCode.INVALID_REQUEST, f"{voter.key.text} names no listener")
    change = AddVoterRequest(voter=voter, timeout_ms=_timeout_ms(request))
    return await _ask(request, service, change)


async def remove_voter(request: KafkaRequest, service: Service) -> Any:
    change = RemoveVoterRequest(voter=_key(request.message), timeout_ms=_timeout_ms(request))
    return await _ask(request, service, change)


async def update_voter(request: KafkaRequest, service: Service) -> Any:
    message = request.message
    levels = message.k_raft_version_feature
    voter = Voter(
        _key(message),
        _endpoints(request),
        levels.min_supported_version,
        levels.max_supported_version,
    )
    epoch = Epoch(message.current_leader_epoch)
    change = UpdateVoterRequest(epoch=epoch, voter=voter, timeout_ms=_timeout_ms(request))
    return await _ask(request, service, change)


async def _ask(request: KafkaRequest, service: Service, change: VoterRequest) -> Any:
    cluster_id = request.message.cluster_id
    if cluster_id is not None and service.cluster_id not in (None, cluster_id):
        text = f"this is cluster {service.cluster_id}, not {cluster_id}"
        return refuse(request, ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    response = await service.want_voters(str(request.principal), change)
    return refuse(request, response.error, response.text)


def _key(named: Any) -> ReplicaKey:
    directory_id: UUID | None = named.voter_directory_id
    return ReplicaKey(ReplicaId(named.voter_id), directory_id or NO_DIRECTORY)


def _endpoints(request: KafkaRequest) -> tuple[Endpoint, ...]:
    listeners = request.message.listeners
    return tuple(Endpoint(each.name, each.host, int(each.port)) for each in listeners)


def _timeout_ms(request: KafkaRequest) -> int:
    asked_ms = UNSAID_TIMEOUT_MS if request.asked_ms is None else request.asked_ms
    return round(max(0, min(asked_ms, TIMEOUT_MS_MAX)) * _SHARE_OF_TIME)

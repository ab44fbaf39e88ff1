"""DescribeQuorum (55): the quorum as its leader sees it (KIP-595, KIP-836, KIP-853)."""

from typing import Any
from uuid import UUID

from controller.apis.request import KafkaRequest, code
from controller.quorum_description import QuorumDescription, ReplicaInfo
from controller.service import AsOf, Service
from quorum.protocol.errors import ErrorCode
from quorum.protocol.raft_types import METADATA_PARTITION, METADATA_TOPIC

TARGET_FROM = 2
"""The version of the answer that says who is to vote."""


async def describe_quorum(request: KafkaRequest, service: Service) -> Any:
    asked = [
        (topic.topic_name, partition.partition_index)
        for topic in request.message.topics
        for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, METADATA_PARTITION)]:
        message = f"the quorum has one log, {METADATA_TOPIC}-{METADATA_PARTITION}, not {asked}"
        return refuse_describe(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    found = await service.describe_quorum(stale=request.stale)
    partition = request.part(
        "PartitionData",
        partition_index=METADATA_PARTITION,
        error_code=code(0),
        error_message=None,
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        current_voters=tuple(_replica(request, each) for each in found.voters),
        observers=tuple(_replica(request, each) for each in found.observers),
        **_target(request, found),
    )
    nodes = ()
    if request.version >= 2:
        nodes = tuple(
            request.part(
                "Node",
                node_id=each,
                listeners=tuple(
                    request.part("Listener", name=name, host=address.host, port=address.port)
                    for name, address in listeners
                ),
            )
            for each, listeners in sorted(found.addresses.items())
        )
    topic = request.part("TopicData", topic_name=METADATA_TOPIC, partitions=(partition,))
    payload = request.respond(error_code=code(0), error_message=None, topics=(topic,), nodes=nodes)
    return AsOf(payload, found.high_watermark)


def _target(request: KafkaRequest, found: QuorumDescription) -> dict[str, Any]:
    """Fields of ours, for a client of ours: the target voters, and full disks."""
    if request.version < TARGET_FROM or request.extension is None:
        return {}
    target = found.target_voters or ()
    return {
        "target_voters": tuple(
            request.part("TargetVoter", voter_id=each, voter_directory_id=None) for each in target
        ),
        "waits_for": found.waits_for,
        "full_disks": tuple(found.full_disks),
    }


def refuse_describe(request: KafkaRequest, error: int, message: str) -> Any:
    return request.respond(error_code=code(error), error_message=message, topics=(), nodes=())


def _replica(request: KafkaRequest, replica: ReplicaInfo) -> Any:
    directory_id = None if replica.directory_id == UUID(int=0) else replica.directory_id
    return request.part(
        "ReplicaState",
        replica_id=replica.id,
        replica_directory_id=directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )

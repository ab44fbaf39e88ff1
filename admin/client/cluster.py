"""Kafka's requests about the quorum and its topics that several clients ask, and their answers.

A `read` function trusts the shape of the message, which the codec has checked, and nothing else.
"""

from collections.abc import Sequence
from typing import Any

from admin.client.channels import Form, details_in
from admin.client.retrying_client import Call, Verdict, verdict_of
from admin.faults import Refused
from admin.model import BrokerInfo, PartitionDescription, TopicDescription
from controller.quorum_description import QuorumDescription, ReplicaInfo
from quorum.core.vocabulary import NO_DIRECTORY
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.raft_types import METADATA_PARTITION, METADATA_TOPIC
from quorum.transport.address import Address


def describe_quorum(*, patient: bool = True) -> Call:
    """Describe the quorum (KIP-595)."""

    def fill(form: Form) -> Any:
        partition = {"partition_index": METADATA_PARTITION}
        topic = {"topic_name": METADATA_TOPIC, "partitions": (partition,)}
        return form.request(topics=(topic,))

    def judge(response: Any) -> Verdict:
        verdict = verdict_of(response)
        if verdict.code or not response.topics or not response.topics[0].partitions:
            return verdict
        return verdict_of(response.topics[0].partitions[0])

    return Call(
        api_key=ApiKey.DESCRIBE_QUORUM,
        fill=fill,
        judge=judge,
        failing="the quorum cannot be described",
        status_command=None,
        asks_who_leads=not patient,
    )


def read_quorum(response: Any, cluster_id: str | None) -> QuorumDescription:
    """Return the description that the leader of `cluster_id` gave; raises `Incompatible`."""
    details = details_in(response, QuorumDescription)
    if details is not None:
        return details
    found = response.topics[0].partitions[0]
    return QuorumDescription(
        cluster_id=cluster_id,
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(map(_replica, found.current_voters)),
        observers=tuple(map(_replica, found.observers)),
        addresses={
            node.node_id: tuple(
                (each.name, Address(each.host, each.port)) for each in node.listeners
            )
            for node in getattr(response, "nodes", ())
        },
    )


def metadata(names: Sequence[str] | None) -> Call:
    """Brokers, and the topics of these names, or all."""

    def fill(form: Form) -> Any:
        topics = None
        if names is not None:
            topics = tuple({"topic_id": None, "name": name} for name in names)
        return form.request(
            topics=topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    def judge(response: Any) -> Verdict:
        # Only version 13 has an error for all.
        return verdict_of(response) if hasattr(response, "error_code") else Verdict()

    return Call(
        api_key=ApiKey.METADATA,
        fill=fill,
        judge=judge,
        failing="the metadata cannot be read",
        status_command=None,
    )


def read_brokers(response: Any) -> tuple[BrokerInfo, ...]:
    """The nodes in an answer to Metadata; that of a controller lists controllers as well."""
    return tuple(node_of(each.node_id, each) for each in response.brokers)


def read_topics(response: Any, principal: str) -> dict[str, TopicDescription]:
    """The topics in an answer to Metadata; those that do not exist are left out.

    An error names the `principal` that has asked.
    """
    topics: dict[str, TopicDescription] = {}
    for topic in response.topics:
        code = topic.error_code.value
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if code not in (0, ErrorCode.LEADER_NOT_AVAILABLE):
            message = None
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # The answer has no field for it.
                message = f"{principal} needs DESCRIBE on TOPIC {topic.name}"
            raise Refused(f"topic {topic.name} cannot be described", code, message)
        topics[topic.name] = TopicDescription(
            name=topic.name,
            topic_id=getattr(topic, "topic_id", None),
            partitions=tuple(sorted(map(_partition, topic.partitions), key=lambda p: p.partition)),
        )
    return topics


def _replica(found: Any) -> ReplicaInfo:
    return ReplicaInfo(
        id=found.replica_id,
        directory_id=getattr(found, "replica_directory_id", None) or NO_DIRECTORY,
        log_end_offset=found.log_end_offset,
        last_fetch_ms=getattr(found, "last_fetch_timestamp", -1),
        last_caught_up_ms=getattr(found, "last_caught_up_timestamp", -1),
    )


def node_of(id: int, found: Any) -> BrokerInfo:
    """The broker or controller of this id in an answer."""
    address = Address(found.host, found.port)
    return BrokerInfo(id=id, address=address, rack=getattr(found, "rack", None))


def _partition(found: Any) -> PartitionDescription:
    return PartitionDescription(
        partition=found.partition_index,
        leader=found.leader_id,
        leader_epoch=getattr(found, "leader_epoch", -1),
        replicas=found.replica_nodes,
        isr=found.isr_nodes,
        offline=getattr(found, "offline_replicas", ()),
    )

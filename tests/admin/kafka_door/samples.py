"""One sensible request for every API that a controller offers, in any of its versions."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from admin.kafka import envelopes
from admin.kafka.call import Call
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Request,
    VoteRequest,
)
from quorum.core.vocabulary import Epoch, LogEnd, Offset, ReplicaId, ReplicaKey
from quorum.wire.apis import ApiKey
from quorum.wire.raft_messages import METADATA_TOPIC, write_request
from tests.support.broker_requests import creation, registration
from tests.support.controllers import CLUSTER_ID
from tests.support.kafka_client import Form

TIMEOUT: Final = timedelta(seconds=20)
OBSERVER: Final = ReplicaKey(ReplicaId(900), UUID(int=0xE << 100))

RAFT: Final[Mapping[int, Request]] = MappingProxyType(
    {
        ApiKey.FETCH: FetchRequest(
            replica=OBSERVER,
            epoch=Epoch(1),
            log_end=LogEnd(Epoch(0), Offset(0)),
            max_wait_ms=0,
            max_bytes=1 << 20,
        ),
        ApiKey.VOTE: VoteRequest(
            epoch=Epoch(1), candidate=OBSERVER, log_end=LogEnd(Epoch(0), Offset(0))
        ),
        ApiKey.BEGIN_QUORUM_EPOCH: BeginQuorumEpochRequest(epoch=Epoch(1), leader=ReplicaId(900)),
        ApiKey.END_QUORUM_EPOCH: EndQuorumEpochRequest(
            epoch=Epoch(1), leader=ReplicaId(900), preferred_successors=(ReplicaId(1),)
        ),
    }
)


def alter_partition(form: Form) -> Any:
    wish = form.part(
        "PartitionData",
        partition_index=0,
        leader_epoch=0,
        partition_epoch=0,
        new_isr=(101, 102),
        new_isr_with_epochs=tuple(
            form.part("BrokerState", broker_id=each, broker_epoch=5) for each in (101, 102)
        )
        if form.version >= 3
        else (),
    )
    topic = form.part("TopicData", topic_id=UUID(int=77 << 64), partitions=(wish,))
    return form.request(broker_id=101, broker_epoch=5, topics=(topic,))


def metadata(form: Form) -> Any:
    topics = tuple(
        form.part("MetadataRequestTopic", name=name, topic_id=None) for name in ("t", "unknown")
    )
    return form.request(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def delete_topics(form: Form) -> Any:
    if form.version < 6:
        return form.request(topic_names=("unknown",), timeout=TIMEOUT)
    states = (
        form.part("DeleteTopicState", name="unknown", topic_id=None),
        form.part("DeleteTopicState", name=None, topic_id=UUID(int=78 << 64)),
    )
    return form.request(topics=states, timeout=TIMEOUT)


def elect_leaders(form: Form) -> Any:
    topic = form.part("TopicPartitions", topic="t", partitions=(0, 7))
    return form.request(election_type=0, topic_partitions=(topic,), timeout=TIMEOUT)


def alter_reassignments(form: Form, *moves: tuple[str, int, tuple[int, ...] | None]) -> Any:
    topics = tuple(
        form.part(
            "ReassignableTopic",
            name=name,
            partitions=(
                form.part("ReassignablePartition", partition_index=number, replicas=replicas),
            ),
        )
        for name, number, replicas in moves or (("unknown", 0, (101,)),)
    )
    return form.request(topics=topics, timeout=TIMEOUT)


def list_reassignments(form: Form) -> Any:
    return form.request(topics=None, timeout=TIMEOUT)


def describe_quorum(form: Form, topic: str = METADATA_TOPIC, partition: int = 0) -> Any:
    part = form.part("PartitionData", partition_index=partition)
    return form.request(topics=(form.part("TopicData", topic_name=topic, partitions=(part,)),))


def envelope(_form: Form) -> Any:
    inner = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    return wrapped(inner, list_reassignments(inner))


def wrapped(inner: Form, payload: Any, principal: str = "User:tester") -> Any:
    """The body of an envelope around a request, as another node writes it."""
    call = Call(
        api_key=ApiKey(inner.api_key),
        version=inner.version,
        client_id="asker",
        principal=principal,
        message=payload,
    )
    return envelopes.wrap(call, inner.body(payload), 77)


SAMPLES: Final[Mapping[int, Callable[[Form], Any]]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: lambda form: form.request(
            client_software_name="test", client_software_version="1"
        ),
        ApiKey.ENVELOPE: envelope,
        ApiKey.ALTER_PARTITION: alter_partition,
        ApiKey.BROKER_REGISTRATION: lambda form: registration(form, 101, CLUSTER_ID),
        ApiKey.BROKER_HEARTBEAT: lambda form: form.request(
            broker_id=101,
            broker_epoch=5,
            current_metadata_offset=3,
            want_fence=False,
            want_shut_down=False,
        ),
        ApiKey.ALLOCATE_PRODUCER_IDS: lambda form: form.request(broker_id=101, broker_epoch=5),
        ApiKey.METADATA: metadata,
        ApiKey.CREATE_TOPICS: lambda form: creation(form, f"new-{form.version}", (101, 102)),
        ApiKey.DELETE_TOPICS: delete_topics,
        ApiKey.ELECT_LEADERS: elect_leaders,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: list_reassignments,
        ApiKey.DESCRIBE_QUORUM: describe_quorum,
        ApiKey.DESCRIBE_CLUSTER: lambda form: form.request(
            include_cluster_authorized_operations=False, endpoint_type=2
        ),
        ApiKey.UNREGISTER_BROKER: lambda form: form.request(broker_id=900),
    }
)


def body_of(form: Form) -> bytes:
    """The bytes of the sample of this API and version."""
    if form.api_key in RAFT:
        request = RAFT[form.api_key]
        to = ReplicaKey(ReplicaId(1))
        return write_request(request, form.version, to=to, cluster_id=CLUSTER_ID)
    sample = SAMPLES[form.api_key](form)
    return sample if isinstance(sample, bytes) else form.body(sample)

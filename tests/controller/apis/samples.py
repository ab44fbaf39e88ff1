"""One valid request for every API that a controller offers, in any version."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.protocol import envelope
from quorum.protocol.apis import ApiKey
from quorum.protocol.envelope import Forwarded
from quorum.protocol.principal import KafkaPrincipal
from quorum.protocol.raft_messages import write_request
from quorum.protocol.raft_types import METADATA_TOPIC
from statemachine.features.features import RANGES
from statemachine.limits import METADATA_VERSION_MAX
from statemachine.vocabulary import METADATA_VERSION
from tests.support.broker_requests import creation, registration
from tests.support.controllers import CLUSTER_ID
from tests.support.kafka_client import Form

TIMEOUT: Final = timedelta(seconds=20)
NIL: Final = UUID(int=0)
OBSERVER: Final = ReplicaKey(ReplicaId(900), UUID(int=0xE << 100))

RAFT: Final[Mapping[int, Request]] = MappingProxyType(
    {
        ApiKey.FETCH: FetchRequest(
            replica=OBSERVER,
            epoch=Epoch(1),
            log_end=OffsetAndEpoch(Epoch(0), Offset(0)),
            max_wait_ms=0,
            max_bytes=1 << 20,
        ),
        ApiKey.FETCH_SNAPSHOT: FetchSnapshotRequest(
            replica=OBSERVER,
            epoch=Epoch(1),
            snapshot=OffsetAndEpoch(Epoch(1), Offset(1)),
            position=0,
            max_bytes=1 << 20,
        ),
        ApiKey.VOTE: VoteRequest(
            epoch=Epoch(1), candidate=OBSERVER, log_end=OffsetAndEpoch(Epoch(0), Offset(0))
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


def create_partitions(form: Form) -> Any:
    """More partitions for a topic: some placed, and for another one as they are given."""
    given = form.part("CreatePartitionsAssignment", broker_ids=(102, 101))
    topics = (
        form.part("CreatePartitionsTopic", name="t", count=4, assignments=None),
        form.part("CreatePartitionsTopic", name="u", count=2, assignments=(given,)),
    )
    return form.request(topics=topics, timeout=TIMEOUT, validate_only=False)


def assign_replicas_to_dirs(
    form: Form, *, broker_id: int = 101, broker_epoch: int = 5, topic_id: UUID = NIL
) -> Any:
    """Two replicas in one directory, one in another."""

    def directory(number: int, *partitions: int) -> Any:
        numbered = tuple(form.part("PartitionData", partition_index=each) for each in partitions)
        topic = form.part("TopicData", topic_id=topic_id, partitions=numbered)
        return form.part("DirectoryData", id_=UUID(int=0xD1 << 100 | number), topics=(topic,))

    return form.request(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=(directory(broker_id, 0, 7), directory(9, 1)),
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


def alter_configs(
    form: Form,
    *resources: tuple[int, str, dict[str, str | None]],
    operation: int = 0,
    validate_only: bool = False,
) -> Any:
    """Either kind of a change of configurations; the older one has no operations."""
    parts = tuple(
        form.part(
            "AlterConfigsResource",
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                form.part("AlterableConfig", name=key, value=value, config_operation=operation)
                for key, value in configs.items()
            ),
        )
        for kind, name, configs in resources or ((2, "unknown", {"retention.ms": "5"}),)
    )
    return form.request(resources=parts, validate_only=validate_only)


def describe_configs(
    form: Form, *resources: tuple[int, str], keys: tuple[str, ...] | None = None
) -> Any:
    parts = tuple(
        form.part(
            "DescribeConfigsResource",
            resource_type=kind,
            resource_name=name,
            configuration_keys=keys,
        )
        for kind, name in resources or ((2, "t"), (2, "unknown"), (4, ""), (8, "1"))
    )
    return form.request(resources=parts, include_synonyms=True, include_documentation=True)


def alter_quotas(
    form: Form,
    *entries: tuple[dict[str, str | None], dict[str, float | None]],
    validate_only: bool = False,
) -> Any:
    """The quotas of entities; None removes one."""
    return form.request(
        entries=tuple(
            form.part(
                "EntryData",
                entity=tuple(
                    form.part("EntityData", entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ),
                ops=tuple(
                    form.part("OpData", key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ),
            )
            for entity, quotas in entries or (({"user": "a"}, {"unknown": 1.5}),)
        ),
        validate_only=validate_only,
    )


def describe_quotas(form: Form, *filters: tuple[str, int, str | None], strict: bool = False) -> Any:
    components = tuple(
        form.part("ComponentData", entity_type=kind, match_type=match, match=name)
        for kind, match, name in filters
    )
    return form.request(components=components, strict=strict)


def create_acls(form: Form, *acls: Mapping[str, Any]) -> Any:
    """ACLs that allow a user to read a topic, unless it says otherwise."""
    known = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    parts = tuple(form.part("AclCreation", **{**known, **each}) for each in acls or ({},))
    return form.request(creations=parts)


ANY_ACL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
)


def delete_acls(form: Form, *filters: Mapping[str, Any]) -> Any:
    parts = filters or ({"resource_name_filter": "unknown"},)
    return form.request(
        filters=tuple(form.part("DeleteAclsFilter", **{**ANY_ACL, **each}) for each in parts)
    )


def alter_scram(
    form: Form,
    *upsertions: Mapping[str, Any],
    deletions: tuple[tuple[str, int], ...] = (),
) -> Any:
    known = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
    return form.request(
        deletions=tuple(
            form.part("ScramCredentialDeletion", name=name, mechanism=mechanism)
            for name, mechanism in deletions
        ),
        upsertions=tuple(
            form.part("ScramCredentialUpsertion", **{**known, **each})
            for each in upsertions or ({"name": "alice"},)
        ),
    )


def create_token(
    form: Form, *renewers: str, owner: str | None = None, lifetime_ms: int = -1
) -> Any:
    return form.request(
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=tuple(
            form.part("CreatableRenewers", principal_type="User", principal_name=each)
            for each in renewers
        ),
        max_lifetime=timedelta(milliseconds=lifetime_ms),
    )


def describe_quorum(form: Form, topic: str = METADATA_TOPIC, partition: int = 0) -> Any:
    part = form.part("PartitionData", partition_index=partition)
    return form.request(topics=(form.part("TopicData", topic_name=topic, partitions=(part,)),))


def controller_registration(
    form: Form, controller_id: int = 901, highest: int = METADATA_VERSION_MAX
) -> Any:
    """A controller that supports metadata.version up to a level, and all of the other features."""
    listener = form.part(
        "Listener", name="CONTROLLER", host="127.0.0.1", port=9093, security_protocol=0
    )
    features = (
        form.part(
            "Feature",
            name=each.name,
            min_supported_version=each.min_supported,
            max_supported_version=highest if each.name == METADATA_VERSION else each.max_supported,
        )
        for each in RANGES
    )
    return form.request(
        controller_id=controller_id,
        incarnation_id=UUID(int=0xC1 << 100 | abs(controller_id)),
        zk_migration_ready=False,
        listeners=(listener,),
        features=tuple(features),
    )


def update_features(form: Form, *updates: tuple[str, int, int], validate_only: bool = False) -> Any:
    """Each update is a feature, a level, and 1 for an upgrade, 2 and 3 for downgrades."""
    keys = tuple(
        form.part(
            "FeatureUpdateKey",
            feature=name,
            max_version_level=level,
            **({"allow_downgrade": upgrade > 1} if not form.version else {"upgrade_type": upgrade}),
        )
        for name, level, upgrade in updates or (("unknown.version", 1, 1),)
    )
    return form.request(feature_updates=keys, timeout=TIMEOUT, validate_only=validate_only)


TESTER: Final = KafkaPrincipal("User", "tester")


def enveloped(_form: Form) -> Any:
    inner = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    return wrapped(inner, list_reassignments(inner))


def wrapped(inner: Form, payload: Any, principal: KafkaPrincipal = TESTER) -> Any:
    """The body of an envelope around a request, as another node writes it."""
    forwarded = Forwarded(
        inner.api_key, inner.version, 77, "asker", principal, inner.body(payload), "127.0.0.1"
    )
    return envelope.wrap(forwarded, timeout_ms=20_000)


SAMPLES: Final[Mapping[int, Callable[[Form], Any]]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: lambda form: form.request(
            client_software_name="test", client_software_version="1"
        ),
        ApiKey.ENVELOPE: enveloped,
        ApiKey.DISCOVER_BROKERS: lambda form: form.request(
            replica_id=-1, boot_timestamp=-1, host="", port=-1
        ),
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
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs,
        ApiKey.CONTROLLER_REGISTRATION: controller_registration,
        ApiKey.ALTER_QUORUM: lambda form: form.request(
            cluster_id=None,
            timeout=TIMEOUT,
            target_voters=(form.part("TargetVoter", voter_id=1, voter_directory_id=None),),
        ),
        ApiKey.CAPABILITY: lambda form: form.request(
            timeout=TIMEOUT, name="brokers.list", body=b"\x80"
        ),
        ApiKey.ADD_RAFT_VOTER: lambda form: form.request(
            cluster_id=CLUSTER_ID,
            # All of it passes: this voter never registers.
            timeout=timedelta(milliseconds=50),
            voter_id=OBSERVER.id,
            voter_directory_id=OBSERVER.directory_id,
            listeners=(form.part("Listener", name="CONTROLLER", host="127.0.0.1", port=9),),
        ),
        ApiKey.REMOVE_RAFT_VOTER: lambda form: form.request(
            cluster_id=CLUSTER_ID,
            voter_id=OBSERVER.id,
            voter_directory_id=OBSERVER.directory_id,
        ),
        ApiKey.UPDATE_RAFT_VOTER: lambda form: form.request(
            cluster_id=CLUSTER_ID,
            current_leader_epoch=1,
            voter_id=OBSERVER.id,
            voter_directory_id=OBSERVER.directory_id,
            listeners=(form.part("Listener", name="CONTROLLER", host="127.0.0.1", port=9),),
            k_raft_version_feature=form.part(
                "KRaftVersionFeature", min_supported_version=0, max_supported_version=1
            ),
        ),
        ApiKey.UPDATE_FEATURES: update_features,
        ApiKey.METADATA: metadata,
        ApiKey.CREATE_TOPICS: lambda form: creation(form, f"new-{form.version}", (101, 102)),
        ApiKey.CREATE_PARTITIONS: create_partitions,
        ApiKey.DELETE_TOPICS: delete_topics,
        ApiKey.ELECT_LEADERS: elect_leaders,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: list_reassignments,
        ApiKey.DESCRIBE_CONFIGS: describe_configs,
        ApiKey.ALTER_CONFIGS: alter_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: alter_quotas,
        ApiKey.DESCRIBE_ACLS: lambda form: form.request(**ANY_ACL),
        ApiKey.CREATE_ACLS: create_acls,
        ApiKey.DELETE_ACLS: delete_acls,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda form: form.request(users=None),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_scram,
        ApiKey.CREATE_DELEGATION_TOKEN: lambda form: create_token(form, "bob"),
        ApiKey.RENEW_DELEGATION_TOKEN: lambda form: form.request(
            hmac=b"unknown", renew_period=timedelta(seconds=5)
        ),
        ApiKey.EXPIRE_DELEGATION_TOKEN: lambda form: form.request(
            hmac=b"unknown", expiry_time_period=timedelta(seconds=5)
        ),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda form: form.request(owners=None),
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

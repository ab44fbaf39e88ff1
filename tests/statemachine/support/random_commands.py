"""Commands that no correct client sends, but a wire or a person may."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from statemachine.commands import (
    AclCreation,
    AclFilter,
    AdvanceMoves,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterMove,
    AlterPartition,
    AlterReassignments,
    AlterUserScramCredentials,
    AssignReplicasToDirs,
    BeginMove,
    BrokerHeartbeat,
    CancelMoves,
    Command,
    ConfigChange,
    ConfigOp,
    CordonBrokers,
    CreateAcls,
    CreateDelegationToken,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DirectoryAssignment,
    ElectionType,
    ElectLeaders,
    ExpireDelegationToken,
    FeatureUpdate,
    FenceBrokers,
    ForgetDelegationTokens,
    ForgetMoves,
    FoundCluster,
    IdempotentCommand,
    IncrementalAlterConfigs,
    IsrMember,
    IsrProposal,
    KeyedCommand,
    MorePartitions,
    NewTopic,
    PauseMoves,
    QuotaChange,
    QuotaOp,
    Reassignment,
    RegisterBroker,
    RegisterController,
    RenewDelegationToken,
    RollBackMove,
    UnregisterBroker,
    UpdateFeatures,
    UpgradeType,
)
from statemachine.features.features import FEATURES as KNOWN_FEATURES
from statemachine.records import kafka_records
from statemachine.vocabulary import MoveKind
from tests.statemachine.support.world import CLUSTER_ID, directory, feature

TOPIC_IDS = st.integers(1, 3).map(lambda number: UUID(int=number << 80))
NAMES = st.sampled_from(["a", "b", "c"])
INTS = st.one_of(st.integers(-3, 8), st.integers(-(2**31), 2**31 - 1))
LONGS = st.one_of(st.integers(-2, 60), st.integers(-(2**63), 2**63 - 1))
TEXT = st.one_of(NAMES, st.text(max_size=8))
MANY_INTS = st.lists(INTS, max_size=5).map(tuple)
ANY_UUID = st.one_of(TOPIC_IDS, st.uuids())
A_DIRECTORY = st.one_of(
    st.sampled_from([UUID(int=n) for n in range(3)]), st.integers(1, 6).map(directory), st.uuids()
)
DIRECTORY_IDS = st.lists(A_DIRECTORY, max_size=3).map(tuple)
ENDPOINTS = st.lists(
    st.builds(
        kafka_records.Endpoint,
        name=TEXT,
        host=TEXT,
        port=st.integers(0, 2**16 - 1),
        security_protocol=st.integers(-5, 5),
    ),
    max_size=2,
).map(tuple)
FEATURES = st.lists(
    st.one_of(
        st.just(feature()),
        st.builds(
            kafka_records.FeatureRange,
            name=TEXT,
            min_supported=st.integers(-2, 9),
            max_supported=st.integers(-2, 40),
        ),
    ),
    max_size=2,
).map(tuple)
PROPOSALS = st.builds(
    IsrProposal,
    topic_id=ANY_UUID,
    partition=INTS,
    leader_epoch=INTS,
    partition_epoch=INTS,
    isr=st.lists(st.builds(IsrMember, INTS, LONGS), max_size=4).map(tuple),
    recovery=st.integers(-2, 3),
)
NEW_TOPICS = st.builds(
    NewTopic,
    name=TEXT,
    topic_id=ANY_UUID,
    partition_count=st.one_of(st.integers(-3, 4), st.just(2**31 - 1)),
    replication_factor=st.integers(-3, 9),
    assignments=st.lists(st.tuples(INTS, MANY_INTS), max_size=3).map(tuple),
    configs=st.lists(st.tuples(TEXT, st.one_of(st.none(), TEXT)), max_size=2).map(tuple),
)
MORE_PARTITIONS = st.builds(
    MorePartitions,
    name=TEXT,
    count=st.one_of(st.integers(-3, 6), st.just(2**31 - 1)),
    assignments=st.one_of(st.none(), st.lists(MANY_INTS, max_size=3).map(tuple)),
)
FEATURE_NAMES = st.one_of(TEXT, st.sampled_from(sorted(KNOWN_FEATURES)))
RESOURCES: dict[str, st.SearchStrategy[Any]] = {
    "resource_type": st.one_of(st.sampled_from([2, 4, 8, 16, 32]), st.integers(-128, 127)),
    "resource_name": st.one_of(TEXT, st.sampled_from(["", "1", "-1"])),
}
CONFIG_NAMES = st.one_of(
    TEXT,
    st.sampled_from(
        ["cleanup.policy", "min.insync.replicas", "match", "interval.ms", "listener.name.x.y"]
    ),
)
ENTITIES = st.lists(
    st.builds(
        kafka_records.QuotaEntity,
        type=st.one_of(TEXT, st.sampled_from(["user", "client-id", "ip"])),
        name=st.one_of(st.none(), TEXT),
    ),
    max_size=3,
).map(tuple)
PRINCIPALS = st.one_of(TEXT, st.sampled_from(["User:a", "User:*", "Group:g"]))
HOSTS = st.one_of(TEXT, st.just("*"))
KEYS = st.sampled_from([b"", b"key"])
RULES_OF_ACLS: dict[str, st.SearchStrategy[Any]] = {
    "resource_type": st.integers(-1, 9),
    "resource_name": st.one_of(TEXT, st.just("kafka-cluster")),
    "pattern_type": st.one_of(st.integers(3, 4), st.integers(-1, 5)),
    "operation": st.integers(-1, 17),
    "permission_type": st.one_of(st.integers(2, 3), st.integers(-1, 4)),
}
ASKED = st.lists(
    st.builds(
        Reassignment,
        topic=TEXT,
        partition=INTS,
        replicas=st.one_of(st.none(), MANY_INTS),
    ),
    max_size=3,
).map(tuple)
MOVE_IDS = st.one_of(st.none(), st.lists(LONGS, max_size=3).map(tuple))
KEYED_BY_KIND: dict[type, st.SearchStrategy[KeyedCommand]] = {
    AlterReassignments: st.builds(
        AlterReassignments,
        reassignments=ASKED,
        priority=INTS,
        dry_run=st.booleans(),
        throttle_bytes_per_s=LONGS,
    ),
    BeginMove: st.builds(
        BeginMove,
        reassignments=ASKED,
        kind=st.sampled_from(MoveKind),
        priority=INTS,
        broker=st.one_of(st.none(), INTS),
        throttle_bytes_per_s=LONGS,
    ),
    RollBackMove: st.builds(RollBackMove, move_id=LONGS),
    CancelMoves: st.builds(
        CancelMoves,
        partitions=st.lists(st.tuples(TEXT, INTS), max_size=3).map(tuple),
        topics=st.lists(TEXT, max_size=2).map(tuple),
        moves=st.lists(LONGS, max_size=2).map(tuple),
        everything=st.booleans(),
        dry_run=st.booleans(),
    ),
    PauseMoves: st.builds(PauseMoves, moves=MOVE_IDS, who=TEXT, paused=st.booleans()),
    AlterMove: st.builds(
        AlterMove,
        move_id=LONGS,
        priority=st.one_of(st.none(), INTS),
        throttle_bytes_per_s=st.one_of(st.none(), LONGS),
    ),
}
KEYED = st.one_of(*KEYED_BY_KIND.values())
GARBAGE_BY_KIND: dict[type, st.SearchStrategy[Command]] = {
    **KEYED_BY_KIND,
    IdempotentCommand: st.builds(
        IdempotentCommand,
        key=st.one_of(TEXT, st.just("x" * 300)),
        fingerprint=st.binary(max_size=70),
        command=KEYED,
    ),
    ForgetMoves: st.just(ForgetMoves()),
    IncrementalAlterConfigs: st.builds(
        IncrementalAlterConfigs,
        changes=st.lists(
            st.builds(
                ConfigChange,
                **RESOURCES,
                ops=st.lists(
                    st.builds(
                        ConfigOp,
                        name=CONFIG_NAMES,
                        operation=st.integers(-2, 5),
                        value=st.one_of(st.none(), TEXT),
                    ),
                    max_size=3,
                ).map(tuple),
                is_whole=st.booleans(),
            ),
            max_size=3,
        ).map(tuple),
        validate_only=st.booleans(),
    ),
    AlterClientQuotas: st.builds(
        AlterClientQuotas,
        changes=st.lists(
            st.builds(
                QuotaChange,
                entity=ENTITIES,
                ops=st.lists(
                    st.builds(
                        QuotaOp,
                        key=st.one_of(TEXT, st.just("producer_byte_rate")),
                        value=st.floats(),
                        remove=st.booleans(),
                    ),
                    max_size=3,
                ).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
        validate_only=st.booleans(),
    ),
    FoundCluster: st.builds(
        FoundCluster,
        metadata_version=INTS,
        features=st.lists(st.tuples(FEATURE_NAMES, INTS), max_size=2).map(tuple),
    ),
    UpdateFeatures: st.builds(
        UpdateFeatures,
        updates=st.lists(
            st.builds(
                FeatureUpdate,
                name=FEATURE_NAMES,
                level=st.one_of(st.integers(-1, 31), INTS),
                upgrade=st.sampled_from(UpgradeType),
            ),
            max_size=3,
        ).map(tuple),
        validate_only=st.booleans(),
        controller_id=INTS,
        voters=MANY_INTS,
        kraft_version=st.integers(0, 1),
    ),
    RegisterController: st.builds(
        RegisterController,
        controller_id=INTS,
        incarnation_id=st.uuids(),
        endpoints=ENDPOINTS,
        features=FEATURES,
    ),
    AllocateProducerIds: st.builds(AllocateProducerIds, broker_id=INTS, broker_epoch=LONGS),
    RegisterBroker: st.builds(
        RegisterBroker,
        broker_id=INTS,
        cluster_id=st.sampled_from([CLUSTER_ID, ""]),
        our_cluster_id=st.just(CLUSTER_ID),
        incarnation_id=st.uuids(),
        endpoints=ENDPOINTS,
        features=FEATURES,
        rack=st.one_of(st.none(), TEXT),
        log_dirs=DIRECTORY_IDS,
        previous_epoch=st.one_of(st.none(), LONGS),
        kraft_version=INTS,
    ),
    BrokerHeartbeat: st.builds(
        BrokerHeartbeat,
        broker_id=INTS,
        broker_epoch=LONGS,
        metadata_offset=LONGS,
        want_fence=st.booleans(),
        want_shut_down=st.booleans(),
        offline_log_dirs=DIRECTORY_IDS,
        lowest_live_offset=st.one_of(st.none(), LONGS),
    ),
    FenceBrokers: st.builds(FenceBrokers, broker_ids=MANY_INTS),
    UnregisterBroker: st.builds(UnregisterBroker, broker_id=INTS),
    CordonBrokers: st.builds(
        CordonBrokers, broker_ids=MANY_INTS, cordoned=st.booleans(), unregister=st.booleans()
    ),
    AssignReplicasToDirs: st.builds(
        AssignReplicasToDirs,
        broker_id=INTS,
        broker_epoch=LONGS,
        assignments=st.lists(
            st.builds(
                DirectoryAssignment, directory_id=A_DIRECTORY, topic_id=ANY_UUID, partition=INTS
            ),
            max_size=3,
        ).map(tuple),
    ),
    CreateTopics: st.builds(
        CreateTopics,
        topics=st.lists(NEW_TOPICS, max_size=3).map(tuple),
        validate_only=st.booleans(),
        default_partition_count=INTS.filter(lambda count: count < 100),
        default_replication_factor=INTS,
    ),
    CreatePartitions: st.builds(
        CreatePartitions,
        topics=st.lists(MORE_PARTITIONS, max_size=3).map(tuple),
        validate_only=st.booleans(),
    ),
    DeleteTopics: st.builds(
        DeleteTopics, topics=st.lists(st.one_of(TEXT, ANY_UUID), max_size=3).map(tuple)
    ),
    AlterPartition: st.builds(
        AlterPartition,
        broker_id=INTS,
        broker_epoch=LONGS,
        proposals=st.lists(PROPOSALS, max_size=3).map(tuple),
    ),
    AdvanceMoves: st.builds(AdvanceMoves),
    ElectLeaders: st.builds(
        ElectLeaders,
        election=st.sampled_from(ElectionType),
        partitions=st.one_of(st.none(), st.lists(st.tuples(TEXT, INTS), max_size=3).map(tuple)),
    ),
    CreateAcls: st.builds(
        CreateAcls,
        creations=st.lists(
            st.builds(AclCreation, id=TOPIC_IDS, **RULES_OF_ACLS, principal=PRINCIPALS, host=HOSTS),
            max_size=4,
        ).map(tuple),
    ),
    DeleteAcls: st.builds(
        DeleteAcls,
        filters=st.lists(
            st.builds(
                AclFilter,
                **{**RULES_OF_ACLS, "resource_name": st.one_of(st.none(), TEXT)},
                principal=st.one_of(st.none(), PRINCIPALS),
                host=st.one_of(st.none(), HOSTS),
            ),
            max_size=3,
        ).map(tuple),
    ),
    AlterUserScramCredentials: st.builds(
        AlterUserScramCredentials,
        deletions=st.lists(
            st.builds(
                kafka_records.RemoveUserScramCredential, name=TEXT, mechanism=st.integers(-1, 3)
            ),
            max_size=2,
        ).map(tuple),
        upsertions=st.lists(
            st.builds(
                kafka_records.UserScramCredential,
                name=TEXT,
                mechanism=st.integers(-1, 3),
                salt=KEYS,
                stored_key=KEYS,
                server_key=KEYS,
                iterations=st.one_of(st.just(4_096), INTS),
            ),
            max_size=3,
        ).map(tuple),
    ),
    CreateDelegationToken: st.builds(
        CreateDelegationToken,
        token_id=TEXT,
        owner=PRINCIPALS,
        requester=PRINCIPALS,
        renewers=st.lists(PRINCIPALS, max_size=2).map(tuple),
        max_lifetime_ms=LONGS,
        default_max_lifetime_ms=st.integers(1, 2**63 - 1),
        default_renew_period_ms=st.integers(1, 2**63 - 1),
    ),
    RenewDelegationToken: st.builds(
        RenewDelegationToken,
        token_id=st.one_of(st.none(), TEXT),
        requester=PRINCIPALS,
        renew_period_ms=LONGS,
        default_renew_period_ms=st.integers(1, 2**63 - 1),
    ),
    ExpireDelegationToken: st.builds(
        ExpireDelegationToken,
        token_id=st.one_of(st.none(), TEXT),
        requester=PRINCIPALS,
        expiry_period_ms=LONGS,
    ),
    ForgetDelegationTokens: st.just(ForgetDelegationTokens()),
}
"""A strategy for invalid values of each command."""

GARBAGE = st.one_of(*GARBAGE_BY_KIND.values())

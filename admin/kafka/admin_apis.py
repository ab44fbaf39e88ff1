"""The table of the capabilities that any client may ask of any controller."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from admin.kafka import (
    care_calls,
    cluster_calls,
    config_calls,
    feature_calls,
    move_calls,
    plan_calls,
    quorum_calls,
    quota_calls,
    reassignment_calls,
    topic_calls,
    transfer_calls,
    voter_calls,
)
from admin.kafka.call import AdminApi
from quorum.wire.apis import ApiKey, VersionRange

APIS: Final[Mapping[ApiKey, AdminApi]] = MappingProxyType(
    {
        ApiKey.METADATA: AdminApi(
            versions=VersionRange(0, 13),
            handle=cluster_calls.metadata,
            refuse=cluster_calls.refuse_metadata,
            anywhere=True,
            reads=True,
        ),
        ApiKey.CREATE_TOPICS: AdminApi(
            versions=VersionRange(2, 7),
            handle=topic_calls.create_topics,
            refuse=topic_calls.refuse_create,
        ),
        ApiKey.CREATE_PARTITIONS: AdminApi(
            versions=VersionRange(0, 3),
            handle=topic_calls.create_partitions,
            refuse=topic_calls.refuse_partitions,
        ),
        ApiKey.DELETE_TOPICS: AdminApi(
            versions=VersionRange(1, 6),
            handle=topic_calls.delete_topics,
            refuse=topic_calls.refuse_delete,
        ),
        ApiKey.ELECT_LEADERS: AdminApi(
            versions=VersionRange(0, 2),
            handle=reassignment_calls.elect_leaders,
            refuse=reassignment_calls.refuse_elect,
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: AdminApi(
            versions=VersionRange(0, 1),
            handle=reassignment_calls.alter_reassignments,
            refuse=reassignment_calls.refuse_alter,
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: AdminApi(
            versions=VersionRange(0, 0),
            handle=reassignment_calls.list_reassignments,
            refuse=reassignment_calls.refuse_list,
            reads=True,
        ),
        ApiKey.DESCRIBE_CONFIGS: AdminApi(
            versions=VersionRange(1, 4),
            handle=config_calls.describe_configs,
            refuse=config_calls.refuse_describe,
            reads=True,
        ),
        ApiKey.ALTER_CONFIGS: AdminApi(
            versions=VersionRange(0, 2),
            handle=config_calls.alter,
            refuse=config_calls.refuse_alter,
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: AdminApi(
            versions=VersionRange(0, 1),
            handle=config_calls.incremental_alter,
            refuse=config_calls.refuse_alter,
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: AdminApi(
            versions=VersionRange(0, 1),
            handle=quota_calls.describe_quotas,
            refuse=quota_calls.refuse_describe,
            reads=True,
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: AdminApi(
            versions=VersionRange(0, 1),
            handle=quota_calls.alter_quotas,
            refuse=quota_calls.refuse_alter,
        ),
        ApiKey.DESCRIBE_QUORUM: AdminApi(
            versions=VersionRange(0, 2),
            handle=quorum_calls.describe_quorum,
            refuse=quorum_calls.refuse_describe,
            reads=True,
            asks_who_leads=True,
        ),
        ApiKey.ALTER_QUORUM: AdminApi(
            versions=VersionRange(0, 0),
            handle=voter_calls.alter_quorum,
            refuse=voter_calls.refuse,
        ),
        ApiKey.TRANSFER_LEADERSHIP: AdminApi(
            versions=VersionRange(0, 0),
            handle=transfer_calls.transfer_leadership,
            refuse=transfer_calls.refuse,
        ),
        ApiKey.ALTER_MOVES: AdminApi(
            versions=VersionRange(0, 0),
            handle=move_calls.alter_moves,
            refuse=move_calls.refuse_alter,
        ),
        ApiKey.DESCRIBE_MOVES: AdminApi(
            versions=VersionRange(0, 0),
            handle=move_calls.describe_moves,
            refuse=move_calls.refuse_describe,
            reads=True,
        ),
        ApiKey.PLAN_MOVES: AdminApi(
            versions=VersionRange(0, 0),
            handle=plan_calls.plan_moves,
            refuse=plan_calls.refuse_plan,
        ),
        ApiKey.DESCRIBE_MOVE_PLAN: AdminApi(
            versions=VersionRange(0, 0),
            handle=move_calls.describe_plan,
            refuse=move_calls.refuse_plan,
            reads=True,
        ),
        ApiKey.ALTER_BROKERS: AdminApi(
            versions=VersionRange(0, 0),
            handle=care_calls.alter_brokers,
            refuse=care_calls.refuse_brokers,
        ),
        ApiKey.SAFE_TO_STOP: AdminApi(
            versions=VersionRange(0, 0),
            handle=care_calls.safe_to_stop,
            refuse=care_calls.refuse_safety,
            reads=True,
        ),
        ApiKey.DESCRIBE_BROKERS: AdminApi(
            versions=VersionRange(0, 0),
            handle=care_calls.describe_brokers,
            refuse=care_calls.refuse_brokers,
            reads=True,
        ),
        ApiKey.ADD_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=voter_calls.add_voter,
            refuse=voter_calls.refuse,
        ),
        ApiKey.REMOVE_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=voter_calls.remove_voter,
            refuse=voter_calls.refuse,
        ),
        ApiKey.UPDATE_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=voter_calls.update_voter,
            refuse=voter_calls.refuse_update,
        ),
        ApiKey.UPDATE_FEATURES: AdminApi(
            versions=VersionRange(0, 2),
            handle=feature_calls.update_features,
            refuse=feature_calls.refuse_update,
        ),
        ApiKey.DESCRIBE_CLUSTER: AdminApi(
            versions=VersionRange(0, 1),
            handle=cluster_calls.describe_cluster,
            refuse=cluster_calls.refuse_cluster,
            anywhere=True,
            reads=True,
        ),
        ApiKey.UNREGISTER_BROKER: AdminApi(
            versions=VersionRange(0, 0),
            handle=cluster_calls.unregister_broker,
            refuse=cluster_calls.refuse_unregister,
        ),
    }
)

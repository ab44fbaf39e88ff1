"""The table of the capabilities that any client may ask of any controller."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controller.apis import (
    capability,
    cluster,
    configs,
    features,
    quorum,
    quotas,
    reassignments,
    topics,
    voters,
)
from controller.apis.request import AdminApi
from quorum.protocol.apis import ApiKey, VersionRange

APIS: Final[Mapping[int, AdminApi]] = MappingProxyType(
    {
        ApiKey.METADATA: AdminApi(
            versions=VersionRange(0, 13),
            handle=cluster.metadata,
            refuse=cluster.refuse_metadata,
            anywhere=True,
            reads=True,
        ),
        ApiKey.CREATE_TOPICS: AdminApi(
            versions=VersionRange(2, 7),
            handle=topics.create_topics,
            refuse=topics.refuse_create,
        ),
        ApiKey.CREATE_PARTITIONS: AdminApi(
            versions=VersionRange(0, 3),
            handle=topics.create_partitions,
            refuse=topics.refuse_partitions,
        ),
        ApiKey.DELETE_TOPICS: AdminApi(
            versions=VersionRange(1, 6),
            handle=topics.delete_topics,
            refuse=topics.refuse_delete,
        ),
        ApiKey.ELECT_LEADERS: AdminApi(
            versions=VersionRange(0, 2),
            handle=reassignments.elect_leaders,
            refuse=reassignments.refuse_elect,
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: AdminApi(
            versions=VersionRange(0, 1),
            handle=reassignments.alter_reassignments,
            refuse=reassignments.refuse_alter,
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: AdminApi(
            versions=VersionRange(0, 0),
            handle=reassignments.list_reassignments,
            refuse=reassignments.refuse_list,
            reads=True,
        ),
        ApiKey.DESCRIBE_CONFIGS: AdminApi(
            versions=VersionRange(1, 4),
            handle=configs.describe_configs,
            refuse=configs.refuse_describe,
            reads=True,
        ),
        ApiKey.ALTER_CONFIGS: AdminApi(
            versions=VersionRange(0, 2),
            handle=configs.alter,
            refuse=configs.refuse_alter,
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: AdminApi(
            versions=VersionRange(0, 1),
            handle=configs.incremental_alter,
            refuse=configs.refuse_alter,
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: AdminApi(
            versions=VersionRange(0, 1),
            handle=quotas.describe_client_quotas,
            refuse=quotas.refuse_describe,
            reads=True,
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: AdminApi(
            versions=VersionRange(0, 1),
            handle=quotas.alter_quotas,
            refuse=quotas.refuse_alter,
        ),
        ApiKey.DESCRIBE_QUORUM: AdminApi(
            versions=VersionRange(0, 2),
            handle=quorum.describe_quorum,
            refuse=quorum.refuse_describe,
            reads=True,
            asks_who_leads=True,
        ),
        ApiKey.ALTER_QUORUM: AdminApi(
            versions=VersionRange(0, 0),
            handle=voters.alter_quorum,
            refuse=voters.refuse,
        ),
        ApiKey.CAPABILITY: AdminApi(
            versions=VersionRange(0, 0),
            handle=capability.handle,
            refuse=capability.refuse,
            reads=True,
        ),
        ApiKey.ADD_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=voters.add_voter,
            refuse=voters.refuse,
        ),
        ApiKey.REMOVE_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=voters.remove_voter,
            refuse=voters.refuse,
        ),
        ApiKey.UPDATE_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=voters.update_voter,
            refuse=voters.refuse_update,
        ),
        ApiKey.UPDATE_FEATURES: AdminApi(
            versions=VersionRange(0, 2),
            handle=features.update_features,
            refuse=features.refuse_update,
        ),
        ApiKey.DESCRIBE_CLUSTER: AdminApi(
            versions=VersionRange(0, 1),
            handle=cluster.describe_cluster,
            refuse=cluster.refuse_cluster,
            anywhere=True,
            reads=True,
        ),
        ApiKey.UNREGISTER_BROKER: AdminApi(
            versions=VersionRange(0, 0),
            handle=cluster.unregister_broker,
            refuse=cluster.refuse_unregister,
        ),
    }
)

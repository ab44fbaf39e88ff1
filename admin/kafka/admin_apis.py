"""The table of the capabilities that any client may ask of any controller."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from admin.kafka import cluster_calls, quorum_calls, reassignment_calls, topic_calls
from admin.kafka.call import AdminApi
from quorum.wire.apis import ApiKey, VersionRange

APIS: Final[Mapping[ApiKey, AdminApi]] = MappingProxyType(
    {
        ApiKey.METADATA: AdminApi(
            versions=VersionRange(0, 13),
            handle=cluster_calls.metadata,
            refuse=cluster_calls.refuse_metadata,
            anywhere=True,
        ),
        ApiKey.CREATE_TOPICS: AdminApi(
            versions=VersionRange(2, 7),
            handle=topic_calls.create_topics,
            refuse=topic_calls.refuse_create,
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
        ),
        ApiKey.DESCRIBE_QUORUM: AdminApi(
            versions=VersionRange(0, 2),
            handle=quorum_calls.describe_quorum,
            refuse=quorum_calls.refuse_describe,
        ),
        ApiKey.DESCRIBE_CLUSTER: AdminApi(
            versions=VersionRange(0, 1),
            handle=cluster_calls.describe_cluster,
            refuse=cluster_calls.refuse_cluster,
            anywhere=True,
        ),
        ApiKey.UNREGISTER_BROKER: AdminApi(
            versions=VersionRange(0, 0),
            handle=cluster_calls.unregister_broker,
            refuse=cluster_calls.refuse_unregister,
        ),
    }
)

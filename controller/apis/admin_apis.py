"""The table of the APIs for admin clients, which any controller takes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from controller.apis import cluster, configs, quorum, reassignments, topics
from controller.apis.request import AdminApi, KafkaRequest, code
from controller.service import Service
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.errors import RequestRefused


async def carry_out_capability(request: KafkaRequest, service: Service) -> Any:
    """Hand our one private request (20010) to its handler."""
    message = request.message
    try:
        body = await service.capability_handler(
            service,
            message.name,
            message.body,
            who=request.principal,
            stale=message.stale,
            timeout_ms=request.timeout_ms,
        )
    except RequestRefused as refused:
        # The client says itself what failed; only the reason travels.
        return refuse_capability(request, refused.code, refused.reason)
    return request.respond(error_code=code(0), error_message=None, body=body)


def refuse_capability(request: KafkaRequest, error: int, message: str) -> Any:
    return request.respond(error_code=code(error), error_message=message or None)


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
            refuse=configs.refuse_describe_configs,
            reads=True,
        ),
        ApiKey.ALTER_CONFIGS: AdminApi(
            versions=VersionRange(0, 2),
            handle=configs.alter_configs,
            refuse=configs.refuse_alter_configs,
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: AdminApi(
            versions=VersionRange(0, 1),
            handle=configs.incremental_alter_configs,
            refuse=configs.refuse_alter_configs,
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: AdminApi(
            versions=VersionRange(0, 1),
            handle=configs.describe_client_quotas,
            refuse=configs.refuse_describe_quotas,
            reads=True,
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: AdminApi(
            versions=VersionRange(0, 1),
            handle=configs.alter_quotas,
            refuse=configs.refuse_alter_quotas,
        ),
        ApiKey.DESCRIBE_QUORUM: AdminApi(
            versions=VersionRange(0, 2),
            handle=quorum.describe_quorum,
            refuse=quorum.refuse_describe_quorum,
            reads=True,
            asks_who_leads=True,
        ),
        ApiKey.ALTER_QUORUM: AdminApi(
            versions=VersionRange(0, 0),
            handle=quorum.alter_quorum,
            refuse=quorum.refuse_voters,
        ),
        ApiKey.CAPABILITY: AdminApi(
            versions=VersionRange(0, 0),
            handle=carry_out_capability,
            refuse=refuse_capability,
            reads=True,
        ),
        ApiKey.ADD_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=quorum.add_voter,
            refuse=quorum.refuse_voters,
        ),
        ApiKey.REMOVE_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=quorum.remove_voter,
            refuse=quorum.refuse_voters,
        ),
        ApiKey.UPDATE_RAFT_VOTER: AdminApi(
            versions=VersionRange(0, 0),
            handle=quorum.update_voter,
            refuse=quorum.refuse_update_voter,
        ),
        ApiKey.UPDATE_FEATURES: AdminApi(
            versions=VersionRange(0, 2),
            handle=configs.update_features,
            refuse=configs.refuse_update_features,
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

"""The table of the APIs for admin clients, which any controller takes."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from controller.apis import cluster, configs, quorum, reassignments, topics
from controller.apis.request import KafkaRequest, error_fields, refuse
from controller.service import Service
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.errors import RequestRefused


@dataclass(frozen=True, slots=True)
class AdminApi:
    """An API for clients: any node takes it and waits, for a bounded time, for a leader."""

    versions: VersionRange
    handle: Callable[[KafkaRequest, Service], Awaitable[Any]]
    """Returns kio's response or its bytes, either of them perhaps `AsOf` an offset."""
    refuse: Callable[[KafkaRequest, int, str], Any] = refuse
    """Builds the response with this error code and message wherever the API has them."""
    anywhere: bool = False
    """True if every node answers by itself, unless the client asks for more."""
    reads: bool = False
    """True if it only reads, so that any node may give a stale answer."""
    asks_who_leads: bool = False
    """True if "nobody leads" is an answer, once that is more than a short election."""

    def answers_here(self, request: KafkaRequest) -> bool:
        """Return True if a node that is not the active controller answers by itself."""
        if request.stale:
            return self.reads
        return self.anywhere and request.consistency is None


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
        return refuse(request, refused.code, refused.reason)
    return request.respond(**error_fields(0, "", body=body))


APIS: Final[Mapping[int, AdminApi]] = MappingProxyType(
    {
        ApiKey.METADATA: AdminApi(VersionRange(0, 13), cluster.metadata, anywhere=True, reads=True),
        ApiKey.CREATE_TOPICS: AdminApi(
            VersionRange(2, 7), topics.create_topics, topics.refuse_create
        ),
        ApiKey.CREATE_PARTITIONS: AdminApi(
            VersionRange(0, 3), topics.create_partitions, topics.refuse_partitions
        ),
        ApiKey.DELETE_TOPICS: AdminApi(
            VersionRange(1, 6), topics.delete_topics, topics.refuse_delete
        ),
        ApiKey.ELECT_LEADERS: AdminApi(
            VersionRange(0, 2), reassignments.elect_leaders, reassignments.refuse_elect
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: AdminApi(
            VersionRange(0, 1), reassignments.alter_reassignments
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: AdminApi(
            VersionRange(0, 0), reassignments.list_reassignments, reads=True
        ),
        ApiKey.DESCRIBE_CONFIGS: AdminApi(
            VersionRange(1, 4),
            configs.describe_configs,
            configs.refuse_describe_configs,
            reads=True,
        ),
        ApiKey.ALTER_CONFIGS: AdminApi(
            VersionRange(0, 2), configs.alter_configs, configs.refuse_alter_configs
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: AdminApi(
            VersionRange(0, 1), configs.incremental_alter_configs, configs.refuse_alter_configs
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: AdminApi(
            VersionRange(0, 1), configs.describe_client_quotas, reads=True
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: AdminApi(
            VersionRange(0, 1), configs.alter_quotas, configs.refuse_alter_quotas
        ),
        ApiKey.DESCRIBE_QUORUM: AdminApi(
            VersionRange(0, 2), quorum.describe_quorum, reads=True, asks_who_leads=True
        ),
        ApiKey.ALTER_QUORUM: AdminApi(VersionRange(0, 0), quorum.alter_quorum),
        ApiKey.CAPABILITY: AdminApi(VersionRange(0, 0), carry_out_capability, reads=True),
        ApiKey.ADD_RAFT_VOTER: AdminApi(VersionRange(0, 0), quorum.add_voter),
        ApiKey.REMOVE_RAFT_VOTER: AdminApi(VersionRange(0, 0), quorum.remove_voter),
        ApiKey.UPDATE_RAFT_VOTER: AdminApi(
            VersionRange(0, 0), quorum.update_voter, quorum.refuse_update_voter
        ),
        ApiKey.UPDATE_FEATURES: AdminApi(
            VersionRange(0, 2), configs.update_features, configs.refuse_update_features
        ),
        ApiKey.DESCRIBE_CLUSTER: AdminApi(
            VersionRange(0, 1), cluster.describe_cluster, anywhere=True, reads=True
        ),
        ApiKey.UNREGISTER_BROKER: AdminApi(VersionRange(0, 0), cluster.unregister_broker),
    }
)

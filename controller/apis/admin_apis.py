"""The table of the APIs for admin clients, which any controller takes."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from controller.apis import cluster, configs, quorum, reassignments, security, topics
from controller.apis.request import KafkaRequest, refuse
from controller.audited_actions import wanted
from controller.service import Service
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import RequestRefused
from quorum.protocol.refusals import error_fields
from quorum.transport.audit_log import ACTIONS_MAX
from statemachine.commands import Command


@dataclass(frozen=True, slots=True)
class AdminApi:
    """An API for clients: any node takes it and waits, for a bounded time, for a leader."""

    handle: Callable[[KafkaRequest, Service], Awaitable[Any]]
    """Returns kio's response or its bytes, either of them perhaps `AsOf` an offset."""
    anywhere: bool = False
    """True if every node answers by itself, unless the client asks for more."""
    reads: bool = False
    """True if it only reads, so that any node may give a stale answer."""
    asks_who_leads: bool = False
    """True if "nobody leads" is an answer, once that is more than a short election."""
    is_local: Callable[[KafkaRequest], bool] = lambda request: False
    """Returns True for a request about this node alone."""

    command: Callable[[Any, int | None], Command] | None = None
    """Returns the command of a message, or of its first parts, if what is refused has a detail."""

    def wanted(self, message: Any, resource: str) -> str:
        """Return what a request wants of a resource, for a line about its refusal."""
        return "" if self.command is None else wanted(self.command(message, ACTIONS_MAX), resource)

    def answers_here(self, request: KafkaRequest) -> bool:
        """Return True if a node that is not the active controller answers by itself."""
        if self.is_local(request):
            return True
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
            requester=request.requester,
            principal=request.principal,
            client_id=request.client_id or "",
            stale=message.stale,
            timeout_ms=request.timeout_ms,
        )
    except RequestRefused as refused:
        # The client says itself what failed; only the reason travels.
        throttle_time = timedelta(milliseconds=refused.throttle_ms)
        return refuse(request, refused.code, refused.reason, throttle_time=throttle_time)
    return request.respond(**error_fields(0, "", body=body))


APIS: Final[Mapping[int, AdminApi]] = MappingProxyType(
    {
        ApiKey.METADATA: AdminApi(cluster.metadata, anywhere=True, reads=True),
        ApiKey.CREATE_TOPICS: AdminApi(topics.create_topics),
        ApiKey.CREATE_PARTITIONS: AdminApi(topics.create_partitions),
        ApiKey.DELETE_TOPICS: AdminApi(topics.delete_topics),
        ApiKey.ELECT_LEADERS: AdminApi(reassignments.elect_leaders),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: AdminApi(reassignments.alter_reassignments),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: AdminApi(reassignments.list_reassignments, reads=True),
        ApiKey.DESCRIBE_CONFIGS: AdminApi(
            configs.describe_configs, reads=True, is_local=configs.is_about_loggers
        ),
        ApiKey.ALTER_CONFIGS: AdminApi(configs.alter_configs),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: AdminApi(
            configs.alter_configs, is_local=configs.is_about_loggers
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: AdminApi(configs.describe_client_quotas, reads=True),
        ApiKey.ALTER_CLIENT_QUOTAS: AdminApi(configs.alter_quotas, command=configs.quota_changes),
        ApiKey.DESCRIBE_ACLS: AdminApi(security.describe_acls, reads=True),
        ApiKey.CREATE_ACLS: AdminApi(security.create_acls, command=security.acls_to_create),
        ApiKey.DELETE_ACLS: AdminApi(security.delete_acls, command=security.acls_to_delete),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: AdminApi(
            security.describe_scram_credentials, reads=True
        ),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AdminApi(
            security.alter_scram_credentials, command=security.scram_changes
        ),
        ApiKey.CREATE_DELEGATION_TOKEN: AdminApi(security.create_token),
        ApiKey.RENEW_DELEGATION_TOKEN: AdminApi(security.renew_token),
        ApiKey.EXPIRE_DELEGATION_TOKEN: AdminApi(security.expire_token),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: AdminApi(security.describe_tokens, reads=True),
        ApiKey.DESCRIBE_QUORUM: AdminApi(quorum.describe_quorum, reads=True, asks_who_leads=True),
        ApiKey.ALTER_QUORUM: AdminApi(quorum.alter_quorum),
        ApiKey.CAPABILITY: AdminApi(carry_out_capability, reads=True),
        ApiKey.ADD_RAFT_VOTER: AdminApi(quorum.add_voter),
        ApiKey.REMOVE_RAFT_VOTER: AdminApi(quorum.remove_voter),
        ApiKey.UPDATE_RAFT_VOTER: AdminApi(quorum.update_voter),
        ApiKey.UPDATE_FEATURES: AdminApi(configs.update_features),
        ApiKey.DESCRIBE_CLUSTER: AdminApi(cluster.describe_cluster, anywhere=True, reads=True),
        ApiKey.UNREGISTER_BROKER: AdminApi(cluster.unregister_broker),
    }
)

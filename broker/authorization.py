"""The rights that each API of a broker's listener needs, as in Kafka's `KafkaApis`.

A forwarded request needs nothing here: the controller authorizes it for the client that sent it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from quorum.clocks import wall_ms
from quorum.protocol.apis import ApiKey
from quorum.transport.audit_log import AuditLog, Requester, requester_of
from quorum.transport.inbound import InboundRequest
from statemachine.image.image import Image
from statemachine.security.authorization import Authorization, AuthorizerConfig
from statemachine.security.rights import (
    CLUSTER_ACTION,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    DESCRIBE_TRANSACTION,
    IDEMPOTENT_WRITE,
    NOTHING,
    READ_TOPIC,
    UNLIMITED,
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    Access,
    Needs,
)

NEEDS: Final[Mapping[int, Needs]] = MappingProxyType(
    {
        ApiKey.PRODUCE: Needs(
            parts=(
                (WRITE_TOPIC, "for each topic"),
                (WRITE_TRANSACTION, "in a transaction"),
            )
        ),
        ApiKey.FETCH: Needs(
            parts=((READ_TOPIC, "for each topic"), (CLUSTER_ACTION, "instead, for a follower"))
        ),
        ApiKey.LIST_OFFSETS: Needs(parts=((DESCRIBE_TOPIC, "for each topic"),)),
        ApiKey.METADATA: Needs(parts=((DESCRIBE_TOPIC, "for each topic"),)),
        ApiKey.FIND_COORDINATOR: Needs(
            parts=((DESCRIBE_GROUP, "for a group"), (DESCRIBE_TRANSACTION, "for a transaction"))
        ),
        ApiKey.API_VERSIONS: NOTHING,
        ApiKey.INIT_PRODUCER_ID: Needs(
            parts=(
                (IDEMPOTENT_WRITE, "or"),
                (WRITE_TOPIC, "for any topic"),
                (WRITE_TRANSACTION, "instead, for a transaction"),
            )
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Needs(
            parts=((CLUSTER_ACTION, "for all topics, or"), (DESCRIBE_TOPIC, "for each one"))
        ),
        ApiKey.DESCRIBE_CONFIGS: Needs(
            parts=(
                (DESCRIBE_TOPIC_CONFIGS, "for a topic"),
                (DESCRIBE_GROUP_CONFIGS, "for a group"),
                (DESCRIBE_CLUSTER_CONFIGS, "for anything else"),
            )
        ),
        ApiKey.DESCRIBE_LOG_DIRS: Needs(DESCRIBE_CLUSTER),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: Needs(DESCRIBE_CLUSTER_CONFIGS),
        ApiKey.DESCRIBE_CLUSTER: NOTHING,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Needs(parts=((DESCRIBE_TOPIC, "for each topic"),)),
        ApiKey.DISCOVER_BROKERS: Needs(CLUSTER_ACTION),
    }
)
"""The rights that each API needs which a broker answers itself."""


class BrokerRights:
    """The rights of the clients of one broker."""

    def __init__(self, authorization: Authorization[Requester] | None = None) -> None:
        """Without `authorization` everybody may do everything."""
        self._authorization = authorization

    def access(self, request: InboundRequest) -> Access:
        """Return the rights of the sender."""
        if self._authorization is None:
            return UNLIMITED
        return self._authorization.access(requester_of(request))

    def access_of(self, requester: Requester) -> Access:
        """Return the rights of a requester that is not at a Kafka listener."""
        return UNLIMITED if self._authorization is None else self._authorization.access(requester)

    def may_act(self, request: InboundRequest) -> bool:
        """Return True if the sender has CLUSTER_ACTION: if it is a node."""
        if self._authorization is None:
            return True
        refusing = self._authorization.may_act(
            request.connection_id, request.principal, lambda: requester_of(request)
        )
        return refusing is None

    def refusal(self, request: InboundRequest) -> tuple[int, str] | None:
        """Return the error and message for a request that is not allowed as a whole, or None."""
        needs = NEEDS.get(request.api_key)
        if self._authorization is None or needs is None or needs.whole is None:
            return None
        if needs.whole is CLUSTER_ACTION:
            is_allowed = self.may_act(request)
        else:
            is_allowed = self.access(request).may(needs.whole)
        if is_allowed:
            return None
        return needs.whole.error.code, self.access(request).refusal(needs.whole)


OPEN: Final = BrokerRights()
"""Everybody may do everything."""


def broker_rights(
    config: AuthorizerConfig | None, image: Image, is_ready: Callable[[], bool]
) -> BrokerRights:
    """Return the rights at a broker whose image is complete once `is_ready`."""
    if config is None:
        return OPEN
    authorizer = config.authorizer(image, is_ready)
    return BrokerRights(Authorization(authorizer, AuditLog(wall_ms).denied))

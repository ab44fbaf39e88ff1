"""The rights that each API of a controller's listener needs, and the authorizer of a controller.

`NEEDS` follows Kafka's `ControllerApis` and, for what only brokers serve there, `KafkaApis`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from controller.quorum_controller import QuorumController
from quorum.protocol.apis import ApiKey
from quorum.transport.audit_log import AuditLog, Requester
from statemachine.image.image import Image
from statemachine.security.authorization import Authorization, AuthorizerConfig
from statemachine.security.rights import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOKENS,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOKEN,
    DESCRIBE_TOKENS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    NOTHING,
    Needs,
)

ControllerAuthorization: TypeAlias = Authorization[Requester]

_ACTION: Final = Needs(CLUSTER_ACTION)
_ALTER: Final = Needs(ALTER_CLUSTER)
_DESCRIBE: Final = Needs(DESCRIBE_CLUSTER)
_ALTER_CONFIGS: Final = Needs(
    parts=(
        (ALTER_TOPIC_CONFIGS, "for a topic"),
        (ALTER_GROUP_CONFIGS, "for a group"),
        (ALTER_CLUSTER_CONFIGS, "for anything else"),
    )
)

NEEDS: Final[Mapping[int, Needs]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: NOTHING,
        # The request inside is authorized for the client's principal and host.
        ApiKey.ENVELOPE: _ACTION,
        ApiKey.FETCH: _ACTION,
        ApiKey.FETCH_SNAPSHOT: _ACTION,
        ApiKey.VOTE: _ACTION,
        ApiKey.BEGIN_QUORUM_EPOCH: _ACTION,
        ApiKey.END_QUORUM_EPOCH: _ACTION,
        ApiKey.DISCOVER_BROKERS: _ACTION,
        ApiKey.ALTER_PARTITION: _ACTION,
        ApiKey.BROKER_REGISTRATION: _ACTION,
        ApiKey.BROKER_HEARTBEAT: _ACTION,
        ApiKey.ALLOCATE_PRODUCER_IDS: _ACTION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _ACTION,
        ApiKey.CONTROLLER_REGISTRATION: _ACTION,
        ApiKey.UPDATE_RAFT_VOTER: _ACTION,
        ApiKey.METADATA: Needs(parts=((DESCRIBE_TOPIC, "for each topic"),)),
        ApiKey.CREATE_TOPICS: Needs(
            parts=(
                (CREATE_CLUSTER, "for all topics, or"),
                (CREATE_TOPIC, "for each one"),
                (DESCRIBE_TOPIC_CONFIGS, "to see what a new topic is like"),
            )
        ),
        ApiKey.DELETE_TOPICS: Needs(
            parts=(
                (DELETE_CLUSTER, "for all topics, or"),
                (DELETE_TOPIC, "for each one"),
                (DESCRIBE_TOPIC, "to hear whether it exists"),
            )
        ),
        ApiKey.CREATE_PARTITIONS: Needs(parts=((ALTER_TOPIC, "for each topic"),)),
        ApiKey.DESCRIBE_CONFIGS: Needs(
            parts=(
                (DESCRIBE_TOPIC_CONFIGS, "for a topic"),
                (DESCRIBE_GROUP_CONFIGS, "for a group"),
                (DESCRIBE_CLUSTER_CONFIGS, "for anything else"),
            )
        ),
        ApiKey.ALTER_CONFIGS: _ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS: Needs(ALTER_CLUSTER_CONFIGS),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: Needs(DESCRIBE_CLUSTER_CONFIGS),
        ApiKey.DESCRIBE_ACLS: _DESCRIBE,
        ApiKey.CREATE_ACLS: _ALTER,
        ApiKey.DELETE_ACLS: _ALTER,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER,
        ApiKey.CREATE_DELEGATION_TOKEN: Needs(
            parts=((CREATE_TOKENS, "for a token of another user"),)
        ),
        # The owner and the renewers of a token may, whatever the ACLs say.
        ApiKey.RENEW_DELEGATION_TOKEN: NOTHING,
        ApiKey.EXPIRE_DELEGATION_TOKEN: NOTHING,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: Needs(
            parts=(
                (DESCRIBE_TOKEN, "for each token of others, or"),
                (DESCRIBE_TOKENS, "for its owner"),
            )
        ),
        ApiKey.ELECT_LEADERS: _ALTER,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
        ApiKey.DESCRIBE_QUORUM: _DESCRIBE,
        ApiKey.ALTER_QUORUM: _ALTER,
        ApiKey.ADD_RAFT_VOTER: _ALTER,
        ApiKey.REMOVE_RAFT_VOTER: _ALTER,
        ApiKey.UPDATE_FEATURES: _ALTER,
        ApiKey.UNREGISTER_BROKER: _ALTER,
        # A controller shows more than a broker: Kafka asks for more here.
        ApiKey.DESCRIBE_CLUSTER: _ALTER,
        ApiKey.CAPABILITY: Needs(
            parts=(
                (DESCRIBE_CLUSTER, "for a capability that reads"),
                (ALTER_CLUSTER, "for one that changes something"),
                (
                    ALTER_CLUSTER_CONFIGS,
                    "and the like for topics, configurations and quotas, as in Kafka",
                ),
            )
        ),
    }
)
"""The rights that each API needs."""


def authorization(
    config: AuthorizerConfig | None,
    image: Image,
    is_loaded: Callable[[], bool],
    audit_log: AuditLog,
) -> ControllerAuthorization:
    """Return the authorization of a controller; everything is allowed without an authorizer.

    Until the image `is_loaded` for the first time, only super users may do anything.
    """
    if config is None:
        return Authorization(None, audit_log.denied)
    return Authorization(config.authorizer(image, is_loaded), audit_log.denied)


class Loaded:
    """Tells whether the image has once had all that was committed then.

    Before a cluster is founded, nothing is: its first users are in the founding records.
    """

    def __init__(
        self, controller: QuorumController, high_watermark: Callable[[], int | None]
    ) -> None:
        self._controller = controller
        self._high_watermark = high_watermark
        self._end: int | None = None
        """The end of what has to be committed and in the image, once it is known."""
        self._is_loaded = False

    def __call__(self) -> bool:
        if not self._is_loaded:
            # A new node has an empty log, and its leader tells it how much is committed.
            high_watermark = self._high_watermark()
            image, controller = self._controller.image, self._controller
            if high_watermark is None or not controller.is_ready:
                return False
            if self._end is None and image.level:
                # The image of the active controller has the founding records before their commit.
                self._end = max(high_watermark, image.end_offset)
            self._is_loaded = self._end is not None and controller.committed >= self._end
        return self._is_loaded

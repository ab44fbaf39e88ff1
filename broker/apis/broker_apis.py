"""The table of the APIs of a broker's listener, and the gate that holds requests during startup.

A broker must be reachable before it registers its address, but it cannot answer before it knows
the metadata. `StartupGate` keeps earlier requests in order and passes them on when it opens.
"""

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from broker.apis.describe import DescribeApi
from broker.apis.fetch import FetchApi
from broker.apis.forwarding import ForwardingManager
from broker.apis.offsets import OffsetsApi
from broker.apis.produce import ProduceApi
from broker.apis.producer_ids import ProducerIdManager
from broker.authorization import OPEN, BrokerRights
from broker.config import BrokerConfig
from broker.limits import HELD_REQUESTS_MAX, LONG_BODY_BYTES, SUPPORTED_FEATURES
from broker.replica_manager import ReplicaManager
from quorum.ports import Clock
from quorum.protocol import codec
from quorum.protocol.api_versions import Features, write_offer
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.protocol.errors import ErrorCode
from quorum.protocol.refusals import build_refusal
from quorum.transport.inbound import Handler, InboundRequest
from quorum.transport.long_responses import LongResponses
from statemachine.features.features import KRAFT_VERSION
from statemachine.security.rights import DESCRIBE_GROUP, DESCRIBE_TRANSACTION
from statemachine.vocabulary import BROKER_LOGGER_RESOURCE

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ALTER_QUORUM,
        ApiKey.CAPABILITY,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
    }
)
"""The requests for the active controller, forwarded in an Envelope (KIP-590)."""

OFFERED: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        ApiKey.PRODUCE: VersionRange(3, 11),
        ApiKey.FETCH: VersionRange(4, 17),
        ApiKey.LIST_OFFSETS: VersionRange(1, 8),
        ApiKey.METADATA: VersionRange(0, 13),
        ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
        ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
        ApiKey.DESCRIBE_LOG_DIRS: ApiKey.DESCRIBE_LOG_DIRS.spoken,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
        ApiKey.DISCOVER_BROKERS: VersionRange(0, 0),
        **{key: SPOKEN[key] for key in FORWARDED},
    }
)
"""The APIs of the listener; of the forwarded ones, the versions that our controllers serve."""

_GROUP: Final = 0
_TRANSACTION: Final = 1
"""Types of keys; 2 is a partition of a share group."""
_NO_GROUPS: Final = (
    ErrorCode.UNSUPPORTED_VERSION,
    "the embedded brokers of metaquorum have no consumer groups: assign partitions without one, "
    "or use Kafka's brokers",
)
_NO_TRANSACTIONS: Final = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "the embedded brokers of metaquorum have no transactions: leave transactional.id out, or use "
    "Kafka's brokers",
)
"""Errors after which clients do not look for a coordinator again, and of which they show the text.

For groups any code that is not retriable will do, and this one is the truth. A producer of
librdkafka gives up only if a right is missing; Kafka's producer shows the text of this one, but not
that of TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

_Handle = Callable[[InboundRequest, Any], Mapping[str, Any] | None]


class BrokerApis:
    """The handler of the listener: a table from each offered API to its handler."""

    def __init__(
        self,
        config: BrokerConfig,
        manager: ReplicaManager,
        *,
        cluster_id: str | None,
        fetch: FetchApi,
        producer_ids: ProducerIdManager,
        forwarder: ForwardingManager,
        discover: Handler,
        wall_clock: Clock,
        rights: BrokerRights = OPEN,
        kraft_version: Callable[[], int] = lambda: 0,
    ) -> None:
        """`kraft_version` returns the level that the log of the quorum is at."""
        self._image = manager.image
        self._kraft_version = kraft_version
        self._rights = rights
        self._forwarder = forwarder
        self.long_responses = LongResponses()
        describe = DescribeApi(config, manager, cluster_id, rights, self.long_responses)
        offsets = OffsetsApi(manager, rights)
        self._handlers: Final[Mapping[int, _Handle]] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.PRODUCE: ProduceApi(manager, wall_clock, rights).handle,
            ApiKey.FETCH: fetch.handle,
            ApiKey.LIST_OFFSETS: offsets.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.for_leader_epoch,
            ApiKey.METADATA: describe.metadata,
            ApiKey.DESCRIBE_CLUSTER: describe.cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe.topic_partitions,
            ApiKey.DESCRIBE_CONFIGS: describe.configs,
            ApiKey.DESCRIBE_CLIENT_QUOTAS: describe.client_quotas,
            ApiKey.DESCRIBE_LOG_DIRS: describe.log_dirs,
            ApiKey.INIT_PRODUCER_ID: producer_ids.handle,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.DISCOVER_BROKERS: lambda request, _: discover(request),
            **dict.fromkeys(FORWARDED, forwarder.handle),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_configs,
        }
        self._alter_loggers = describe.alter_loggers
        assert self._handlers.keys() == OFFERED.keys()

    def __call__(self, request: InboundRequest) -> None:
        """Decode the request and hand it to its handler.

        A long one that is forwarded is decoded in a thread: it may name 100,000 partitions.
        """
        api_key, version = request.api_key, request.api_version
        if api_key in FORWARDED and len(request.body) > LONG_BODY_BYTES:
            self._forwarder.handle_long(request)
            return
        message = codec.decode_request(api_key, version, request.body)
        refusal = self._rights.refusal(request)
        if refusal is not None:
            response = build_refusal(api_key, version, message, *refusal)
            request.respond(codec.encode_response_body(api_key, version, response))
            return
        values = self._handlers[api_key](request, message)
        if values is not None:
            request.respond(codec.response_body(api_key, version, **values))

    def _api_versions(self, request: InboundRequest, _: Any) -> None:
        """ApiVersions (18, KIP-511, KIP-584); the listener answers unsupported versions."""
        features = Features(
            supported=SUPPORTED_FEATURES,
            finalized={**self._image.features, KRAFT_VERSION: self._kraft_version()},
            finalized_epoch=self._image.end_offset - 1,
        )
        request.respond(write_offer(request.api_version, OFFERED, features))

    def _alter_configs(self, request: InboundRequest, message: Any) -> Mapping[str, Any] | None:
        """IncrementalAlterConfigs (44): log levels are this broker's own; the rest is forwarded."""
        if {each.resource_type for each in message.resources} == {BROKER_LOGGER_RESOURCE}:
            return self._alter_loggers(request, message)
        self._forwarder.handle(request, message)
        return None

    def _find_coordinator(self, request: InboundRequest, message: Any) -> Mapping[str, Any]:
        """FindCoordinator (10): an error for every key; there are no coordinators."""
        access = self._rights.access(request)
        is_transaction = getattr(message, "key_type", _GROUP) == _TRANSACTION
        right = DESCRIBE_TRANSACTION if is_transaction else DESCRIBE_GROUP

        def found(key: str) -> dict[str, Any]:
            error, text = _NO_TRANSACTIONS if is_transaction else _NO_GROUPS
            if not access.may(right, key):
                error, text = ErrorCode(right.error.code), access.refusal(right, key)
            where = {"node_id": -1, "host": "", "port": -1}
            return {"error_code": error, "error_message": text, **where}

        keys = getattr(message, "coordinator_keys", None)
        if keys is None:
            return found(message.key)
        return {"coordinators": [{"key": key, **found(key)} for key in keys]}


class StartupGate:
    """A handler that holds requests back until `open`."""

    def __init__(self) -> None:
        self._held: deque[InboundRequest] = deque()
        self._handler: Handler | None = None

    def __call__(self, request: InboundRequest) -> None:
        if self._handler is not None:
            self._handler(request)
        elif len(self._held) >= HELD_REQUESTS_MAX:
            request.reject(f"{HELD_REQUESTS_MAX} requests wait for this broker to start")
        else:
            self._held.append(request)

    def open(self, handler: Handler) -> None:
        """Pass on the held requests, and every later one at once."""
        self._handler = handler
        while self._held:
            request = self._held.popleft()
            if not request.is_gone:
                handler(request)

"""Dispatch the requests of a broker's listener to their handlers, and hold them during startup.

A broker must be reachable before it registers its address, but it cannot answer before it knows
the metadata. `StartupGate` keeps earlier requests in order and passes them on when it opens.
"""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from broker.apis.api_versions import FORWARDED, OFFERED, VersionsApi
from broker.apis.cluster_metadata import ClusterApi
from broker.apis.configs import ConfigsApi
from broker.apis.fetch import FetchApi
from broker.apis.forwarding import ForwardingManager
from broker.apis.log_dirs import LogDirsApi
from broker.apis.offsets import OffsetsApi
from broker.apis.produce import ProduceApi
from broker.apis.producer_ids import ProducerIdManager
from broker.limits import HELD_REQUESTS_MAX
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.transport.inbound import Handler, InboundRequest

_Handler = Callable[[InboundRequest], None]


class BrokerApis:
    """The handler of the listener: a table from each offered API to its handler."""

    def __init__(
        self,
        *,
        versions: VersionsApi,
        produce: ProduceApi,
        fetch: FetchApi,
        offsets: OffsetsApi,
        cluster: ClusterApi,
        configs: ConfigsApi,
        log_dirs: LogDirsApi,
        producer_ids: ProducerIdManager,
        forwarder: ForwardingManager,
        discover: _Handler,
    ) -> None:
        own: dict[int, _Handler] = {
            ApiKey.API_VERSIONS: versions.handle,
            ApiKey.PRODUCE: produce.handle,
            ApiKey.FETCH: fetch.handle,
            ApiKey.LIST_OFFSETS: offsets.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.for_leader_epoch,
            ApiKey.METADATA: cluster.metadata,
            ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: cluster.describe_topic_partitions,
            ApiKey.DESCRIBE_CONFIGS: configs.handle,
            ApiKey.DESCRIBE_CLIENT_QUOTAS: configs.quotas,
            ApiKey.DESCRIBE_LOG_DIRS: log_dirs.handle,
            ApiKey.INIT_PRODUCER_ID: producer_ids.handle,
            ApiKey.FIND_COORDINATOR: find_coordinator,
            ApiKey.DISCOVER_BROKERS: discover,
        }
        forwarded: dict[int, _Handler] = dict.fromkeys(FORWARDED, forwarder.handle)
        self._handlers: Final[Mapping[int, _Handler]] = MappingProxyType(own | forwarded)
        assert self._handlers.keys() == OFFERED.keys()

    def __call__(self, request: InboundRequest) -> None:
        self._handlers[request.api_key](request)


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


_REASON: Final = "this broker offers neither consumer groups nor transactions"
_MANY_KEYS_FROM: Final = 4
_NOWHERE: Final = {"node_id": -1, "host": "", "port": -1}


def find_coordinator(request: InboundRequest) -> None:
    """Answer COORDINATOR_NOT_AVAILABLE for every key."""
    version = request.api_version
    message = codec.decode_request(request.api_key, version, request.body)
    schema = codec.response_schema(request.api_key, version)
    refusal = {
        "error_code": codec.error_code(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        "error_message": _REASON,
        **_NOWHERE,
    }
    if version >= _MANY_KEYS_FROM:
        of_key = codec.nested(schema, "Coordinator")
        keys = tuple(codec.make(of_key, key=key, **refusal) for key in message.coordinator_keys)
        payload = codec.make(schema, throttle_time=timedelta(0), coordinators=keys)
    else:
        payload = codec.make_known(schema, throttle_time=timedelta(0), **refusal)
    request.respond(codec.encode_response_body(request.api_key, version, payload))

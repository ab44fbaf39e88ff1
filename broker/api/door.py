"""The front door itself: which handler takes which request. It decides nothing else."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from broker.api.cluster import ClusterApi
from broker.api.configs import ConfigsApi
from broker.api.coordinators import find_coordinator
from broker.api.fetch import FetchApi
from broker.api.forwarding import Forwarder
from broker.api.log_dirs import LogDirsApi
from broker.api.offsets import OffsetsApi
from broker.api.produce import ProduceApi
from broker.api.producer_ids import ProducerIds
from broker.api.served import FORWARDED, OFFERED
from broker.api.versions import VersionsApi
from quorum.protocol.apis import ApiKey
from quorum.transport.server import InboundRequest

_Handler = Callable[[InboundRequest], None]


class Door:
    """A `Handler` of the listener; every API that is offered has its place here."""

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
        producer_ids: ProducerIds,
        forwarder: Forwarder,
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

"""ApiVersions: the APIs and versions of this listener, and the features (KIP-511, KIP-584)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.limits import METADATA_VERSION_LEVELS
from quorum.protocol import codec
from quorum.protocol.api_versions import Features, write_offer
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.transport.inbound import InboundRequest
from statemachine.features.features import FEATURES
from statemachine.image.image import Image
from statemachine.vocabulary import METADATA_VERSION

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

_OWN: Final[Mapping[int, VersionRange]] = MappingProxyType(
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
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 4),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
        ApiKey.DISCOVER_BROKERS: VersionRange(0, 0),
    }
)

OFFERED: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {**_OWN, **{key: SPOKEN[key] for key in FORWARDED}}
)
"""The APIs of the listener; of the forwarded ones, the versions that our controllers serve."""


SUPPORTED: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {
        **{name: VersionRange(each.lowest, each.highest) for name, each in FEATURES.items()},
        METADATA_VERSION: VersionRange(*METADATA_VERSION_LEVELS),
    }
)


class VersionsApi:
    """The handler of ApiVersions; the listener answers unsupported versions."""

    def __init__(self, image: Image, supported: Mapping[str, VersionRange] | None = None) -> None:
        self._image = image
        self._supported = supported or SUPPORTED

    def handle(self, request: InboundRequest) -> None:
        """Answer at once."""
        codec.decode_request(request.api_key, request.api_version, request.body)
        features = Features(
            supported=self._supported,
            finalized=self._image.features,
            finalized_epoch=self._image.end_offset - 1,
        )
        request.respond(write_offer(request.api_version, OFFERED, features))

"""ApiVersions: what this listener offers, and the features of the cluster (KIP-511, KIP-584)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.api.served import OFFERED
from broker.limits import METADATA_VERSION_LEVELS
from quorum.protocol import codec
from quorum.protocol.api_versions import Features, write_offer
from quorum.protocol.apis import VersionRange
from quorum.transport.server import InboundRequest
from statemachine.features import FEATURES
from statemachine.image import Image
from statemachine.vocabulary import METADATA_VERSION

SUPPORTED: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {
        **{name: VersionRange(each.lowest, each.highest) for name, each in FEATURES.items()},
        METADATA_VERSION: VersionRange(*METADATA_VERSION_LEVELS),
    }
)


class VersionsApi:
    """Handles ApiVersions of a version that is offered; the listener answers any other."""

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

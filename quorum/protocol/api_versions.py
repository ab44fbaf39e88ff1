"""ApiVersions: encode the offer of a listener, decode that of another node, negotiate a version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.codec import decode_response, request_body, response_body
from quorum.protocol.errors import ErrorCode, Malformed, error_name
from quorum.protocol.shape import Data

_ZERO_LEVELS_FROM: Final = 4
"""Older versions cannot express a feature whose lowest level is 0 (KAFKA-17492)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of a cluster (KIP-584): the supported levels, and those in force.

    `finalized_epoch` is the metadata offset of `finalized`, -1 if unknown.
    """

    supported: Mapping[str, VersionRange] = field(default_factory=lambda: MappingProxyType({}))
    finalized: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    finalized_epoch: int = -1


def write_offer(
    version: int, offered: Mapping[int, VersionRange], features: Features | None = None
) -> bytes:
    """Encode an ApiVersions response of `version`, with keys in order."""
    values: dict[str, object] = {} if features is None else _feature_fields(version, features)
    return response_body(
        ApiKey.API_VERSIONS, version, error_code=0, api_keys=_api_keys(offered), **values
    )


def write_unsupported(offered: Mapping[int, VersionRange]) -> bytes:
    """Encode the response to an ApiVersions request that is too new: v0, with the known versions.

    Every client can read v0, and repeats the request in a version that it lists (KIP-511).
    """
    own: dict[int, VersionRange] = {ApiKey.API_VERSIONS: offered[ApiKey.API_VERSIONS]}
    refusal = ErrorCode.UNSUPPORTED_VERSION
    return response_body(ApiKey.API_VERSIONS, 0, error_code=refusal, api_keys=_api_keys(own))


def read_offer(version: int, body: Data) -> Mapping[int, VersionRange] | VersionRange:
    """Decode the response to our ApiVersions request of `version`; raises `Malformed`.

    Return the APIs and versions that the other side serves; or, if it does not know our version of
    ApiVersions, those that it knows.
    """
    try:
        response = decode_response(ApiKey.API_VERSIONS, version, body)
    except Malformed:
        # A node that does not know our version answers in v0 (KIP-511).
        if version == 0:
            raise
        response = decode_response(ApiKey.API_VERSIONS, 0, body)
    ranges = {
        int(api.api_key): VersionRange(api.min_version, api.max_version)
        for api in response.api_keys
        if 0 <= api.min_version <= api.max_version
    }
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return ranges.get(ApiKey.API_VERSIONS, VersionRange(0, 0))
    if response.error_code != 0:
        reason = f"refused with {error_name(response.error_code.value)}"
        raise Malformed(ApiKey.API_VERSIONS, version, reason)
    return MappingProxyType(ranges)


def negotiate(ours: VersionRange | None, theirs: VersionRange | None) -> int | None:
    """Return the highest common version, or None."""
    if ours is None or theirs is None:
        return None
    highest = min(ours.highest, theirs.highest)
    return highest if highest >= max(ours.lowest, theirs.lowest) else None


def write_request(version: int, software_name: str, software_version: str) -> bytes:
    """Encode an ApiVersions request; the names consist of letters, digits, dots and dashes."""
    return request_body(
        ApiKey.API_VERSIONS,
        version,
        client_software_name=software_name,
        client_software_version=software_version,
    )


def _api_keys(offered: Mapping[int, VersionRange]) -> list[dict[str, object]]:
    return [
        {"api_key": key, "min_version": of.lowest, "max_version": of.highest}
        for key, of in sorted(offered.items())
    ]


def _feature_fields(version: int, features: Features) -> dict[str, object]:
    return {
        "supported_features": [
            {"name": name, "min_version": of.lowest, "max_version": of.highest}
            for name, of in sorted(features.supported.items())
            if of.lowest > 0 or version >= _ZERO_LEVELS_FROM
        ],
        "finalized_features_epoch": features.finalized_epoch,
        # A feature at level 0 is not in force, and is left out.
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in sorted(features.finalized.items())
            if level > 0
        ],
    }

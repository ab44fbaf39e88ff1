"""Responses to Metadata (3) piece by piece, so that a long one can be made in slices.

Each topic and each partition is encoded by itself (`quorum.protocol.long_array`).
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.long_array import item_class, with_array

_FLEXIBLE_FROM: Final = 9
_TOPIC_OPERATIONS_FROM: Final = 8
_CLUSTER_OPERATIONS: Final = range(8, 11)
_ERROR_CODE_FROM: Final = 13


@cache
def _topic(version: int) -> type[Any]:
    return item_class(codec.response_schema(ApiKey.METADATA, version), "topics")


@cache
def _partition(version: int) -> type[Any]:
    return item_class(_topic(version), "partitions")


def encoded_in_slices(
    version: int, values: Mapping[str, Any], topics: Iterable[Mapping[str, Any] | None]
) -> Generator[None, None, bytes]:
    """Encode the response; pause after each topic, also after one that is left out, as None.

    The partitions of a topic may be an iterator; it pauses after each of them as well.
    """
    encoded = []
    for topic in topics:
        if topic is not None:
            partitions = []
            for partition in topic["partitions"]:
                partitions.append(_encode_partition(version, partition))
                yield
            encoded.append(_encode_topic(version, topic, partitions))
        yield
    return _encode_response(version, values, encoded)


def _encode_partition(version: int, values: Mapping[str, Any]) -> bytes:
    return codec.encode_part(_partition(version), **values)


def _encode_topic(version: int, values: Mapping[str, Any], partitions: Sequence[bytes]) -> bytes:
    empty = codec.encode_part(_topic(version), **{**values, "partitions": ()})
    after = 4 * (version >= _TOPIC_OPERATIONS_FROM) + (version >= _FLEXIBLE_FROM)
    return with_array(empty, after, partitions, is_flexible=version >= _FLEXIBLE_FROM)


def _encode_response(version: int, values: Mapping[str, Any], topics: Sequence[bytes]) -> bytes:
    empty = codec.response_body(ApiKey.METADATA, version, **{**values, "topics": ()})
    after = (
        4 * (version in _CLUSTER_OPERATIONS)
        + 2 * (version >= _ERROR_CODE_FROM)
        + (version >= _FLEXIBLE_FROM)
    )
    return with_array(empty, after, topics, is_flexible=version >= _FLEXIBLE_FROM)

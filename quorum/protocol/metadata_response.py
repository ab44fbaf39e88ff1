"""Responses to Metadata (3) piece by piece, so that a long one can be made in slices.

Each topic and each partition is encoded by itself; an array of them is inserted into what was
encoded with an empty array.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final

from quorum.protocol import codec, shape
from quorum.protocol.apis import ApiKey
from quorum.records.varint import uvarint

_FLEXIBLE_FROM: Final = 9
_TOPIC_OPERATIONS_FROM: Final = 8
_CLUSTER_OPERATIONS: Final = range(8, 11)
_ERROR_CODE_FROM: Final = 13


@cache
def _topic(version: int) -> type[Any]:
    return _item_of(codec.response_schema(ApiKey.METADATA, version), "topics")


@cache
def _partition(version: int) -> type[Any]:
    return _item_of(_topic(version), "partitions")


def _item_of(schema: type[Any], name: str) -> type[Any]:
    """Return the class of the items of an array."""
    inner: type[Any]
    inner, _, _ = next(shape.type_of(each) for each in fields(schema) if each.name == name)
    return inner


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
    return _with_array(empty, after, version, partitions)


def _encode_response(version: int, values: Mapping[str, Any], topics: Sequence[bytes]) -> bytes:
    empty = codec.response_body(ApiKey.METADATA, version, **{**values, "topics": ()})
    after = (
        4 * (version in _CLUSTER_OPERATIONS)
        + 2 * (version >= _ERROR_CODE_FROM)
        + (version >= _FLEXIBLE_FROM)
    )
    return _with_array(empty, after, version, topics)


def _with_array(empty: bytes, after: int, version: int, items: Sequence[bytes]) -> bytes:
    """Replace the empty array that `after` bytes follow by one of these items."""
    is_compact = version >= _FLEXIBLE_FROM
    end = len(empty) - after
    none = b"\x01" if is_compact else bytes(4)
    at = end - len(none)
    assert empty[at:end] == none, f"no empty array ends {after} bytes before the end"
    count = uvarint(len(items) + 1) if is_compact else len(items).to_bytes(4, "big")
    return b"".join((empty[:at], count, *items, empty[end:]))

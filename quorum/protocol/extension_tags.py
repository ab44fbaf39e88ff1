"""Tagged fields of our own in what clients ask and are answered, behind Kafka's last field.

A request says whether the answer may be stale (tag 10001), or how long its asker waits where
Kafka's form of it does not (tag 10003); an answer, which offset it is as of (tag 10002). Kafka's
schemas leave no room for any, and its nodes and clients skip the tags. Only messages of flexible
versions have tagged fields, and only those that have none of Kafka's own at the top level are told
apart here: these are all that describe state, and RemoveRaftVoter.
"""

from dataclasses import fields
from enum import IntEnum
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

from quorum.protocol import codec
from quorum.protocol.malformed import Malformed
from quorum.protocol.shape import Data
from quorum.records.varint import uvarint

CONSISTENCY_TAG: Final = 10_001
AS_OF_TAG: Final = 10_002
PATIENCE_TAG: Final = 10_003

_NO_TAGS: Final = b"\x00"
_OFFSET: Final = Struct(">q")
_CONSISTENCY: Final = b"\x01" + uvarint(CONSISTENCY_TAG) + b"\x01"
_AS_OF: Final = b"\x01" + uvarint(AS_OF_TAG) + uvarint(_OFFSET.size)
_MILLISECONDS: Final = Struct(">i")
_PATIENCE: Final = b"\x01" + uvarint(PATIENCE_TAG) + uvarint(_MILLISECONDS.size)
_LONGEST: Final = len(_PATIENCE) + _MILLISECONDS.size


class Consistency(IntEnum):
    """The consistency that a client asks for, instead of the usual one for the request."""

    STALE = 0
    """Any node may answer from what it knows."""
    LINEARIZABLE = 1
    """Everything that was answered before is in it."""


class Extension(NamedTuple):
    """Our tagged field at the end of a request; only clients and nodes of ours send one."""

    consistency: Consistency | None = None
    """The consistency asked for; None for the usual one."""
    patience_ms: int | None = None
    """The client's time-out, for requests without a field for it."""


@cache
def _has_room(schema: type[Any]) -> bool:
    """Return True if a message of this form ends with the number of its tagged fields, which is
    none."""
    return schema.__flexible__ and not any("tag" in field.metadata for field in fields(schema))


def with_consistency(api_key: int, version: int, body: bytes, wanted: Consistency) -> bytes:
    """The request `body`, saying what is wanted where it can."""
    if not _has_room(codec.request_schema(api_key, version)):
        return body
    assert body.endswith(_NO_TAGS)
    return b"".join((body[:-1], _CONSISTENCY, bytes((wanted,))))


def with_patience(api_key: int, version: int, body: bytes, wait_ms: int) -> bytes:
    """The request `body`, saying for how many milliseconds its asker will wait, where it can."""
    if not _has_room(codec.request_schema(api_key, version)):
        return body
    assert body.endswith(_NO_TAGS)
    return b"".join((body[:-1], _PATIENCE, _MILLISECONDS.pack(wait_ms)))


def decode_extended(api_key: int, version: int, body: Data) -> tuple[Any, Extension | None]:
    """Decode a request and our tagged field at its end, if it has one; raises `Malformed`."""
    extension, size_bytes = _extension_at_end(body)
    if extension is not None:
        plain = bytes(body[:-size_bytes]) + _NO_TAGS
        try:
            return codec.decode_request(api_key, version, plain), extension
        except Malformed:
            # Another field ends with the same bytes, and the message is incomplete without them.
            pass
    return codec.decode_request(api_key, version, body), None


def _extension_at_end(body: Data) -> tuple[Extension | None, int]:
    """The field that the last bytes of `body` look like, and how many bytes it takes."""
    end = bytes(body[-_LONGEST:])
    size_bytes = len(_CONSISTENCY) + 1
    if end[-size_bytes:-1] == _CONSISTENCY and end[-1] in tuple(Consistency):
        return Extension(consistency=Consistency(end[-1])), size_bytes
    size_bytes = len(_PATIENCE) + _MILLISECONDS.size
    if end[-size_bytes : -_MILLISECONDS.size] == _PATIENCE:
        (wait_ms,) = _MILLISECONDS.unpack_from(end, len(end) - _MILLISECONDS.size)
        return Extension(patience_ms=wait_ms), size_bytes
    return None, 0


def with_offset(api_key: int, version: int, body: bytes, offset: int) -> bytes:
    """The answer `body`, saying what it is as of where it can."""
    if not _has_room(codec.response_schema(api_key, version)):
        return body
    assert body.endswith(_NO_TAGS)
    return b"".join((body[:-1], _AS_OF, _OFFSET.pack(offset)))


def offset_of(api_key: int, version: int, body: Data) -> int | None:
    """The offset that a well-formed answer says it is as of, if it says one."""
    size = len(_AS_OF) + _OFFSET.size
    end = bytes(body[-size:])
    if len(end) < size or end[: len(_AS_OF)] != _AS_OF:
        return None
    try:
        codec.decode_response(api_key, version, bytes(body[:-size]) + _NO_TAGS)
    except Malformed:
        return None
    offset: int = _OFFSET.unpack_from(end, len(_AS_OF))[0]
    return offset

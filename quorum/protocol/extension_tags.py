"""Tagged fields of our own in what clients ask and are answered, behind Kafka's last field.

A request says whether the answer may be stale, or how long its asker waits where Kafka's form of it
does not; an answer, which offset it is as of. `quorum.protocol.private` says which messages have
the fields. They are read like any others, and written behind a message that is written already.
"""

from dataclasses import fields
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from quorum.protocol import codec
from quorum.protocol.shape import Data
from quorum.records.varint import uvarint

_NO_TAGS: Final = b"\x00"
_OFFSET: Final = Struct(">q")
_MILLISECONDS: Final = Struct(">i")


class Consistency(IntEnum):
    """The consistency that a client asks for, instead of the usual one for the request."""

    STALE = 0
    """Any node may answer from what it knows."""
    LINEARIZABLE = 1
    """Everything that was answered before is in it."""


class Extension(NamedTuple):
    """Our fields of a request; only clients and nodes of ours send any."""

    consistency: Consistency | None = None
    """The consistency asked for; None for the usual one."""
    patience_ms: int | None = None
    """The client's time-out, for requests without a field for it."""


def with_consistency(api_key: int, version: int, body: bytes, wanted: Consistency) -> bytes:
    """The request `body`, saying what is wanted where it can."""
    schema = codec.request_schema(api_key, version)
    return _with_field(schema, "consistency", body, bytes((wanted,)))


def with_patience(api_key: int, version: int, body: bytes, wait_ms: int) -> bytes:
    """The request `body`, saying for how many milliseconds its asker will wait, where it can."""
    schema = codec.request_schema(api_key, version)
    return _with_field(schema, "patience_ms", body, _MILLISECONDS.pack(wait_ms))


def with_offset(api_key: int, version: int, body: bytes, offset: int) -> bytes:
    """The answer `body`, saying what it is as of where it can."""
    schema = codec.response_schema(api_key, version)
    return _with_field(schema, "as_of", body, _OFFSET.pack(offset))


def _with_field(schema: type[Any], name: str, body: bytes, value: bytes) -> bytes:
    tags = [field.metadata["tag"] for field in fields(schema) if field.name == name]
    if not tags:
        return body
    assert body.endswith(_NO_TAGS), f"{schema} has other tagged fields beside {name}"
    return b"".join((body[:-1], b"\x01", uvarint(tags[0]), uvarint(len(value)), value))


def decode_extended(api_key: int, version: int, body: Data) -> tuple[Any, Extension | None]:
    """Decode a request, and our fields in it if it has any; raises `Malformed`."""
    message = codec.decode_request(api_key, version, body)
    wanted, patience_ms = getattr(message, "consistency", -1), getattr(message, "patience_ms", -1)
    consistency = Consistency(wanted) if wanted in tuple(Consistency) else None
    if consistency is None and patience_ms < 0:
        return message, None
    return message, Extension(consistency, patience_ms if patience_ms >= 0 else None)


def offset_of(message: Any) -> int | None:
    """The offset that an answer says it is as of, if it says one."""
    offset: int = getattr(message, "as_of", -1)
    return offset if offset >= 0 else None

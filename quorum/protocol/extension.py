"""The extension of a Kafka message: one tagged field of ours, in msgpack, after Kafka's fields.

Our clients and nodes extend some requests (`quorum.protocol.private`), and a response only if its
request was extended. Kafka's nodes and tools skip the field, and its brokers pass it on. It is read
like any other field, and written like one or appended to an encoded message.
"""

from dataclasses import fields
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Final, TypeVar

import msgspec

from quorum.protocol.errors import Malformed
from quorum.records.varint import uvarint
from quorum.version import VERSION

_NO_TAGS: Final = b"\x00"

T = TypeVar("T")


class Consistency(IntEnum):
    """The consistency that a client asks for, instead of the usual one for the request."""

    STALE = 0
    """Any node may answer from what it knows."""
    LINEARIZABLE = 1
    """The answer includes everything that was answered before."""


class Origin(StrEnum):
    """The listener by which a request reached the cluster: one of Kafka's protocol, or HTTP."""

    KAFKA = "kafka"
    HTTP = "http"


FORMAT: Final = 1
"""The newest format of an extension that this release knows."""


class Extension(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Our fields of a request or an answer.

    A field that an older release may ignore is simply added. One that it must not ignore raises
    `needs`: then an older release refuses the message instead of misreading it.
    """

    needs: int = 1
    """The format that the reader must know."""
    consistency: Consistency | None = None
    """The consistency that a request asks for; None for the usual one."""
    patience_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The client's time-out, for requests without a field for it."""
    door: Origin = Origin.KAFKA
    """The origin of the request in an envelope, for the audit log of the active controller."""
    as_of: int | None = None
    """The offset that an answer is as of."""
    details: bytes = b""
    """Msgpack of a value that belongs to the API; empty for none."""

    @classmethod
    def with_details(cls, details: Any, *, as_of: int | None = None) -> "Extension":
        """Return an extension with this value."""
        return cls(details=msgspec.msgpack.encode(details), as_of=as_of)


def encoded(extension: Extension) -> bytes:
    """Return the value of the `extension` field of a message that is built from values."""
    return msgspec.msgpack.encode(extension)


def with_extension(schema: type[Any], body: bytes, extension: Extension) -> bytes:
    """Append the extension to the encoded message, if its version can have one."""
    tags = [field.metadata["tag"] for field in fields(schema) if field.name == "extension"]
    if not tags:
        return body
    assert body.endswith(_NO_TAGS), f"{schema} has other tagged fields beside the extension"
    value = encoded(extension)
    # The field is a compact byte array, which its size plus one precedes.
    value = uvarint(len(value) + 1) + value
    return b"".join((body[:-1], b"\x01", uvarint(tags[0]), uvarint(len(value)), value))


class _Needs(msgspec.Struct):
    """The field that every format has."""

    needs: int = 1


def extension_of(message: Any) -> Extension | None:
    """Return the extension of a decoded message, or None; raises `Malformed`.

    Of one that `is_newer` only `needs` is to be relied on.
    """
    encoded: bytes = getattr(message, "extension", b"")
    if not encoded:
        return None
    try:
        return _decode(message, encoded, Extension)
    except Malformed:
        newer = Extension(needs=_decode(message, encoded, _Needs).needs)
        if not is_newer(newer):
            raise
        return newer


def is_newer(extension: Extension | None) -> bool:
    """Return True for an extension that only a newer release can read."""
    return extension is not None and extension.needs > FORMAT


def newer_reason(extension: Extension) -> str:
    """Say why a message with an extension that `is_newer` is refused."""
    return (
        f"the extension has format {extension.needs}, and metaquorum {VERSION} knows {FORMAT}: "
        "upgrade this node, or ask one of the newer release"
    )


def details_of(message: Any, kind: type[T]) -> T | None:
    """Return the details in the extension of a decoded message, or None; raises `Malformed`."""
    extension = extension_of(message)
    if extension is None or is_newer(extension) or not extension.details:
        return None
    return _decode(message, extension.details, kind)


def _decode(message: Any, encoded: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(encoded, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(message.__api_key__, message.__version__, f"extension: {error}") from None

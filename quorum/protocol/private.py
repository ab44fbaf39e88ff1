"""The message classes that kio lacks: those of our own APIs, and Kafka's with an extension.

They have the form of kio's classes. Our APIs are DiscoverBrokers (20000) and AlterQuorum (20001) of
KIP-595, and Capability (20010), which carries every capability that Kafka has no API for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64, u64

from quorum.protocol.apis import OWN_TAG, ApiKey

Schema: TypeAlias = type[Any]


class _Request:
    __slots__ = ()

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __header_schema__: ClassVar[Schema] = RequestHeader


class _Response(_Request):
    __slots__ = ()

    __type__: ClassVar = EntityType.response
    __header_schema__: ClassVar[Schema] = ResponseHeader


class _Structure(_Request):
    __slots__ = ()

    __type__: ClassVar = EntityType.nested


def _of(kafka_type: str, *, tag: int | None = None) -> Mapping[str, Any]:
    """Return the metadata of a field of this Kafka type, with its tag if it is a tagged field."""
    return {"kafka_type": kafka_type} if tag is None else {"kafka_type": kafka_type, "tag": tag}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersRequest(_Request):
    """The plain fields of KIP-595, in its order, and ours as tagged fields.

    A sender of id -1 is a client; its other fields are ignored.
    """

    __api_key__: ClassVar = i16(20_000)
    replica_id: i32 = field(metadata=_of("int32"))
    boot_timestamp: i64 = field(metadata=_of("int64"))
    host: str = field(metadata=_of("string"))
    port: i32 = field(metadata=_of("int32"))
    cluster_id: str | None = field(metadata=_of("string", tag=0), default=None)
    directory_id: UUID | None = field(metadata=_of("uuid", tag=1), default=None)
    software_version: str = field(metadata=_of("string", tag=2), default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(_Structure):
    """The address of one node."""

    __api_key__: ClassVar = i16(20_000)
    replica_id: i32 = field(metadata=_of("int32"))
    boot_timestamp: i64 = field(metadata=_of("int64"))
    host: str = field(metadata=_of("string"))
    port: i32 = field(metadata=_of("int32"))
    directory_id: UUID | None = field(metadata=_of("uuid", tag=0), default=None)
    software_version: str = field(metadata=_of("string", tag=1), default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersResponse(_Response):
    """The addresses that the node `replica_id` knows, and its status in the quorum."""

    __api_key__: ClassVar = i16(20_000)
    error_code: ErrorCode = field(metadata=_of("error_code"))
    cluster_id: str | None = field(metadata=_of("string"))
    brokers: tuple[Broker, ...]
    error_message: str | None = field(metadata=_of("string", tag=0), default=None)
    leader_id: i32 = field(metadata=_of("int32", tag=1), default=i32(-1))
    leader_epoch: i32 = field(metadata=_of("int32", tag=2), default=i32(-1))
    is_founded: bool = field(metadata=_of("bool", tag=3), default=False)
    """True if the log has been begun."""
    replica_id: i32 = field(metadata=_of("int32", tag=4), default=i32(-1))
    software_version: str = field(metadata=_of("string", tag=5), default="")
    """The release of the node that answers, even if it advertises no address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetVoter(_Structure):
    """A voter; a null directory stands for any directory of the id."""

    __api_key__: ClassVar = i16(20_001)
    voter_id: i32 = field(metadata=_of("int32"))
    voter_directory_id: UUID | None = field(metadata=_of("uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuorumRequest(_Request):
    """Null target voters cancel the change under way.

    The timeout bounds the wait for the commit of the target; the change itself goes on after it.
    """

    __api_key__: ClassVar = i16(20_001)
    cluster_id: str | None = field(metadata=_of("string"))
    timeout: i32Timedelta = field(metadata=_of("timedelta_i32"))
    target_voters: tuple[TargetVoter, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuorumResponse(_Response):
    """The outcome of AlterQuorum."""

    __api_key__: ClassVar = i16(20_001)
    throttle_time: i32Timedelta = field(metadata=_of("timedelta_i32"))
    error_code: ErrorCode = field(metadata=_of("error_code"))
    error_message: str | None = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityRequest(_Request):
    """The body is msgpack of a capability's request, opaque below `admin`.

    `stale` lets any node answer from what it has; with `asks_who_leads`, "nobody leads" is an
    answer once that is more than a short election.
    """

    __api_key__: ClassVar = i16(20_010)
    timeout: i32Timedelta = field(metadata=_of("timedelta_i32"))
    name: str = field(metadata=_of("string"))
    stale: bool = field(metadata=_of("bool"), default=False)
    asks_who_leads: bool = field(metadata=_of("bool"), default=False)
    body: bytes = field(metadata=_of("bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityResponse(_Response):
    """The body is msgpack of a capability's answer."""

    __api_key__: ClassVar = i16(20_010)
    throttle_time: i32Timedelta = field(metadata=_of("timedelta_i32"))
    error_code: ErrorCode = field(metadata=_of("error_code"))
    error_message: str | None = field(metadata=_of("string"))
    body: bytes = field(metadata=_of("bytes"), default=b"")


_OWN: Final[Mapping[int, tuple[Schema, Schema]]] = MappingProxyType(
    {
        20_000: (DiscoverBrokersRequest, DiscoverBrokersResponse),
        20_001: (AlterQuorumRequest, AlterQuorumResponse),
        20_010: (CapabilityRequest, CapabilityResponse),
    }
)

_EXTENDED: Final = frozenset({3, 32, 45, 46, 48, 55, 58, 60, 63, 81})
"""The Kafka APIs whose messages may have an extension (`quorum.protocol.extension`)."""


@cache
def request_class(api_key: int, version: int) -> Schema:
    """Return the class of a request, ours or kio's."""
    if api_key in _OWN:
        return _OWN[api_key][0]
    return _extended(api_key, load_request_schema(api_key, version))


@cache
def response_class(api_key: int, version: int) -> Schema:
    """Return the class of a response, ours or kio's."""
    if api_key in _OWN:
        return _OWN[api_key][1]
    return _extended(api_key, load_response_schema(api_key, version))


def _extended(api_key: int, schema: Schema) -> Schema:
    """Return `schema` with our extra field, if it has one."""
    added: tuple[str, Any, Any]
    if api_key in _EXTENDED:
        added = ("extension", bytes, field(metadata=_of("bytes", tag=OWN_TAG), default=b""))
    elif api_key == ApiKey.FETCH:
        # The round of reads (`quorum.protocol.fetch_messages`).
        added = ("round", u64, field(metadata=_of("uint64", tag=OWN_TAG), default=u64(0)))
    else:
        return schema
    if not schema.__flexible__:
        return schema
    return make_dataclass(
        schema.__name__,
        [added],
        bases=(schema,),
        namespace={"__module__": __name__},
        frozen=True,
        slots=True,
        kw_only=True,
    )

"""The messages that Kafka does not have: those of our own APIs, and Kafka's with fields of ours.

They are classes of kio's kind, made from tables when first used. Our APIs are DiscoverBrokers
(20000) and AlterQuorum (20001) of KIP-595, and Capability (20010), which carries every capability
that Kafka has no API for. Tagged fields of ours in Kafka's messages have tags from 10000 up;
Kafka's nodes and tools skip them, and its brokers pass them on. What a field means to the program
stands where it is filled and read.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields, make_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, get_args
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

Schema: TypeAlias = type[Any]

_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "bool": bool,
        "bytes": bytes,
        "error_code": ErrorCode,
        "int8": i8,
        "int32": i32,
        "int64": i64,
        "string": str,
        "timedelta_i32": i32Timedelta,
        "uuid": UUID | None,
    }
)


class _Field(NamedTuple):
    """A field: `kind` is a type of Kafka's, or the class of a structure."""

    kind: str | Schema
    tag: int | None = None
    default: Any = MISSING
    is_array: bool = False
    is_optional: bool = False


def _made(name: str, base: Schema | None, /, values: Mapping[str, Any], **of: _Field) -> Schema:
    """A class with these fields, behind those of `base` or in place of them."""
    made = []
    for field_name, each in of.items():
        metadata: dict[str, Any] = {}
        type_: Any = each.kind
        if isinstance(each.kind, str):
            type_, metadata["kafka_type"] = _TYPES[each.kind], each.kind
        if each.tag is not None:
            metadata["tag"] = each.tag
        if each.is_array:
            type_ = tuple[type_, ...]
        if each.is_optional:
            type_ |= None
        made.append((field_name, type_, field(metadata=metadata, default=each.default)))
    bases = () if base is None else (base,)
    namespace = {"__module__": __name__, **values}
    return make_dataclass(
        name, made, bases=bases, namespace=namespace, frozen=True, slots=True, kw_only=True
    )


def _own(kind: EntityType, api_key: int, name: str, /, **of: _Field) -> Schema:
    """A message of an API of ours, or a structure inside one."""
    header = RequestHeader if kind is EntityType.request else ResponseHeader
    values = {
        "__type__": kind,
        "__version__": i16(0),
        "__flexible__": True,
        "__api_key__": i16(api_key),
        "__header_schema__": header,
    }
    return _made(name, None, values, **of)


def _extended(schema: Schema, /, *path: str, **of: _Field) -> Schema:
    """`schema` with further fields, in itself or in the structure inside it at `path`."""
    if not path:
        return _made(schema.__name__, schema, {}, **of)
    name, *rest = path
    (array,) = (each.type for each in fields(schema) if each.name == name)
    inner = _extended(get_args(array)[0], *rest, **of)
    return _made(schema.__name__, schema, {}, **{name: _Field(inner, is_array=True)})


def _discover_brokers() -> tuple[Schema, Schema]:
    """The plain fields are those of KIP-595, in its order; what it lacks is in tagged fields.

    An asker of id -1 is a client, whose other fields say nothing. `is_founded` says whether the
    log has been begun; the `replica_id` of the answer is that of the node that answers.
    """
    sighting = {
        "replica_id": _Field("int32"),
        "boot_timestamp": _Field("int64"),
        "host": _Field("string"),
        "port": _Field("int32"),
    }
    request = _own(
        EntityType.request,
        20_000,
        "DiscoverBrokersRequest",
        **sighting,
        cluster_id=_Field("string", 0, None, is_optional=True),
        directory_id=_Field("uuid", 1, None),
    )
    broker = _own(
        EntityType.nested, 20_000, "Broker", **sighting, directory_id=_Field("uuid", 0, None)
    )
    response = _own(
        EntityType.response,
        20_000,
        "DiscoverBrokersResponse",
        error_code=_Field("error_code"),
        cluster_id=_Field("string", is_optional=True),
        brokers=_Field(broker, is_array=True),
        error_message=_Field("string", 0, None, is_optional=True),
        leader_id=_Field("int32", 1, -1),
        leader_epoch=_Field("int32", 2, -1),
        is_founded=_Field("bool", 3, False),
        replica_id=_Field("int32", 4, -1),
    )
    return request, response


def _alter_quorum() -> tuple[Schema, Schema]:
    """Null target voters cancel the change under way; a null directory stands for any of the id.

    The timeout bounds the wait for the commit of the target; the change itself goes on after it.
    """
    voter = _own(
        EntityType.nested,
        20_001,
        "TargetVoter",
        voter_id=_Field("int32"),
        voter_directory_id=_Field("uuid"),
    )
    request = _own(
        EntityType.request,
        20_001,
        "AlterQuorumRequest",
        cluster_id=_Field("string", is_optional=True),
        timeout=_Field("timedelta_i32"),
        target_voters=_Field(voter, is_array=True, is_optional=True),
    )
    response = _own(
        EntityType.response,
        20_001,
        "AlterQuorumResponse",
        throttle_time=_Field("timedelta_i32"),
        error_code=_Field("error_code"),
        error_message=_Field("string", is_optional=True),
    )
    return request, response


def _capability() -> tuple[Schema, Schema]:
    """The bodies are msgpack of a capability's request and answer, opaque below `admin`.

    `stale` lets any node answer from what it has; with `asks_who_leads`, "nobody leads" is an
    answer once that is more than a short election.
    """
    request = _own(
        EntityType.request,
        20_010,
        "CapabilityRequest",
        timeout=_Field("timedelta_i32"),
        name=_Field("string"),
        stale=_Field("bool", default=False),
        asks_who_leads=_Field("bool", default=False),
        body=_Field("bytes"),
    )
    response = _own(
        EntityType.response,
        20_010,
        "CapabilityResponse",
        throttle_time=_Field("timedelta_i32"),
        error_code=_Field("error_code"),
        error_message=_Field("string", is_optional=True),
        body=_Field("bytes", default=b""),
    )
    return request, response


_OWN: Final[Mapping[int, Callable[[], tuple[Schema, Schema]]]] = MappingProxyType(
    {20_000: _discover_brokers, 20_001: _alter_quorum, 20_010: _capability}
)


def _reassignment_request(schema: Schema) -> Schema:
    # Msgpack of `controller.move_requests.MoveOptions`. The partitions of a dry run are in it, so
    # that a node that skips the field does nothing.
    return _extended(schema, options=_Field("bytes", 10_010, b""))


def _reassignment_response(schema: Schema) -> Schema:
    # The move that it is, or that brings already what was asked for, and whether a request with
    # its key was answered before; of a partition the replicas now, or after a dry run, and of the
    # first ones of a dry run the steps.
    step = _own(EntityType.nested, 45, "PlannedStep", replicas=_Field("int32", is_array=True))
    partitions = _extended(
        schema,
        "responses",
        "partitions",
        replicas=_Field("int32", 10_011, (), is_array=True),
        planned_steps=_Field(step, 10_012, (), is_array=True),
    )
    return _extended(
        partitions, move_id=_Field("int64", 10_010, 0), repeated=_Field("bool", 10_013, False)
    )


def _ongoing_response(schema: Schema) -> Schema:
    # Of `controller.move_requests.OngoingReassignment`; step 0 says that what follows it is not
    # told, and -1 bytes that they are not known.
    return _extended(
        schema,
        "topics",
        "partitions",
        target=_Field("int32", 10_000, (), is_array=True),
        move_id=_Field("int64", 10_001, 0),
        step=_Field("int32", 10_003, 0),
        step_count=_Field("int32", 10_004, 0),
        state=_Field("string", 10_005, ""),
        reason=_Field("string", 10_006, ""),
        since_ms=_Field("int64", 10_007, 0),
        bytes_left=_Field("int64", 10_008, -1),
        bytes_per_s=_Field("int64", 10_009, -1),
        detail=_Field("string", 10_010, ""),
        reason_brokers=_Field("int32", 10_011, (), is_array=True),
    )


def _quorum_response(schema: Schema) -> Schema:
    # The target voters while the set changes, the reason why the change waits, and the nodes
    # without room on their disks, as far as the answering node knows: itself.
    voter = _own(
        EntityType.nested,
        55,
        "TargetVoter",
        voter_id=_Field("int32"),
        voter_directory_id=_Field("uuid"),
    )
    return _extended(
        schema,
        "topics",
        "partitions",
        target_voters=_Field(voter, 10_000, (), is_array=True),
        waits_for=_Field("string", 10_001, None, is_optional=True),
        full_disks=_Field("int32", 10_002, (), is_array=True),
    )


def _envelope_response(schema: Schema) -> Schema:
    # The reason why the envelope is refused, and whether the request may take effect all the same.
    return _extended(
        schema,
        reason=_Field("string", 10_004, None, is_optional=True),
        may_be_done=_Field("bool", 10_005, False),
    )


_EXTENDED_REQUESTS: Final[Mapping[int, Callable[[Schema], Schema]]] = MappingProxyType(
    {45: _reassignment_request}
)
_EXTENDED_RESPONSES: Final[Mapping[int, Callable[[Schema], Schema]]] = MappingProxyType(
    {
        45: _reassignment_response,
        46: _ongoing_response,
        55: _quorum_response,
        58: _envelope_response,
    }
)
_QUORUM_FROM: Final = 2
"""The first version of DescribeQuorum (55) with fields of ours."""


@cache
def _own_messages(api_key: int) -> tuple[Schema, Schema]:
    return _OWN[api_key]()


_READ_FROM_STATE: Final = frozenset({3, 32, 46, 48, 55, 60})
"""The calls that say how stale their answer may be, and whose answers say what they are as of."""
_WITHOUT_TIMEOUT: Final = frozenset({58, 81})
"""The calls whose asker says how long it waits, for which Kafka has no field."""


@cache
def request_class(api_key: int, version: int) -> Schema:
    """The class of a request, ours or kio's."""
    if api_key in _OWN:
        return _own_messages(api_key)[0]
    schema = load_request_schema(api_key, version)
    if api_key in _EXTENDED_REQUESTS:
        return _EXTENDED_REQUESTS[api_key](schema)
    if api_key in _READ_FROM_STATE and schema.__flexible__:
        return _extended(schema, consistency=_Field("int8", 10_001, -1))
    if api_key in _WITHOUT_TIMEOUT:
        return _extended(schema, patience_ms=_Field("int32", 10_003, -1))
    return schema


@cache
def response_class(api_key: int, version: int) -> Schema:
    """The class of a response, ours or kio's."""
    if api_key in _OWN:
        return _own_messages(api_key)[1]
    schema = load_response_schema(api_key, version)
    if api_key in _EXTENDED_RESPONSES and (api_key != 55 or version >= _QUORUM_FROM):
        schema = _EXTENDED_RESPONSES[api_key](schema)
    if api_key in _READ_FROM_STATE and schema.__flexible__:
        schema = _extended(schema, as_of=_Field("int64", 10_002, -1))
    return schema

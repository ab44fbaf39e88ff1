"""Any value of any of kio's classes, drawn from the fields the class declares."""

from dataclasses import Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, get_args, get_origin

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from quorum.protocol.apis import SPOKEN

VERSIONS = [
    (api_key, version)
    for api_key, spoken in SPOKEN.items()
    for version in range(spoken.lowest, spoken.highest + 1)
]
"""Every API and version that we speak."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _milliseconds(bits: int) -> st.SearchStrategy[timedelta]:
    bound = min(2 ** (bits - 1) - 1, 10**12)
    return st.integers(-bound, bound).map(lambda ms: timedelta(milliseconds=ms))


_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _signed(8),
    "int16": _signed(16),
    "int32": _signed(32),
    "int64": _signed(64),
    "uint16": st.integers(0, 2**16 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=40),
    "records": st.binary(max_size=40),
    "uuid": st.uuids().filter(lambda u: u.int != 0),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _milliseconds(32),
    "timedelta_i64": _milliseconds(64),
    # Times before 1970 are how the protocol says that there is none.
    "datetime_i64": st.integers(0, 10**12).map(lambda ms: _EPOCH + timedelta(milliseconds=ms)),
}


def values_of(schema: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of `schema` that can be on the wire."""
    return st.builds(schema, **{field.name: _field(field) for field in fields(schema)})


def _field(field: Field[Any]) -> st.SearchStrategy[Any]:
    optional = NoneType in get_args(field.type)
    outer = next(t for t in get_args(field.type) if t is not NoneType) if optional else field.type
    if get_origin(outer) is tuple:
        item = get_args(outer)[0]
        items = st.lists(_item(field, item), max_size=3).map(tuple)
        return st.none() | items if optional else items
    inner = _item(field, outer)
    return st.none() | inner if optional else inner


def _item(field: Field[Any], inner: Any) -> st.SearchStrategy[Any]:
    if isinstance(inner, type) and is_dataclass(inner):
        return values_of(inner)
    return _PRIMITIVES[field.metadata["kafka_type"]]

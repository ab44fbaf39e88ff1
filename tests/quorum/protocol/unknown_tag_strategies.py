"""Messages of a later version of Kafka: with tagged fields that are unknown here."""

import io
from dataclasses import Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import NoneType
from typing import Any, Final, get_args, get_origin

from hypothesis import strategies as st
from kio.serial import entity_writer

_HIGH_TAG: Final = 9_000
_FACTS: Final = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")


@cache
def of_the_future(schema: type[Any]) -> type[Any]:
    """`schema` as a later version may have it: with two more tagged fields in each structure."""
    taken = {f.metadata["tag"] for f in fields(schema) if "tag" in f.metadata}
    low_tag = next(tag for tag in range(100) if tag not in taken)
    additions = [
        (name, bytes, field(default=b"", metadata={"kafka_type": "bytes", "tag": tag}))
        for name, tag in (("low_addition", low_tag), ("high_addition", _HIGH_TAG))
    ]
    known = [
        (f.name, _type(f), field(default=f.default, metadata=f.metadata)) for f in fields(schema)
    ]
    facts = {name: getattr(schema, name) for name in dir(schema) if name in _FACTS}
    return make_dataclass(
        schema.__name__, [*known, *additions], kw_only=True, frozen=True, namespace=facts
    )


def _type(known: Field[Any]) -> Any:
    optional = NoneType in get_args(known.type)
    outer = next(t for t in get_args(known.type) if t is not NoneType) if optional else known.type
    is_array = get_origin(outer) is tuple
    inner = get_args(outer)[0] if is_array else outer
    if not (isinstance(inner, type) and is_dataclass(inner)):
        return known.type
    later: Any = of_the_future(inner)
    later = tuple[later, ...] if is_array else later
    return later | None if optional else later


def grown(value: Any, data: st.DataObject) -> Any:
    """`value` with something in the additions of some of its structures."""
    if isinstance(value, tuple):
        return tuple(grown(each, data) for each in value)
    if not (is_dataclass(value) and not isinstance(value, type)):
        return value
    additions = st.sampled_from([b"", b"", b"\x00", b"more", b"x" * 130])
    return of_the_future(type(value))(
        **{f.name: grown(getattr(value, f.name), data) for f in fields(value)},
        low_addition=data.draw(additions),
        high_addition=data.draw(additions),
    )


def written(value: Any) -> bytes:
    """The bytes of kio for it."""
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()

"""A long array in a response, encoded item by item, so that the response can be made in slices.

An item is encoded by itself; all of them are inserted into what was encoded with an empty array.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from quorum.protocol import codec, shape
from quorum.records.varint import uvarint


def item_class(schema: type[Any], name: str) -> type[Any]:
    """Return the class of the items of an array."""
    inner: type[Any]
    inner, _, _ = next(shape.type_of(each) for each in fields(schema) if each.name == name)
    return inner


def with_array(empty: bytes, after: int, items: Sequence[bytes], *, is_flexible: bool) -> bytes:
    """Replace the empty array that `after` bytes follow by one of these items."""
    end = len(empty) - after
    none = b"\x01" if is_flexible else bytes(4)
    at = end - len(none)
    assert empty[at:end] == none, f"no empty array ends {after} bytes before the end"
    count = uvarint(len(items) + 1) if is_flexible else len(items).to_bytes(4, "big")
    return b"".join((empty[:at], count, *items, empty[end:]))


def encode_items(
    api_key: int,
    version: int,
    values: Mapping[str, Any],
    name: str,
    items: Iterable[Mapping[str, Any]],
) -> Generator[None, None, bytes]:
    """Encode the response with these items in the array `name`, its last field without a tag.

    Pause after each item.
    """
    schema = codec.response_schema(api_key, version)
    *_, last = (each.name for each in fields(schema) if "tag" not in each.metadata)
    assert last == name, f"{schema} ends with {last}"
    part, encoded = item_class(schema, name), []
    for item in items:
        encoded.append(codec.encode_part(part, **item))
        yield
    empty = codec.response_body(api_key, version, **values, **{name: ()})
    is_flexible: bool = schema.__flexible__
    # A flexible structure ends with its tagged fields: there are none.
    return with_array(empty, int(is_flexible), encoded, is_flexible=is_flexible)

"""The shape of a message: check its lengths against the received bytes, without building values.

kio's native reader allocates memory for as many items as an array claims, so thirty hostile bytes
can end the process. Every message from the network is checked here before kio reads it.

kio's reader rejects unknown tagged fields, which KIP-482 says to skip. A message that has any is
walked a second time and copied without them.

A walk takes time too, and reading takes more: a checker counts the elements of all arrays, and all
tagged fields, before it walks them, and stops at its limit.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from struct import Struct
from types import EllipsisType, MappingProxyType, NoneType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin

from quorum.records.varint import read_uvarint, uvarint

Data: TypeAlias = bytes | memoryview

Step: TypeAlias = Callable[[Data, int, int], int]
"""From (data, position, end) to the position after one field; raises `ValueError`."""

CountReader: TypeAlias = Callable[[Data, int, int], tuple[int, int]]
"""From (data, position, end) to the items of an array, -1 for null, and where they begin."""

NUMBERS_PER_ELEMENT: Final = 8
"""Items of fixed size that count as one element: they are neither walked nor objects of their own.
"""

UNLIMITED: Final = 1 << 40
"""More elements than fit in any message."""

_allowance = threading.local()
"""The elements that are left to the walk of this thread: long requests are decoded in others."""

TAG_EDITS_MAX: Final = 100_000
"""Edits, of 150 bytes each, that may remove unknown tagged fields from one message: two for each
structure that has some."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

_FIXED_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bool": 1,
        "int8": 1,
        "uint8": 1,
        "int16": 2,
        "uint16": 2,
        "error_code": 2,
        "int32": 4,
        "uint32": 4,
        "timedelta_i32": 4,
        "int64": 8,
        "uint64": 8,
        "float64": 8,
        "timedelta_i64": 8,
        "datetime_i64": 8,
        "uuid": 16,
    }
)


class _UnknownTag(ValueError):
    """The message has a tagged field that its schema does not know."""


class _Edit(NamedTuple):
    """Replace the bytes from `start` to `end` by `new`."""

    start: int
    end: int
    new: bytes


class _Lenient(bytes):
    """A message whose walk collects the edits that remove its unknown tagged fields."""

    edits: list[_Edit]
    gone_bytes: int

    def note(self, edit: _Edit) -> None:
        if len(self.edits) >= TAG_EDITS_MAX:
            raise ValueError("unknown tagged fields in too many places")
        self.gone_bytes += edit.end - edit.start - len(edit.new)
        last = self.edits[-1] if self.edits else None
        if last is not None and last.end == edit.start and not (last.new or edit.new):
            self.edits[-1] = _Edit(last.start, edit.end, b"")
        else:
            self.edits.append(edit)

    def edited(self) -> bytes:
        parts: list[bytes] = []
        kept_from = 0
        for edit in sorted(self.edits):
            parts += (self[kept_from : edit.start], edit.new)
            kept_from = edit.end
        return b"".join((*parts, self[kept_from:]))


def checker(
    schema: type[Any], *, passes_rest: bool = False, elements_max: int = UNLIMITED
) -> Callable[[Data], Data]:
    """Return a check that raises `ValueError` unless its argument is shaped like `schema`.

    The check returns the bytes to read: the argument, or a copy without unknown tagged fields.
    Extra bytes at the end are an error, or left out with `passes_rest`. More than `elements_max`
    array items and tagged fields are an error. Building a check takes long, so the caller caches
    it.
    """
    walk = _walk(schema)

    def check(data: Data) -> Data:
        _allowance.left = elements_max
        try:
            return _walk_all(walk, data, passes_rest=passes_rest)
        except _UnknownTag:
            lenient = _Lenient(data)
            lenient.edits, lenient.gone_bytes = [], 0
            _allowance.left = elements_max
            whole = _walk_all(walk, lenient, passes_rest=passes_rest)
            return lenient.edited()[: len(whole) - lenient.gone_bytes]

    return check


def _walk_all(walk: Step, data: Data, *, passes_rest: bool) -> Data:
    end = len(data)
    reached = walk(data, 0, end)
    if reached == end:
        return data
    if not passes_rest:
        raise ValueError(f"{end - reached} bytes too many at the end")
    return data[:reached]


def _walk(schema: type[Any]) -> Step:
    """Return the step through one structure: plain fields in order, then the tagged ones."""
    flexible: bool = schema.__flexible__
    plain = [f for f in fields(schema) if "tag" not in f.metadata]
    steps = _joined([_field_step(f, flexible) for f in plain])
    if flexible:
        tagged = [f for f in fields(schema) if "tag" in f.metadata]
        steps.append(_tags({f.metadata["tag"]: _tagged_step(f) for f in tagged}))
    return steps[0] if len(steps) == 1 else _sequence(steps)


def _joined(steps: Sequence[int | Step]) -> list[Step]:
    """Join neighbouring steps of fixed size, which are given as ints."""
    joined: list[Step] = []
    fixed_bytes = 0
    for step in steps:
        if isinstance(step, int):
            fixed_bytes += step
            continue
        if fixed_bytes:
            joined.append(_fixed(fixed_bytes))
            fixed_bytes = 0
        joined.append(step)
    if fixed_bytes:
        joined.append(_fixed(fixed_bytes))
    return joined


def _field_step(field: Field[Any], flexible: bool) -> int | Step:
    inner, is_array, is_optional = type_of(field)
    step = _item_step(field, inner, flexible)
    if is_array:
        return _array(step, flexible, is_optional)
    return _optional(step) if is_optional and is_dataclass(inner) else step


def _tagged_step(field: Field[Any]) -> Step:
    # A tagged field is absent if it is null.
    inner, is_array, is_optional = type_of(field)
    step = _item_step(field, inner, flexible=True)
    if is_array:
        return _array(step, flexible=True, is_optional=is_optional)
    return _fixed(step) if isinstance(step, int) else step


def type_of(field: Field[Any]) -> tuple[Any, bool, bool]:
    """Return the type inside `field`, and True or False for an array and for nullable."""
    optional = NoneType in get_args(field.type)
    outer = next(t for t in get_args(field.type) if t is not NoneType) if optional else field.type
    if get_origin(outer) is not tuple:
        return outer, False, optional
    inner, ellipsis = get_args(outer)
    assert isinstance(ellipsis, EllipsisType), f"{field.name} is no array: {outer}"
    return inner, True, optional


def _item_step(field: Field[Any], inner: Any, flexible: bool) -> int | Step:
    if isinstance(inner, type) and is_dataclass(inner):
        return _walk(inner)
    kafka_type: str = field.metadata["kafka_type"]
    if kafka_type in _FIXED_BYTES:
        return _FIXED_BYTES[kafka_type]
    assert kafka_type in ("string", "bytes", "records"), f"{field.name} is a {kafka_type}"
    if flexible:
        return _compact_bytes
    return _legacy(_INT16 if kafka_type == "string" else _INT32)


def _fixed(size: int) -> Step:
    def step(_: Data, at: int, end: int) -> int:
        if at + size > end:
            raise ValueError(_cut(size, at, end))
        return at + size

    return step


def _compact_bytes(data: Data, at: int, end: int) -> int:
    claimed, at = read_uvarint(data, at)
    size = claimed - 1 if claimed else 0
    if at + size > end:
        raise ValueError(_cut(size, at, end))
    return at + size


def _legacy(length: Struct) -> Step:
    """Return the step past a string or bytes after a length of fixed size, -1 for null."""

    def step(data: Data, at: int, end: int) -> int:
        start = at + length.size
        if start > end:
            raise ValueError(_cut(length.size, at, end))
        size: int = length.unpack_from(data, at)[0]
        if size < -1:
            raise ValueError(f"a length of {size} at byte {at}")
        after = start + max(0, size)
        if after > end:
            raise ValueError(_cut(size, start, end))
        return after

    return step


def _array(item: int | Step, flexible: bool, is_optional: bool) -> Step:
    read_count: CountReader = _compact_count if flexible else _legacy_count
    if not is_optional:
        # kio's reader would accept null.
        read_count = _never_null(read_count)
    if isinstance(item, int):
        item_bytes = item

        def fixed_items(data: Data, at: int, end: int) -> int:
            count, at = read_count(data, at, end)
            size = max(0, count) * item_bytes
            if at + size > end:
                raise ValueError(_cut(size, at, end))
            if count >= NUMBERS_PER_ELEMENT:
                _take(count // NUMBERS_PER_ELEMENT, at)
            return at + size

        return fixed_items
    step = item

    def items(data: Data, at: int, end: int) -> int:
        count, at = read_count(data, at, end)
        if count > end - at:
            raise ValueError(f"{count} items at byte {at}, where {end - at} bytes are left")
        if count > 0:
            _take(count, at)
        for _ in range(count):
            at = step(data, at, end)
        return at

    return items


def _take(count: int, at: int) -> None:
    """Count these elements; raise `ValueError` if the message has too many."""
    _allowance.left -= count
    if _allowance.left < 0:
        raise ValueError(f"{count} more elements at byte {at} are too many for one message")


def _never_null(read_count: CountReader) -> CountReader:
    def read(data: Data, at: int, end: int) -> tuple[int, int]:
        count, after = read_count(data, at, end)
        if count < 0:
            raise ValueError(f"null at byte {at}, where an array must be")
        return count, after

    return read


def _compact_count(data: Data, at: int, _: int) -> tuple[int, int]:
    claimed, at = read_uvarint(data, at)
    return claimed - 1, at


def _legacy_count(data: Data, at: int, end: int) -> tuple[int, int]:
    if at + _INT32.size > end:
        raise ValueError(_cut(_INT32.size, at, end))
    (count,) = _INT32.unpack_from(data, at)
    if count < -1:
        raise ValueError(f"an array of {count} items at byte {at}")
    return count, at + _INT32.size


def _optional(step: int | Step) -> Step:
    """Return the step past a nullable structure, after one byte that is -1 for null (KIP-893)."""
    assert not isinstance(step, int)
    inner = step

    def optional(data: Data, at: int, end: int) -> int:
        if at >= end:
            raise ValueError(_cut(1, at, end))
        match data[at]:
            case 0xFF:
                return at + 1
            case 0x01:
                return inner(data, at + 1, end)
            case marker:
                raise ValueError(f"{marker} at byte {at} says neither null nor not null")

    return optional


def _tags(known: Mapping[int, Step]) -> Step:
    """Return the step past tagged fields; it notes unknown ones if the data is lenient."""

    def tags(data: Data, at: int, end: int) -> int:
        if at < end and not data[at]:
            return at + 1  # Most structures have none.
        lenient = data if isinstance(data, _Lenient) else None
        count_at, (count, after_count) = at, read_uvarint(data, at)
        unknown, at = 0, after_count
        _take(count, at)
        for _ in range(count):
            tag_at = at
            tag, size_at = read_uvarint(data, at)
            size, at = read_uvarint(data, size_at)
            after = at + size
            if after > end:
                raise ValueError(_cut(size, at, end))
            if tag in known:
                gone_before = 0 if lenient is None else lenient.gone_bytes
                if known[tag](data, at, after) != after:
                    raise ValueError(f"tagged field {tag} does not fill its {size} bytes")
                if lenient is not None and lenient.gone_bytes > gone_before:
                    kept_bytes = size - (lenient.gone_bytes - gone_before)
                    lenient.note(_Edit(size_at, at, uvarint(kept_bytes)))
            elif lenient is None:
                raise _UnknownTag(f"unknown tagged field {tag}")
            else:
                unknown += 1
                lenient.note(_Edit(tag_at, after, b""))
            at = after
        if lenient is not None and unknown:
            lenient.note(_Edit(count_at, after_count, uvarint(count - unknown)))
        return at

    return tags


def _sequence(steps: Sequence[Step]) -> Step:
    fixed = tuple(steps)

    def sequence(data: Data, at: int, end: int) -> int:
        for step in fixed:
            at = step(data, at, end)
        return at

    return sequence


def _cut(size: int, at: int, end: int) -> str:
    return f"{size} bytes at byte {at}, where {max(0, end - at)} are left"

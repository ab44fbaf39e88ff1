"""Schemas of flexible Kafka messages: a record class states each field once, with its encoding.

A `Kind` is the pair of functions that encode and decode one value. It follows from the annotation
of the field; `Annotated` adds the size of an integer and a `Wire`. A `Layout` encodes and decodes
one version of a class. Readers check every length against the remaining bytes. If the bytes end too
early, a reader may also raise `IndexError` or `struct.error`.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from operator import attrgetter
from struct import Struct
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_args, get_origin
from uuid import UUID

from msgspec import NODEFAULT
from msgspec import Struct as Value
from msgspec.structs import astuple
from msgspec.structs import fields as fields_of_struct

from statemachine.limits import UUIDS_REMEMBERED_MAX

UVARINT_BYTES_MAX: Final = 5
"""An unsigned varint holds 32 bits, seven to a byte."""

_UVARINTS_REMEMBERED_MAX: Final = 256

_SHORT: Final = 32
"""Lists of ids shorter than this, which is nearly all, are packed and unpacked in one call."""


class MalformedRecord(ValueError):
    """The bytes are not a metadata record; the message names the fault and its offset."""


class Kind(NamedTuple):
    """The encoding of values of one field type."""

    pack: Callable[[Any], bytes]
    read: Callable[[bytes, int], tuple[Any, int]]
    """Returns the value at an offset, None for null, and the offset of its end."""


class Wire(NamedTuple):
    """The encoding of a field where it does not follow from the type."""

    tag: int | None = None
    since: int = 0
    """The first version of the record that has the field."""
    name: str = ""
    """Kafka's name, if it is not the attribute's name in camel case."""
    is_secret: bool = False
    """True if no log and no tool shows the value."""


class Field(NamedTuple):
    """One field of a schema."""

    attribute: str
    name: str
    """Kafka's name."""
    kind: Kind
    since: int
    tag: int | None
    default: Any
    """The value of a missing or null field; a tagged field with this value is not written."""
    is_nullable: bool
    is_secret: bool


@lru_cache(maxsize=_UVARINTS_REMEMBERED_MAX)
def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned varint at `at`, and the offset of its end."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for position in range(1, UVARINT_BYTES_MAX):
        byte = data[at + position]
        if byte < 0x80:
            return value | byte << 7 * position, at + position + 1
        value |= (byte & 0x7F) << 7 * position
    raise MalformedRecord(f"the varint before byte {at + UVARINT_BYTES_MAX} is longer than 32 bits")


def _null(at: int) -> MalformedRecord:
    return MalformedRecord(f"null before byte {at}, where the schema has no null")


def _cut(data: bytes, at: int, size: int) -> bytes:
    """Return the `size` bytes from `at` on."""
    found = data[at : at + size]
    if len(found) != size:
        raise MalformedRecord(f"{size} bytes are announced at byte {at}, {len(found)} are left")
    return found


def _number(form: str) -> Kind:
    packer = Struct(form)
    unpack_from, size = packer.unpack_from, packer.size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack_from(data, at)[0], at + size

    return Kind(packer.pack, read)


I8: Final = _number(">b")
I16: Final = _number(">h")
U16: Final = _number(">H")
I32: Final = _number(">i")
I64: Final = _number(">q")
F64: Final = _number(">d")
BOOL: Final = _number(">?")


def nullable(number: Kind, null: int) -> Kind:
    """Return the kind of these numbers with one of them as null."""

    def read(data: bytes, at: int) -> tuple[int | None, int]:
        value, end = number.read(data, at)
        return None if value == null else value, end

    return Kind(number.pack, read)


@lru_cache(maxsize=UUIDS_REMEMBERED_MAX)
def uuid_of(raw: bytes) -> UUID:
    """Return the id with these 16 bytes. The same few are frequent, and creating one is slow."""
    return UUID(bytes=raw)


def _read_uuid(data: bytes, at: int) -> tuple[UUID, int]:
    return uuid_of(_cut(data, at, 16)), at + 16


def _read_own_uuid(data: bytes, at: int) -> tuple[UUID, int]:
    return UUID(bytes=bytes(_cut(data, at, 16))), at + 16


def _pack_bytes(value: bytes | None) -> bytes:
    return b"\0" if value is None else uvarint(len(value) + 1) + value


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_uvarint(data, at)
    return (_cut(data, at, size - 1), at + size - 1) if size else (None, at)


def _pack_string(value: str | None) -> bytes:
    return b"\0" if value is None else _pack_bytes(value.encode())


def _read_string(data: bytes, at: int) -> tuple[str | None, int]:
    end = at + data[at]
    if at < end < at + 0x80 and end <= len(data):
        # Nearly all strings are short.
        return data[at + 1 : end].decode(), end
    raw, at = _read_bytes(data, at)
    return None if raw is None else raw.decode(), at


UUID_KIND: Final = Kind(attrgetter("bytes"), _read_uuid)
OWN_UUID: Final = Kind(attrgetter("bytes"), _read_own_uuid)
"""The id of one record alone, which is not worth remembering."""
BYTES: Final = Kind(_pack_bytes, _read_bytes)
STRING: Final = Kind(_pack_string, _read_string)


def array(item: Kind) -> Kind:
    """Return the kind of compact arrays of `item`, as tuples."""

    def pack(values: tuple[Any, ...]) -> bytes:
        return uvarint(len(values) + 1) + b"".join([item.pack(value) for value in values])

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...] | None, int]:
        size, at = read_uvarint(data, at)
        if not size:
            return None, at
        # Every item has at least one byte: a larger count would only allocate memory.
        if size - 1 > len(data) - at:
            raise MalformedRecord(f"{size - 1} items are announced before byte {at}, too many")
        found = []
        for _ in range(size - 1):
            value, at = item.read(data, at)
            if value is None:
                raise _null(at)
            found.append(value)
        return tuple(found), at

    return Kind(pack, read)


_SHORT_IDS: Final = tuple(Struct(f">B{count}i") for count in range(_SHORT))


def _pack_ids(ids: tuple[int, ...]) -> bytes:
    count = len(ids)
    if count < _SHORT:
        return _SHORT_IDS[count].pack(count + 1, *ids)
    return uvarint(count + 1) + Struct(f">{count}i").pack(*ids)


def _read_ids(data: bytes, at: int) -> tuple[tuple[int, ...] | None, int]:
    first = data[at]
    if 0 < first <= _SHORT:
        form = _SHORT_IDS[first - 1]
        return form.unpack_from(data, at)[1:], at + form.size
    size, at = read_uvarint(data, at)
    if not size:
        return None, at
    raw = _cut(data, at, 4 * (size - 1))
    return Struct(f">{size - 1}i").unpack(raw), at + len(raw)


@lru_cache(maxsize=UUIDS_REMEMBERED_MAX)
def _uuids_of(raw: bytes) -> tuple[UUID, ...]:
    return tuple([uuid_of(raw[at : at + 16]) for at in range(0, len(raw), 16)])


def _read_uuids(data: bytes, at: int) -> tuple[tuple[UUID, ...] | None, int]:
    size, at = read_uvarint(data, at)
    if not size:
        return None, at
    raw = _cut(data, at, 16 * (size - 1))
    return _uuids_of(raw), at + len(raw)


Int8: TypeAlias = Annotated[int, I8]
Int16: TypeAlias = Annotated[int, I16]
Int32: TypeAlias = Annotated[int, I32]
Int64: TypeAlias = Annotated[int, I64]
IDS: Final = Kind(_pack_ids, _read_ids)
"""Like `array(I32)`, but much faster."""
Ids: TypeAlias = Annotated[tuple[int, ...], IDS]

_KINDS: Final[dict[Any, Kind]] = {
    bool: BOOL,
    float: F64,
    str: STRING,
    bytes: BYTES,
    UUID: UUID_KIND,
    # Like `array(UUID_KIND)`, but much faster.
    tuple[UUID, ...]: Kind(array(UUID_KIND).pack, _read_uuids),
}


@cache
def kind_of(annotation: Any) -> Kind:
    """Return the encoding of a field with this annotation."""
    if annotation in _KINDS:
        return _KINDS[annotation]
    if get_origin(annotation) is Annotated:
        plain, *extras = get_args(annotation)
        return next((each for each in extras if isinstance(each, Kind)), None) or kind_of(plain)
    if get_origin(annotation) is tuple:
        return array(kind_of(get_args(annotation)[0]))
    if NoneType in get_args(annotation):
        return kind_of(get_args(annotation)[0])
    # A nested structure, whose fields exist in every version.
    nested = layout(annotation, 0)
    return Kind(nested.pack, nested.read)


@cache
def schema_of(shape: type[Value]) -> tuple[Field, ...]:
    """Return the fields of a record or nested structure, in order."""
    found = []
    for each in fields_of_struct(shape):
        is_annotated = get_origin(each.type) is Annotated
        plain, *extras = get_args(each.type) if is_annotated else (each.type,)
        wire = next((extra for extra in extras if isinstance(extra, Wire)), Wire())
        first, *others = each.name.split("_")
        found.append(
            Field(
                attribute=each.name,
                name=wire.name or first + "".join(word.capitalize() for word in others),
                kind=kind_of(each.type),
                since=wire.since,
                tag=wire.tag,
                default=None if each.default is NODEFAULT else each.default,
                is_nullable=NoneType in get_args(plain),
                is_secret=wire.is_secret,
            )
        )
    return tuple(found)


class Layout:
    """The layout of one version of a record or nested structure: fields in order, then tags."""

    def __init__(self, shape: type[Value], version: int) -> None:
        self._shape = shape
        self._version = version
        fields = list(enumerate(schema_of(shape)))
        self._later = [(place, field) for place, field in fields if field.since > version]
        present = [(place, field) for place, field in fields if field.since <= version]
        plain = [(place, field) for place, field in present if field.tag is None]
        self._packers = [(place, field.kind.pack) for place, field in plain]
        self._readers = [
            (field.attribute, field.kind.read, field.is_nullable) for _, field in plain
        ]
        self._tagged = [
            (place, uvarint(field.tag), field.kind.pack, field.default)
            for place, field in sorted(present, key=lambda each: each[1].tag or 0)
            if field.tag is not None
        ]
        # A tag means the same in every version.
        self._by_tag = {field.tag: (field.attribute, field.kind.read) for _, field in fields}

    def pack(self, value: Value) -> bytes:
        """Encode the fields of this version, without tagged ones that have their defaults.

        A field that only a newer version has must have its default: it would be lost.
        """
        contents = astuple(value)
        for place, field in self._later:
            assert contents[place] == field.default, (
                f"version {self._version} of {value} cannot carry {field.attribute}"
            )
        parts = [pack(contents[place]) for place, pack in self._packers]
        tags = [
            (tag, pack(contents[place]))
            for place, tag, pack, default in self._tagged
            if contents[place] != default
        ]
        parts.append(uvarint(len(tags)))
        for tag, content in tags:
            parts += (tag, uvarint(len(content)), content)
        return b"".join(parts)

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        """Decode the value at `at`; return it and the offset of its end.

        Unknown tags are skipped.
        """
        values: dict[str, Any] = {}
        for name, read, is_nullable in self._readers:
            value, at = read(data, at)
            if value is None and not is_nullable:
                raise _null(at)
            values[name] = value
        count, at = read_uvarint(data, at)
        for _ in range(count):
            tag, at = read_uvarint(data, at)
            size, at = read_uvarint(data, at)
            end = at + size
            known = self._by_tag.get(tag)
            if known is not None:
                name, read = known
                value, at = read(data, at)
                if at != end:
                    raise MalformedRecord(f"tag {tag} ({name}) is not as long as its value")
                if value is not None:
                    values[name] = value
            at = end
        return self._shape(**values), at


@cache
def layout(shape: type[Value], version: int) -> Layout:
    """Return the layout of a record or nested structure in this version."""
    return Layout(shape, version)

"""Schemas of flexible Kafka messages: a record class states each field once, with its encoding.

A `Kind` is the pair of functions that encode and decode one value. It follows from the annotation
of the field; `Annotated` adds the size of an integer and what `Wire` says. Reading trusts nothing:
lengths are checked against the bytes that are there before anything is made of them.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_args, get_origin
from uuid import UUID

from msgspec import NODEFAULT
from msgspec import Struct as Value
from msgspec.structs import fields as fields_of_struct

from statemachine.limits import UUIDS_REMEMBERED_MAX

UVARINT_BYTES_MAX: Final = 5
"""An unsigned varint holds 32 bits, seven to a byte."""


class MalformedRecord(ValueError):
    """The bytes are not a metadata record; the message says what is wrong with them and where."""


class Reader:
    """A position in the bytes of one record."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start = self.at
        end = start + size
        if end > len(self.data):
            raise MalformedRecord(
                f"{size} bytes are announced at byte {start}, {len(self.data) - start} are left"
            )
        self.at = end
        return self.data[start:end]

    def uvarint(self) -> int:
        """The next unsigned varint."""
        value = 0
        for position in range(UVARINT_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                return value
        raise MalformedRecord(f"the varint before byte {self.at} is longer than 32 bits")


class Kind(NamedTuple):
    """The encoding of values of one field type."""

    write: Callable[[bytearray, Any], None]
    read: Callable[[Reader], Any]


class Wire(NamedTuple):
    """The encoding of a field, as far as its type does not say it."""

    tag: int | None = None
    since: int = 0
    """The first version of the record that has the field."""
    name: str = ""
    """Kafka's name, where it is not the attribute's in camel case."""


class Field(NamedTuple):
    """One field of a schema."""

    attribute: str
    name: str
    """Kafka's name."""
    kind: Kind
    since: int
    tag: int | None
    default: Any
    """A tagged field that has its default is left out; one that is missing has it."""


def put_uvarint(out: bytearray, value: int) -> None:
    """Append `value` as an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _number(form: str) -> Kind:
    packer = Struct(form)

    def write(out: bytearray, value: Any) -> None:
        out += packer.pack(value)

    def read(reader: Reader) -> Any:
        return packer.unpack(reader.take(packer.size))[0]

    return Kind(write, read)


I8: Final = _number(">b")
I16: Final = _number(">h")
U16: Final = _number(">H")
I32: Final = _number(">i")
I64: Final = _number(">q")
F64: Final = _number(">d")
BOOL: Final = _number(">?")


@lru_cache(maxsize=UUIDS_REMEMBERED_MAX)
def uuid_of(raw: bytes) -> UUID:
    """The id with these 16 bytes. The same few come again and again, and making one is slow."""
    return UUID(bytes=raw)


def _put_uuid(out: bytearray, value: UUID) -> None:
    out += value.bytes


def _take_uuid(reader: Reader) -> UUID:
    return uuid_of(reader.take(16))


UUID_KIND: Final = Kind(_put_uuid, _take_uuid)


def _put_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(0)
        return
    put_uvarint(out, len(value) + 1)
    out += value


def _take_nullable_bytes(reader: Reader) -> bytes | None:
    size = reader.uvarint() - 1
    return None if size < 0 else reader.take(size)


def _take_bytes(reader: Reader) -> bytes:
    value = _take_nullable_bytes(reader)
    if value is None:
        raise MalformedRecord(f"null before byte {reader.at}, where the schema has no null")
    return value


def _put_string(out: bytearray, value: str | None) -> None:
    _put_bytes(out, None if value is None else value.encode())


def _take_string(reader: Reader) -> str:
    return _take_bytes(reader).decode()


def _take_nullable_string(reader: Reader) -> str | None:
    raw = _take_nullable_bytes(reader)
    return None if raw is None else raw.decode()


BYTES: Final = Kind(_put_bytes, _take_bytes)
STRING: Final = Kind(_put_string, _take_string)
NULLABLE_STRING: Final = Kind(_put_string, _take_nullable_string)


def array(item: Kind) -> Kind:
    """A compact array of `item`, as a tuple."""

    def write(out: bytearray, values: tuple[Any, ...]) -> None:
        put_uvarint(out, len(values) + 1)
        for value in values:
            item.write(out, value)

    def read(reader: Reader) -> tuple[Any, ...]:
        count = reader.uvarint() - 1
        if count < 0:
            raise MalformedRecord(f"null before byte {reader.at}, where the schema has no null")
        # Nothing is shorter than a byte: a count beyond what is left would only cost memory.
        if count > len(reader.data) - reader.at:
            raise MalformedRecord(f"{count} items are announced before byte {reader.at}, too many")
        return tuple(item.read(reader) for _ in range(count))

    return Kind(write, read)


def structure(shape: type[Value]) -> Kind:
    """A nested structure whose fields exist in every version."""

    def write(out: bytearray, value: Any) -> None:
        write_fields(out, value, version=0)

    def read(reader: Reader) -> Any:
        return read_fields(reader, shape, version=0)

    return Kind(write, read)


Int8: TypeAlias = Annotated[int, I8]
Int16: TypeAlias = Annotated[int, I16]
Int32: TypeAlias = Annotated[int, I32]
Int64: TypeAlias = Annotated[int, I64]
IDS: Final = array(I32)
Ids: TypeAlias = Annotated[tuple[int, ...], IDS]
DIRECTORIES: Final = array(UUID_KIND)

_KINDS: Final[dict[Any, Kind]] = {
    bool: BOOL,
    float: F64,
    str: STRING,
    str | None: NULLABLE_STRING,
    bytes: BYTES,
    UUID: UUID_KIND,
}


@cache
def kind_of(annotation: Any) -> Kind:
    """The encoding of a field with this annotation."""
    if get_origin(annotation) is Annotated:
        plain, *extras = get_args(annotation)
        return next((each for each in extras if isinstance(each, Kind)), None) or kind_of(plain)
    if get_origin(annotation) is tuple:
        return array(kind_of(get_args(annotation)[0]))
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return structure(annotation)
    return _KINDS[annotation]


@cache
def schema_of(shape: type[Value]) -> tuple[Field, ...]:
    """The fields of a record or nested structure, in order."""
    found = []
    for each in fields_of_struct(shape):
        wire = next((extra for extra in get_args(each.type) if isinstance(extra, Wire)), Wire())
        first, *others = each.name.split("_")
        name = wire.name or first + "".join(word.capitalize() for word in others)
        default = None if each.default is NODEFAULT else each.default
        kind = kind_of(each.type)
        found.append(Field(each.name, name, kind, wire.since, wire.tag, default))
    return tuple(found)


def write_fields(out: bytearray, value: Value, version: int) -> None:
    """Append the fields that `version` has: in order, then the tagged ones that say something.

    A value that only a newer version can carry is a mistake of ours: it would be lost.
    """
    tagged: list[tuple[int, bytes]] = []
    for field in schema_of(type(value)):
        content = getattr(value, field.attribute)
        if field.since > version:
            assert content == field.default, (
                f"version {version} of {value} cannot carry {field.attribute}"
            )
        elif field.tag is None:
            field.kind.write(out, content)
        elif content != field.default:
            body = bytearray()
            field.kind.write(body, content)
            tagged.append((field.tag, bytes(body)))
    put_uvarint(out, len(tagged))
    for tag, content in sorted(tagged):
        put_uvarint(out, tag)
        put_uvarint(out, len(content))
        out += content


def read_fields(reader: Reader, shape: type[Value], version: int) -> Any:
    """The value with the fields that `version` has. Tags that the schema lacks are skipped."""
    values: dict[str, Any] = {}
    tagged: dict[int, Field] = {}
    for field in schema_of(shape):
        if field.since > version:
            continue
        if field.tag is None:
            values[field.attribute] = field.kind.read(reader)
        else:
            tagged[field.tag] = field
    for _ in range(reader.uvarint()):
        tag = reader.uvarint()
        content = Reader(reader.take(reader.uvarint()))
        known = tagged.get(tag)
        if known is None:
            continue
        values[known.attribute] = known.kind.read(content)
        if content.at != len(content.data):
            raise MalformedRecord(f"tag {tag} ({known.attribute}) is longer than its value")
    return shape(**values)

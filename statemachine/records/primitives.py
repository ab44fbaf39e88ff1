"""Field types of flexible Kafka messages: how one value is encoded and decoded.

A `Kind` is a pair of functions, so that a schema is a table of them. Reading trusts nothing:
lengths are checked against the bytes that are there before anything is made of them.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct as Value

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


class Field(NamedTuple):
    """One field of a schema: the attribute it fills, and in which versions it exists."""

    name: str
    kind: Kind
    since: int = 0
    tag: int | None = None
    default: Any = None
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


def structure(shape: type[Value], *fields: Field) -> Kind:
    """A nested structure whose fields exist in every version."""

    def write(out: bytearray, value: Any) -> None:
        write_fields(out, fields, value, version=0)

    def read(reader: Reader) -> Any:
        return shape(**read_fields(reader, fields, version=0))

    return Kind(write, read)


def write_fields(out: bytearray, fields: tuple[Field, ...], value: Any, version: int) -> None:
    """Append the fields that `version` has: in order, then the tagged ones that say something.

    A value that only a newer version can carry is a mistake of ours: it would be lost.
    """
    tagged: list[tuple[int, bytes]] = []
    for field in fields:
        content = getattr(value, field.name)
        if field.since > version:
            assert content == field.default, (
                f"version {version} of {value} cannot carry {field.name}"
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


def read_fields(reader: Reader, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    """The fields that `version` has, by name. Tags that the schema does not know are skipped."""
    values: dict[str, Any] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if field.since > version:
            continue
        if field.tag is None:
            values[field.name] = field.kind.read(reader)
        else:
            values[field.name] = field.default
            tagged[field.tag] = field
    for _ in range(reader.uvarint()):
        tag = reader.uvarint()
        content = Reader(reader.take(reader.uvarint()))
        known = tagged.get(tag)
        if known is None:
            continue
        values[known.name] = known.kind.read(content)
        if content.at != len(content.data):
            raise MalformedRecord(f"tag {tag} ({known.name}) is longer than its value")
    return values

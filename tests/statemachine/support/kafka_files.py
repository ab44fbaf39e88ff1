"""Files that a real Kafka cluster left, read by as little code as it takes.

The product's reader of logs belongs to another package, which this one may not import; so the
tests have one of their own, for data batches and control batches that are whole.
"""

import base64
import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tests.support.real_cluster import CLUSTER

HERE = Path(__file__).parents[2] / "data" / "kraft-4.2.0"
"""The log of one controller, with two of its snapshots; the tests that need more say so."""

CONTROL = 1 << 5


class LogRecord(NamedTuple):
    """A data record of a metadata log."""

    offset: int
    value: bytes


def shared_testdata() -> Path | None:
    """The files of all controllers, where they are present."""
    return CLUSTER if CLUSTER.is_dir() else None


def data_records(path: Path) -> list[LogRecord]:
    """The data records of a log or snapshot file, in order."""
    data = path.read_bytes()
    found: list[LogRecord] = []
    at = 0
    while at < len(data):
        base_offset, length = struct.unpack_from(">qi", data, at)
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (count,) = struct.unpack_from(">i", data, at + 57)
        assert data[at + 16] == 2, "the format of batches since Kafka 0.11"
        if not attributes & CONTROL:
            found.extend(_records(data, at + 61, base_offset, count))
        at += 12 + length
    return found


def _records(data: bytes, at: int, base_offset: int, count: int) -> Iterator[LogRecord]:
    for _ in range(count):
        size, at = _varint(data, at)
        end = at + size
        _, at = _varint(data, at + 1)
        delta, at = _varint(data, at)
        key_size, at = _varint(data, at)
        value_size, at = _varint(data, at + max(key_size, 0))
        yield LogRecord(base_offset + delta, data[at : at + value_size])
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def dumped(path: Path) -> dict[int, dict[str, Any]]:
    """The output of Kafka's dump tool for the data records of a file, by offset."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found = {}
    for line in text.decode().splitlines():
        head, marker, payload = line.partition(" payload: ")
        if marker:
            found[int(head.split()[2])] = json.loads(payload)
    return found


def kafka_uuid(value: UUID) -> str:
    """A UUID as Kafka prints it."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()

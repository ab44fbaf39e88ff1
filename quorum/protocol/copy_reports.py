"""The tagged field of BrokerHeartbeat (63) with the progress of a broker's copies.

Tag 10000, behind Kafka's last field: entries of 36 bytes each, topic id, partition, bytes left and
bytes a second. Kafka's controllers skip it, and its brokers never send it.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol, TypeVar
from uuid import UUID

from quorum.protocol.apis import ApiKey
from quorum.protocol.malformed import Malformed
from quorum.protocol.shape import Data
from quorum.records.varint import read_tags, uvarint

COPIES_TAG: Final = 10_000

COPY_REPORTS_MAX: Final = 1_000
"""Replicas in one heartbeat."""

_ENTRY: Final = Struct(">16siqq")
_FIXED: Final = Struct(">iqq??")
"""The fields of a heartbeat before its tagged ones, in every version."""
_NO_TAGS: Final = b"\x00"


class CopyReport(Protocol):
    """The progress of one replica; `bytes_left` and `bytes_per_s` are never negative."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partition(self) -> int: ...

    @property
    def bytes_left(self) -> int: ...

    @property
    def bytes_per_s(self) -> int: ...


R = TypeVar("R", bound=CopyReport)


def with_reports(body: bytes, reports: Sequence[CopyReport]) -> bytes:
    """Return the heartbeat `body`, which has no tagged fields yet, with these reports if any."""
    assert body[_FIXED.size :] == _NO_TAGS
    assert len(reports) <= COPY_REPORTS_MAX
    if not reports:
        return body
    entries = [
        _ENTRY.pack(each.topic_id.bytes, each.partition, each.bytes_left, each.bytes_per_s)
        for each in reports
    ]
    size = len(entries) * _ENTRY.size
    return b"".join((body[:-1], b"\x01", uvarint(COPIES_TAG), uvarint(size), *entries))


def reports_of(version: int, body: Data, make: Callable[..., R]) -> tuple[R, ...]:
    """Return the reports of a well-formed heartbeat, built by `make`; raises `Malformed`."""
    data = bytes(body[_FIXED.size :])
    values = (data[start:end] for tag, start, end in read_tags(data, 0)[0] if tag == COPIES_TAG)
    return _reports(version, next(values, b""), make)


def _reports(version: int, value: bytes, make: Callable[..., R]) -> tuple[R, ...]:
    count, rest = divmod(len(value), _ENTRY.size)
    if rest or count > COPY_REPORTS_MAX:
        reason = (
            f"tag {COPIES_TAG} has {len(value)} bytes; it is to have {_ENTRY.size} for each of at"
            f" most {COPY_REPORTS_MAX} replicas"
        )
        raise Malformed(ApiKey.BROKER_HEARTBEAT, version, reason)
    reports = tuple(
        make(
            topic_id=UUID(bytes=topic_id),
            partition=number,
            bytes_left=bytes_left,
            bytes_per_s=bytes_per_s,
        )
        for topic_id, number, bytes_left, bytes_per_s in _ENTRY.iter_unpack(value)
    )
    for each in reports:
        if min(each.partition, each.bytes_left, each.bytes_per_s) < 0:
            reason = f"tag {COPIES_TAG}: {each} has a negative number"
            raise Malformed(ApiKey.BROKER_HEARTBEAT, version, reason)
    return reports

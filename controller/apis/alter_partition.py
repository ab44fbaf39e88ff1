"""Decode and encode AlterPartition (56) by hand: no request is more frequent.

Tests compare it with kio.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Final
from uuid import UUID

from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.errors import Malformed
from quorum.protocol.shape import Data
from quorum.records.varint import read_uvarint, uvarint
from statemachine.commands import (
    AlterPartition,
    IsrMember,
    IsrProposal,
    PartitionAltered,
    PartitionsAltered,
)
from statemachine.records.primitives import uuid_of

VERSIONS: Final = VersionRange(2, 3)
_BROKER_EPOCHS_FROM: Final = 3

_SENDER: Final = Struct(">iq")
_UUID_BYTES: Final = 16
_PARTITION_HEAD: Final = Struct(">ii")
_ID: Final = Struct(">i")
_MEMBER: Final = Struct(">iq")
_TAGLESS: Final = Struct(">iqx")
"""A member, and that it has no tagged fields."""
_PARTITION_END: Final = Struct(">bi")
_ONE_ITEM: Final = b"\x02"
"""The count of a compact array of one item."""

_ANSWER_HEAD: Final = Struct(">ih")
_NO_TAGS: Final = b"\x00"
_CONTINUED: Final = 0x80
"""A varint whose first byte is below this has no other."""
_UNIFORM_MIN: Final = 2
"""The fewest partitions of one topic that are read together."""
_CACHED_MEMBERS_MAX: Final = 30
_CACHED_ISRS_MAX: Final = 1 << 10
"""Encoded ISRs in the cache, and the members of one: half a megabyte."""
_FORMS_MAX: Final = 64
"""Lengths of an ISR whose packer is in the cache; real ones are a handful."""


def read_request(version: int, body: Data) -> AlterPartition:
    """Return the command in a request of this version; raises `Malformed`."""
    proposals: list[IsrProposal] = []
    try:
        broker_id, broker_epoch = _SENDER.unpack_from(body)
        count, at = _count(body, _SENDER.size)
        for _ in range(count):
            at = _read_topic(version, body, at, proposals)
        at = _past_tags(body, at)
        if at != len(body):
            raise ValueError(f"{len(body) - at} bytes too many at the end")
    except (IndexError, ValueError, struct.error) as error:
        raise Malformed(ApiKey.ALTER_PARTITION, version, str(error)) from error
    return AlterPartition(
        broker_id=broker_id, broker_epoch=broker_epoch, proposals=tuple(proposals)
    )


def write_answer(answer: PartitionsAltered) -> bytes:
    """Encode the response, which is the same in every version."""
    if len(answer.partitions) == 1:
        (altered,) = answer.partitions
        head, topic_id = _ANSWER_HEAD.pack(0, answer.error.code), altered.topic_id.bytes
        partition = _partition(altered)
        return b"".join((head, _ONE_ITEM, topic_id, _ONE_ITEM, partition, _NO_TAGS, _NO_TAGS))
    topics = [
        b"".join((topic_id.bytes, *_counted([_partition(each) for each in partitions]), _NO_TAGS))
        for topic_id, partitions in groupby(answer.partitions, _topic_id)
    ]
    return b"".join((_ANSWER_HEAD.pack(0, answer.error.code), *_counted(topics), _NO_TAGS))


def write_refusal(error: int) -> bytes:
    """Encode a response with this error for the whole request."""
    return b"".join((_ANSWER_HEAD.pack(0, error), *_counted([]), _NO_TAGS))


def _read_topic(version: int, body: Data, at: int, proposals: list[IsrProposal]) -> int:
    raw_id = bytes(body[at : at + _UUID_BYTES])
    count, at = _count(body, at + _UUID_BYTES)
    topic_id = uuid_of(raw_id)
    if count >= _UNIFORM_MIN:
        read = len(proposals)
        end = _read_uniform(version, body, at, count, topic_id, proposals)
        if end is not None:
            return _past_tags(body, end)
        del proposals[read:]
    for _ in range(count):
        partition, leader_epoch = _PARTITION_HEAD.unpack_from(body, at)
        isr, at = _isr(version, body, at + _PARTITION_HEAD.size)
        recovery, partition_epoch = _PARTITION_END.unpack_from(body, at)
        at = _past_tags(body, at + _PARTITION_END.size)
        proposal = IsrProposal(
            topic_id=topic_id,
            partition=partition,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=isr,
            recovery=recovery,
        )
        proposals.append(proposal)
    return _past_tags(body, at)


def _read_uniform(
    version: int, body: Data, at: int, count: int, topic_id: UUID, proposals: list[IsrProposal]
) -> int | None:
    """Read `count` partitions of one layout and return their end; None if their layouts differ.

    A request about a thousand partitions mostly has ISRs of one size and no tagged fields.
    """
    claimed = body[at + _PARTITION_HEAD.size]
    if not 0 < claimed <= _CACHED_MEMBERS_MAX + 1:
        return None
    form = _item(version, claimed - 1)
    size = form.size
    end = at + count * size
    if end > len(body):
        return None
    items = bytes(body[at:end])
    counts, ends = items[_PARTITION_HEAD.size :: size], items[size - 1 :: size]
    if counts.count(claimed) != count or ends.count(_NO_TAGS) != count:
        return None
    known: dict[bytes, tuple[IsrMember, ...]] = {}
    for partition, leader_epoch, raw, recovery, partition_epoch in form.iter_unpack(items):
        isr = known.get(raw)
        if isr is None:
            cached = _members(version, raw)
            if cached is None:
                return None
            isr = known[raw] = cached
        proposals.append(
            IsrProposal(
                topic_id=topic_id,
                partition=partition,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                isr=isr,
                recovery=recovery,
            )
        )
    return end


@lru_cache
def _item(version: int, members: int) -> Struct:
    """Return the layout of a partition with an ISR of this size and no tagged fields."""
    return Struct(f">ii{1 + members * _member_bytes(version)}sbix")


def _member_bytes(version: int) -> int:
    """Return the size of a member without tagged fields, with their count if it has one."""
    return _ID.size if version < _BROKER_EPOCHS_FROM else _MEMBER.size + len(_NO_TAGS)


@lru_cache(_CACHED_ISRS_MAX)
def _members(version: int, raw: bytes) -> tuple[IsrMember, ...] | None:
    """Decode a count and its members; None if they have tagged fields.

    The same few members come again and again, because brokers seldom restart.
    """
    if version < _BROKER_EPOCHS_FROM:
        return tuple([IsrMember(broker_id) for (broker_id,) in _ID.iter_unpack(raw[1:])])
    size = _member_bytes(version)
    if raw[size::size].count(_NO_TAGS) != raw[0] - 1:
        return None
    return tuple([IsrMember(*member) for member in _TAGLESS.iter_unpack(raw[1:])])


def _isr(version: int, body: Data, at: int) -> tuple[tuple[IsrMember, ...], int]:
    """Decode the members at `at`; before version 3 they have no broker epochs."""
    claimed = body[at]
    end = at + 1 + (claimed - 1) * _member_bytes(version)
    if 0 < claimed <= _CACHED_MEMBERS_MAX + 1 and end <= len(body):
        cached = _members(version, bytes(body[at:end]))
        if cached is not None:
            return cached, end
    members: list[IsrMember] = []
    count, at = _count(body, at)
    for _ in range(count):
        if version < _BROKER_EPOCHS_FROM:
            members.append(IsrMember(*_ID.unpack_from(body, at)))
            at += _ID.size
        else:
            members.append(IsrMember(*_MEMBER.unpack_from(body, at)))
            at += _MEMBER.size
            at = _past_tags(body, at) if body[at] else at + 1
    return tuple(members), at


def _count(body: Data, at: int) -> tuple[int, int]:
    """Return the number of items of a compact array and the position of the first (KIP-482)."""
    claimed = body[at]
    if 0 < claimed < _CONTINUED:
        return claimed - 1, at + 1
    claimed, at = read_uvarint(body, at)
    if not claimed:
        raise ValueError(f"a null array before byte {at}")
    return claimed - 1, at


def _past_tags(body: Data, at: int) -> int:
    """Return the position after the tagged fields at `at`, all of which are unknown."""
    if not body[at]:
        return at + 1
    count, at = read_uvarint(body, at)
    for _ in range(count):
        _, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        at += size
        if at > len(body):
            raise ValueError(f"a tagged field ends {at - len(body)} bytes beyond the body")
    return at


def _counted(items: list[bytes]) -> list[bytes]:
    """Return the parts of a compact array: its count and its items."""
    return [uvarint(len(items) + 1), *items]


_topic_id: Final = attrgetter("topic_id")


def _partition(altered: PartitionAltered) -> bytes:
    isr = altered.isr
    pack, count = _form(len(isr))
    return pack(
        altered.partition,
        altered.error.code,
        altered.leader,
        altered.leader_epoch,
        count,
        *isr,
        altered.recovery,
        altered.partition_epoch,
        _NO_TAGS,
    )


@lru_cache(_FORMS_MAX)
def _form(isr_length: int) -> tuple[Callable[..., bytes], bytes]:
    """Return the packer of a partition with an ISR of this length, and the encoded count."""
    count = uvarint(isr_length + 1)
    return Struct(f">ihii{len(count)}s{isr_length}ibi{len(_NO_TAGS)}s").pack, count

"""What a follower asks of its leader: where it stands in each partition, as a Fetch request.

Nothing here waits or sends. From version 15 on the request carries the broker epoch of the
follower (KIP-903). A follower that did not say it would never be taken into an ISR, so no older
version is spoken.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from broker.limits import REPLICA_FETCH_ANSWER_BYTES_MAX, REPLICA_FETCH_WAIT_MS_MAX
from broker.partition import Partition
from quorum.protocol.varints import uvarint
from statemachine.vocabulary import BrokerId

REPLICA_STATE_FROM: Final = 15

_NO_EPOCH: Final = -1
_TOP: Final = Struct(">iiibii")
_LIMITS: Final = (REPLICA_FETCH_WAIT_MS_MAX, 1, REPLICA_FETCH_ANSWER_BYTES_MAX)
"""Wait at most this long for at least one byte, and bring at most so many."""
_ALL_RECORDS: Final = 0
_NO_SESSION: Final = 0
_NO_SESSION_EPOCH: Final = -1
_PARTITION: Final = Struct(">iiqiqiB")
_END: Final = Struct(">BBBBBiqB")
_REPLICA_STATE_TAG: Final = 1
_REPLICA_STATE_BYTES: Final = 13
_NO_TAGS: Final = 0
_EMPTY: Final = 1
"""No items, of an array or of a string that may not be null."""


class Position(NamedTuple):
    """What a fetch asked of one partition."""

    offset: int
    last_epoch: int
    leader_epoch: int


def position_of(partition: Partition, leader: BrokerId) -> Position | None:
    """Where to go on, or None while this partition is not to be fetched from `leader`."""
    following = partition.following
    if following is None or following.leader != leader or not partition.is_open:
        return None
    if partition.is_truncating or partition.written != partition.log_end:
        return None
    is_empty = partition.log_end == partition.log.start
    last_epoch = _NO_EPOCH if is_empty else partition.history.last
    return Position(partition.log_end, last_epoch, following.leader_epoch)


def fetch_request(
    version: int,
    replica: tuple[BrokerId, int],
    positions: Mapping[Partition, Position],
    partition_bytes_max: int,
) -> bytes:
    """The body of the fetch. Raises `ValueError` for a version that carries no broker epoch.

    By hand, because it is sent for every few records; byte-identical to what kio writes.
    """
    if version < REPLICA_STATE_FROM:
        raise ValueError(
            f"Fetch v{version} carries no broker epoch, at least v{REPLICA_STATE_FROM} does"
        )
    by_topic: dict[UUID, list[bytes]] = {}
    for partition, position in positions.items():
        asked = _PARTITION.pack(
            partition.key.number,
            position.leader_epoch,
            position.offset,
            position.last_epoch,
            partition.log.start,
            partition_bytes_max,
            _NO_TAGS,
        )
        by_topic.setdefault(partition.key.topic_id, []).append(asked)
    body = bytearray(_TOP.pack(*_LIMITS, _ALL_RECORDS, _NO_SESSION, _NO_SESSION_EPOCH))
    body += uvarint(len(by_topic) + 1)
    for topic_id, partitions in by_topic.items():
        body += topic_id.bytes
        body += uvarint(len(partitions) + 1)
        body += b"".join(partitions)
        body.append(_NO_TAGS)
    body += _END.pack(_EMPTY, _EMPTY, 1, _REPLICA_STATE_TAG, _REPLICA_STATE_BYTES, *replica, 0)
    return bytes(body)

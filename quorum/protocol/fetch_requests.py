"""Requests of FetchQuorumRecords between flat and Kafka's Fetch, v13 to v17 (KIP-595, KIP-853).

The fetches of one follower differ only in numbers that stand before everything of variable
length. So this head is packed and unpacked here, and the tail behind it comes from kio once and
is kept: a message costs a microsecond or two, and its bytes are kio's. A request of any other
form takes the long way through kio. Nothing here knows who leads.

From version 15 on a request can echo a round of reads (`quorum.protocol.read_rounds`).
"""

from datetime import timedelta
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.messages import FetchRequest
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.protocol import codec, read_rounds
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import make, make_known, nested
from quorum.protocol.errors import ErrorCode
from quorum.protocol.malformed import Malformed
from quorum.protocol.raft_types import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    LocalNode,
    Refusal,
    wrong_cluster,
)
from quorum.protocol.shape import Data
from quorum.records.varint import read_uvarint

_REPLICA_STATE_FROM: Final = 15

_ONE: Final = 2  # A compact array of one item: counts are written plus one, so that 0 is null.
_NO_ITEMS: Final = 1
_TOPIC_ID: Final = METADATA_TOPIC_ID.bytes
_NO_SESSION: Final = (0, -1)
_NONE: Final = -1

# Up to v14 the replica id comes first; from v15 on it is a tagged field, and what is left is:
# wait, bytes min, bytes max, isolation, session id and epoch, topics, topic id, partitions,
# partition, leader epoch, fetch offset, last fetched epoch, log start offset, partition bytes.
_HEAD: Final = Struct(">iiibiiB16sBiiqiqi")

_TAILS_MAX: Final = 256
_TAIL_BYTES_MAX: Final = 1024
"""Tails longer than real ones are not kept: no peer can fill the memory with them."""


class _Asked(NamedTuple):
    """The fields of a request, not validated yet."""

    cluster_id: str | None
    replica: ReplicaKey
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    topic_id: bytes
    partition: int
    epoch: int
    offset: int
    last_epoch: int
    round: int = 0


class _Tail(NamedTuple):
    """The part behind the head, up to the round of reads: the sender."""

    cluster_id: str | None
    replica: ReplicaKey


def write_fetch_request(request: FetchRequest, version: int, *, cluster_id: str | None) -> bytes:
    """Version 16 and below say nothing of the replica's directory."""
    if version < _REPLICA_STATE_FROM:
        return _encode(request, version, cluster_id)
    head = _HEAD.pack(
        request.max_wait_ms,
        0,
        request.max_bytes,
        0,
        *_NO_SESSION,
        _ONE,
        _TOPIC_ID,
        _ONE,
        METADATA_PARTITION,
        request.epoch,
        request.log_end.offset,
        request.log_end.epoch,
        _NONE,
        request.max_bytes,
    )
    if request.round:
        tail = _tail_for_round(version, request.replica, cluster_id)
        return b"".join((head, tail, read_rounds.pack(request.round)))
    return head + _tail(version, request.replica, cluster_id)


def read_fetch_request(version: int, body: Data, here: LocalNode) -> FetchRequest | Refusal:
    """The flat request, or why it is refused; raises `Malformed`."""
    asked = _read_usual(version, body) or _read_any(version, body)
    if isinstance(asked, Refusal):
        return asked
    return _refusal(asked, here) or FetchRequest(
        replica=asked.replica,
        epoch=Epoch(asked.epoch),
        log_end=OffsetAndEpoch(Epoch(asked.last_epoch), Offset(asked.offset)),
        max_wait_ms=asked.max_wait_ms,
        max_bytes=_max_bytes(asked),
        round=asked.round,
    )


def _read_usual(version: int, body: Data) -> _Asked | None:
    if version < _REPLICA_STATE_FROM or len(body) < _HEAD.size:
        return None
    head = _HEAD.unpack_from(body)
    if head[6] != _ONE or head[8] != _ONE:
        return None
    tail, round_ = _tail_of(version, bytes(body[_HEAD.size :]))
    wait, _, max_bytes, _, _, _, _, topic_id, _, partition, epoch, offset, last_epoch, _, of = head
    return _Asked(
        tail.cluster_id,
        tail.replica,
        wait,
        max_bytes,
        of,
        topic_id,
        partition,
        epoch,
        offset,
        last_epoch,
        round_,
    )


def _tail_of(version: int, data: bytes) -> tuple[_Tail, int]:
    """Return the sender, and the round of reads that it echoes; 0 for none."""
    is_usual = len(data) <= _TAIL_BYTES_MAX
    halves = read_rounds.split(data)
    if halves is not None:
        before, round_ = halves
        read_before = _read_before if is_usual else _read_before.__wrapped__
        tail = read_before(version, before)
        if tail is not None:
            return tail, round_
    read_tail = _read_tail if is_usual else _read_tail.__wrapped__
    return read_tail(version, data), 0


def _read_any(version: int, body: Data) -> _Asked | Refusal:
    request = codec.decode_request(ApiKey.FETCH, version, body)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return Refusal(
            ErrorCode.INVALID_REQUEST, "exactly one topic with one partition is expected"
        )
    (topic,) = request.topics
    (partition,) = topic.partitions
    return _Asked(
        cluster_id=request.cluster_id,
        replica=_replica_of(request, partition),
        max_wait_ms=round(request.max_wait.total_seconds() * 1_000),
        max_bytes=request.max_bytes,
        partition_max_bytes=partition.partition_max_bytes,
        topic_id=b"" if topic.topic_id is None else topic.topic_id.bytes,
        partition=partition.partition,
        epoch=partition.current_leader_epoch,
        offset=partition.fetch_offset,
        last_epoch=partition.last_fetched_epoch,
    )


@lru_cache(_TAILS_MAX)
def _read_before(version: int, before: bytes) -> _Tail | None:
    """Return the tail before a round; None if the bytes are no round."""
    try:
        tail = _read_tail.__wrapped__(version, before + read_rounds.NO_ROUND)
    except Malformed:
        return None
    tags_at = _tags_at(before)
    return tail if tags_at is not None and read_rounds.ends_with_round(before, tags_at) else None


@lru_cache(_TAILS_MAX)
def _read_tail(version: int, tail: bytes) -> _Tail:
    # Where all numbers of the head are zero the tail means the same; kio reads it once.
    head = _HEAD.pack(0, 0, 0, 0, 0, 0, _ONE, _TOPIC_ID, _ONE, 0, 0, 0, 0, 0, 0)
    request = codec.decode_request(ApiKey.FETCH, version, head + tail)
    return _Tail(request.cluster_id, _replica_of(request, request.topics[0].partitions[0]))


def _tags_at(tail: bytes) -> int | None:
    """The position of the request's tagged fields; the tail is well-formed.

    None where it forgets topics: no replica does, and nobody looks behind them for a round.
    """
    forgotten_at = read_rounds.after_tags(tail, read_rounds.after_tags(tail, 0))
    if tail[forgotten_at] != _NO_ITEMS:
        return None
    rack_size, rack_at = read_uvarint(tail, forgotten_at + 1)
    return rack_at + max(0, rack_size - 1)


def _replica_of(request: Any, partition: Any) -> ReplicaKey:
    state = getattr(request, "replica_state", request)
    directory_id = getattr(partition, "replica_directory_id", None)
    return ReplicaKey(ReplicaId(state.replica_id), directory_id or NO_DIRECTORY)


def _refusal(asked: _Asked, here: LocalNode) -> Refusal | None:
    """Return the reason why the request is refused, or None."""
    wrong = wrong_cluster(asked.cluster_id, here)
    if wrong is not None:
        return wrong
    if asked.topic_id != _TOPIC_ID:
        reason = f"topic {asked.topic_id.hex() or 0} was asked for, here is only the metadata log"
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, reason)
    if asked.partition != METADATA_PARTITION:
        reason = f"partition {asked.partition} was asked for, the metadata log has only 0"
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    invalid = _impossible(asked)
    if invalid is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"invalid: {invalid}", top_level=False)
    return None


def _impossible(asked: _Asked) -> str | None:
    """Return the number that cannot be true, or None."""
    if asked.replica.id < 0:
        return f"replica {asked.replica.id}: who fetches the metadata log says who it is"
    if asked.max_wait_ms < 0 or asked.max_bytes < 0 or asked.partition_max_bytes < 0:
        return (
            f"wait of {asked.max_wait_ms} ms for at most {asked.max_bytes} bytes, "
            f"{asked.partition_max_bytes} of the partition"
        )
    if asked.offset < 0 or asked.last_epoch < 0:
        return f"log end {asked.offset}@{asked.last_epoch}"
    if asked.epoch < asked.last_epoch:
        return f"epoch {asked.epoch} of the leader is below the last epoch {asked.last_epoch}"
    return None


def _max_bytes(asked: _Asked) -> int:
    # Kafka's replicas give no bound for the partition, which is written as 0.
    bound = min(asked.max_bytes, asked.partition_max_bytes or asked.max_bytes)
    # An answer with more would not fit in a frame.
    return min(bound, FETCH_BYTES_MAX)


def _encode(request: FetchRequest, version: int, cluster_id: str | None) -> bytes:
    schema = codec.request_schema(ApiKey.FETCH, version)
    directory_id = request.replica.directory_id
    partition = make_known(
        nested(schema, "FetchPartition"),
        partition=METADATA_PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.log_end.offset,
        last_fetched_epoch=request.log_end.epoch,
        log_start_offset=_NONE,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=None if directory_id == NO_DIRECTORY else directory_id,
    )
    topic = make(nested(schema, "FetchTopic"), topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    values: dict[str, object] = {
        "cluster_id": cluster_id,
        "max_wait": timedelta(milliseconds=request.max_wait_ms),
        "min_bytes": 0,
        "max_bytes": request.max_bytes,
        "topics": (topic,),
        "forgotten_topics_data": (),
    }
    if version < _REPLICA_STATE_FROM:
        values["replica_id"] = request.replica.id
    else:
        values["replica_state"] = make(
            nested(schema, "ReplicaState"), replica_id=request.replica.id
        )
    return codec.encode_request_body(ApiKey.FETCH, version, make(schema, **values))


@lru_cache(_TAILS_MAX)
def _tail(version: int, replica: ReplicaKey, cluster_id: str | None) -> bytes:
    """All that follows the head, as kio writes it."""
    log_end = OffsetAndEpoch(Epoch(0), Offset(0))
    any_request = FetchRequest(
        replica=replica, epoch=Epoch(0), log_end=log_end, max_wait_ms=0, max_bytes=0
    )
    return _encode(any_request, version, cluster_id)[_HEAD.size :]


@lru_cache(_TAILS_MAX)
def _tail_for_round(version: int, replica: ReplicaKey, cluster_id: str | None) -> bytes:
    tail = _tail(version, replica, cluster_id)
    tags_at = _tags_at(tail)
    assert tags_at is not None
    return read_rounds.prepared(tail, tags_at)

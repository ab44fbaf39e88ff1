"""FetchQuorumRecords between flat and Kafka's Fetch, v13 to v17 (KIP-595, KIP-853).

The fetches of one follower differ only in numbers before the first field of variable length. This
head is packed and unpacked here, in a microsecond or two; the tail after it comes from kio once and
is cached. A request of any other form goes through kio. The records of an answer stand between head
and tail; their bytes are neither checked nor changed here.

A read round (`quorum.core.read_index`) is a tagged field of ours (`quorum.protocol.private`) in
answers and, from version 15 on, in requests; Kafka's nodes skip it. Its eight bytes are the last: a
tail with a round can be cached too. Without a round, the bytes are exactly Kafka's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from quorum.core.limits import FETCH_BYTES_MAX, OBSERVERS_MAX
from quorum.core.messages import Error, FetchRequest, FetchResponse
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    NO_REPLICA,
    Epoch,
    HostPort,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.protocol import codec
from quorum.protocol.apis import OWN_TAG, ApiKey
from quorum.protocol.errors import ErrorCode, Malformed, error_name
from quorum.protocol.raft_types import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    NOT_ONE_PARTITION,
    LeaderAndEpoch,
    LocalNode,
    RaftResponse,
    Refusal,
    address_of,
    flat_error,
    node_endpoints,
    wrong_cluster,
)
from quorum.protocol.shape import Data
from quorum.records.varint import read_uvarint, uvarint

_REPLICA_STATE_FROM: Final = 15

_ONE: Final = 2  # A compact array of one item: counts are written plus one, so that 0 is null.
_NULL: Final = 0
_NO_RECORDS: Final = b"\x01"
_TOPIC_ID: Final = METADATA_TOPIC_ID.bytes
_NO_SESSION: Final = (0, -1)
_NONE: Final = -1

# Up to v14 the replica id comes first; from v15 on it is a tagged field, and what is left is:
# wait, bytes min, bytes max, isolation, session id and epoch, topics, topic id, partitions,
# partition, leader epoch, fetch offset, last fetched epoch, log start offset, partition bytes.
_REQUEST_HEAD: Final = Struct(">iiibiiB16sBiiqiqi")

# throttle, error, session id, topics, topic id, partitions, partition, error, high watermark,
# last stable offset, log start offset, aborted transactions, preferred replica.
_RESPONSE_HEAD: Final = Struct(">ihiB16sBihqqqBi")

_ROUND: Final = Struct(">Q")
_ROUND_MARK: Final = uvarint(OWN_TAG) + uvarint(_ROUND.size)
_SOME_ROUND: Final = 1

_TAILS_MAX: Final = OBSERVERS_MAX
"""Each observer of a leader has a tail of its own."""
_TAIL_BYTES_MAX: Final = 1024
"""Tails longer than real ones are not kept: no peer can fill the memory with them."""

T = TypeVar("T")


class _TailReader(Generic[T]):
    """Decodes tails of one kind of message, and caches the latest results."""

    def __init__(self, read: Callable[[int, bytes], tuple[T, int]]) -> None:
        """`read` decodes a tail of some version and its round, or raises `Malformed`."""
        self._read = read
        self._read_kept = lru_cache(_TAILS_MAX)(read)
        self._read_before_kept = lru_cache(_TAILS_MAX)(self._read_before)

    def read(self, version: int, tail: bytes) -> tuple[T, int]:
        """Return the decoded tail and its read round; 0 for none."""
        is_usual = len(tail) <= _TAIL_BYTES_MAX
        round_at = len(tail) - _ROUND.size
        mark_at = round_at - len(_ROUND_MARK)
        # A compiled slice must not begin below 0.
        if mark_at >= 0 and tail[mark_at:round_at] == _ROUND_MARK:
            read_before = self._read_before_kept if is_usual else self._read_before
            found = read_before(version, tail[:round_at])
            if found is not None:
                return found, _ROUND.unpack_from(tail, round_at)[0]
        read = self._read_kept if is_usual else self._read
        return read(version, tail)

    def _read_before(self, version: int, before: bytes) -> T | None:
        """Decode a tail without its round; None if its last bytes only look like a round."""
        try:
            found, round_ = self._read(version, before + _ROUND.pack(_SOME_ROUND))
        except Malformed:
            return None
        return found if round_ == _SOME_ROUND else None


_Sender: TypeAlias = tuple[str | None, ReplicaKey]
"""The tail of a request: the cluster and the replica of its sender."""


class _Asked(NamedTuple):
    """The fields of a request, not validated yet."""

    sender: _Sender
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    topic_id: bytes
    partition: int
    epoch: int
    offset: int
    last_epoch: int
    round: int = 0


def write_fetch_request(request: FetchRequest, version: int, *, cluster_id: str | None) -> bytes:
    """Encode a fetch request; versions up to 16 lack the replica's directory."""
    if version < _REPLICA_STATE_FROM:
        return _encode_request(replace(request, round=0), version, cluster_id)
    head = _REQUEST_HEAD.pack(
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
    tail = _request_tail(version, request.replica, cluster_id, bool(request.round))
    return b"".join((head, tail, _ROUND.pack(request.round))) if request.round else head + tail


def read_fetch_request(version: int, body: Data, here: LocalNode) -> FetchRequest | Refusal:
    """Decode a fetch request, or return the reason to refuse it; raises `Malformed`."""
    asked = _read_usual(version, body) or _read_any(version, body)
    if isinstance(asked, Refusal):
        return asked
    return _refusal(asked, here) or FetchRequest(
        replica=asked.sender[1],
        epoch=Epoch(asked.epoch),
        log_end=OffsetAndEpoch(Epoch(asked.last_epoch), Offset(asked.offset)),
        max_wait_ms=asked.max_wait_ms,
        # Kafka's replicas set no limit for the partition (0); the frame limits it.
        max_bytes=min(
            asked.max_bytes, asked.partition_max_bytes or asked.max_bytes, FETCH_BYTES_MAX
        ),
        round=asked.round,
    )


def _read_usual(version: int, body: Data) -> _Asked | None:
    if version < _REPLICA_STATE_FROM or len(body) < _REQUEST_HEAD.size:
        return None
    head = _REQUEST_HEAD.unpack_from(body)
    if head[6] != _ONE or head[8] != _ONE:
        return None
    sender, round_ = _REQUEST_TAILS.read(version, bytes(body[_REQUEST_HEAD.size :]))
    wait, _, max_bytes, _, _, _, _, topic_id, _, partition, epoch, offset, last_epoch, _, of = head
    return _Asked(
        sender, wait, max_bytes, of, topic_id, partition, epoch, offset, last_epoch, round_
    )


def _read_any(version: int, body: Data) -> _Asked | Refusal:
    request = codec.decode_request(ApiKey.FETCH, version, body)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return NOT_ONE_PARTITION
    (topic,) = request.topics
    (partition,) = topic.partitions
    return _Asked(
        sender=_sender_of(request),
        max_wait_ms=round(request.max_wait.total_seconds() * 1_000),
        max_bytes=request.max_bytes,
        partition_max_bytes=partition.partition_max_bytes,
        topic_id=b"" if topic.topic_id is None else topic.topic_id.bytes,
        partition=partition.partition,
        epoch=partition.current_leader_epoch,
        offset=partition.fetch_offset,
        last_epoch=partition.last_fetched_epoch,
    )


def _read_request_tail(version: int, tail: bytes) -> tuple[_Sender, int]:
    # The tail does not depend on the numbers in the head, so kio reads it behind zeros, once.
    head = _REQUEST_HEAD.pack(0, 0, 0, 0, 0, 0, _ONE, _TOPIC_ID, _ONE, 0, 0, 0, 0, 0, 0)
    request = codec.decode_request(ApiKey.FETCH, version, head + tail)
    return _sender_of(request), request.round


def _sender_of(request: Any) -> _Sender:
    state = getattr(request, "replica_state", request)
    partition = request.topics[0].partitions[0]
    directory_id = getattr(partition, "replica_directory_id", None)
    replica = ReplicaKey(ReplicaId(state.replica_id), directory_id or NO_DIRECTORY)
    return request.cluster_id, replica


_REQUEST_TAILS: Final = _TailReader(_read_request_tail)


def _refusal(asked: _Asked, here: LocalNode) -> Refusal | None:
    """Return the reason why the request is refused, or None."""
    wrong = wrong_cluster(asked.sender[0], here)
    if wrong is not None:
        return wrong
    if asked.topic_id != _TOPIC_ID:
        reason = f"topic {asked.topic_id.hex() or 0} is unknown; this quorum has one metadata log"
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, reason)
    if asked.partition != METADATA_PARTITION:
        reason = f"partition {asked.partition} is unknown; the metadata log has partition 0"
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    invalid = _impossible(asked)
    return None if invalid is None else Refusal.of_invalid(invalid)


def _impossible(asked: _Asked) -> str | None:
    """Return the invalid number, or None."""
    replica = asked.sender[1]
    if replica.id < NO_REPLICA:
        return f"replica {replica.id}: an id is 0 or higher, and {NO_REPLICA} that of a mere reader"
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


def _encode_request(request: FetchRequest, version: int, cluster_id: str | None) -> bytes:
    directory_id = request.replica.directory_id
    partition = {
        "partition": METADATA_PARTITION,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.log_end.offset,
        "last_fetched_epoch": request.log_end.epoch,
        "log_start_offset": _NONE,
        "partition_max_bytes": request.max_bytes,
        "replica_directory_id": None if directory_id == NO_DIRECTORY else directory_id,
    }
    return codec.request_body(
        ApiKey.FETCH,
        version,
        cluster_id=cluster_id,
        # Up to version 14 the first field, and then the second.
        replica_id=request.replica.id,
        replica_state={"replica_id": request.replica.id},
        max_wait=timedelta(milliseconds=request.max_wait_ms),
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
        forgotten_topics_data=(),
        round=request.round,
    )


@lru_cache(_TAILS_MAX)
def _request_tail(
    version: int, replica: ReplicaKey, cluster_id: str | None, has_round: bool
) -> bytes:
    """Encode everything after the head with kio; with a round, up to its eight bytes."""
    log_end = OffsetAndEpoch(Epoch(0), Offset(0))
    any_request = FetchRequest(
        replica=replica,
        epoch=Epoch(0),
        log_end=log_end,
        max_wait_ms=0,
        max_bytes=0,
        round=_SOME_ROUND if has_round else 0,
    )
    tail = _encode_request(any_request, version, cluster_id)[_REQUEST_HEAD.size :]
    return tail[: -_ROUND.size] if has_round else tail


class _Known(NamedTuple):
    """The tail of an answer: the tagged fields at its end, up to the round of reads."""

    epoch: int
    leader: ReplicaId | None
    leader_address: HostPort | None
    diverging: OffsetAndEpoch | None
    snapshot: OffsetAndEpoch | None


def write_fetch_response(
    response: FetchResponse,
    version: int,
    *,
    records: Data,
    leader_address: HostPort | None,
) -> Sequence[Data]:
    """Encode a fetch response in parts; `records` are one of them, unchanged."""
    top_code = response.error if response.error is Error.INCONSISTENT_CLUSTER_ID else 0
    high_watermark = _NONE if response.high_watermark is None else response.high_watermark
    current = LeaderAndEpoch(response.epoch, response.leader, leader_address)
    head = _pack_response_head(top_code, response.error, high_watermark, response.log_start)
    has_round = bool(response.round)
    tail = _response_tail(version, current, response.diverging, response.snapshot, has_round)
    if has_round:
        tail += _ROUND.pack(response.round)
    if not records:
        return (b"".join((head, _NO_RECORDS, tail)),)
    return head + uvarint(len(records) + 1), records, tail


def write_fetch_refusal(version: int, refusal: Refusal, current: LeaderAndEpoch) -> bytes:
    """Encode the response to a request that `read_fetch_request` refused."""
    top_code = refusal.code if refusal.top_level else 0
    head = _pack_response_head(top_code, refusal.code, _NONE, _NONE)
    return b"".join((head, _NO_RECORDS, _response_tail(version, current, None, None, False)))


def read_fetch_response(version: int, body: Data) -> RaftResponse | Refusal:
    """Decode a fetch response, or return its refusal; raises `Malformed`."""
    if len(body) < _RESPONSE_HEAD.size:
        return _refused_whole(version, body)
    head = _RESPONSE_HEAD.unpack_from(body)
    _, top_code, _, topics, topic_id, partitions, partition, code, *offsets, aborted, _ = head
    if topics != _ONE or partitions != _ONE:
        return _refused_whole(version, body)
    if topic_id != _TOPIC_ID or partition != METADATA_PARTITION or aborted >= _ONE:
        reason = f"answers for partition {partition} of topic {topic_id.hex()}"
        raise Malformed(ApiKey.FETCH, version, reason)
    records, known, round_ = _records_and_tail(version, body)
    error = flat_error(top_code or code)
    if error is None or (error and known.epoch < 0):
        return Refusal(top_code or code, error_name(top_code or code), top_level=bool(top_code))
    high_watermark, _, log_start = offsets
    if known.epoch < 0 or high_watermark < _NONE:
        reason = f"leader epoch {known.epoch}, high watermark {high_watermark}"
        raise Malformed(ApiKey.FETCH, version, reason)
    response = FetchResponse(
        error=error,
        epoch=Epoch(known.epoch),
        leader=known.leader,
        high_watermark=None if high_watermark == _NONE else Offset(high_watermark),
        log_start=Offset(max(0, log_start)),
        diverging=known.diverging,
        snapshot=known.snapshot,
        round=round_,
    )
    return RaftResponse(response=response, records=records, leader_address=known.leader_address)


def _records_and_tail(version: int, body: Data) -> tuple[Data, _Known, int]:
    try:
        claimed, start = read_uvarint(body, _RESPONSE_HEAD.size)
    except ValueError as error:
        raise Malformed(ApiKey.FETCH, version, str(error)) from None
    end = start + max(0, claimed - 1)
    if end > len(body):
        reason = f"{end - start} bytes of records, where {len(body) - start} bytes are left"
        raise Malformed(ApiKey.FETCH, version, reason)
    return body[start:end], *_RESPONSE_TAILS.read(version, bytes(body[end:]))


def _read_response_tail(version: int, tail: bytes) -> tuple[_Known, int]:
    head = _pack_response_head(0, 0, 0, 0)
    # The tail does not depend on the head; kio reads it once.
    response = codec.decode_response(ApiKey.FETCH, version, b"".join((head, _NO_RECORDS, tail)))
    partition = response.responses[0].partitions[0]
    leader_id = partition.current_leader.leader_id
    leader = ReplicaId(leader_id) if leader_id >= 0 else None
    known = _Known(
        epoch=partition.current_leader.leader_epoch,
        leader=leader,
        leader_address=address_of(leader, response),
        diverging=_log_end(version, partition.diverging_epoch),
        snapshot=_log_end(version, partition.snapshot_id),
    )
    return known, response.round


_RESPONSE_TAILS: Final = _TailReader(_read_response_tail)


def _log_end(version: int, value: Any) -> OffsetAndEpoch | None:
    if value.epoch < 0 and value.end_offset < 0:
        return None
    if value.epoch < 0 or value.end_offset < 0:
        raise Malformed(ApiKey.FETCH, version, f"half an id: {value.end_offset}@{value.epoch}")
    return OffsetAndEpoch(Epoch(value.epoch), Offset(value.end_offset))


def _refused_whole(version: int, body: Data) -> Refusal:
    """Return the refusal in a response without the requested partition."""
    response = codec.decode_response(ApiKey.FETCH, version, body)
    if response.error_code == 0:
        raise Malformed(ApiKey.FETCH, version, "neither an error nor exactly one partition")
    return Refusal(response.error_code.value, error_name(response.error_code.value))


def _pack_response_head(top_code: int, code: int, high_watermark: int, log_start: int) -> bytes:
    return _RESPONSE_HEAD.pack(
        0,
        top_code,
        0,
        _ONE,
        _TOPIC_ID,
        _ONE,
        METADATA_PARTITION,
        code,
        high_watermark,
        _NONE,
        log_start,
        _NULL,
        NO_REPLICA,
    )


@lru_cache(_TAILS_MAX)
def _response_tail(
    version: int,
    current: LeaderAndEpoch,
    diverging: OffsetAndEpoch | None,
    snapshot: OffsetAndEpoch | None,
    has_round: bool,
) -> bytes:
    """Encode everything after the records with kio; with a round, up to its eight bytes."""
    partition: dict[str, object] = {
        "partition_index": METADATA_PARTITION,
        "error_code": 0,
        "high_watermark": 0,
        "log_start_offset": 0,
        "current_leader": {
            "leader_id": NO_REPLICA if current.leader is None else current.leader,
            "leader_epoch": current.epoch,
        },
        "aborted_transactions": None,
        "records": b"",
    }
    for name, end in (("diverging_epoch", diverging), ("snapshot_id", snapshot)):
        if end is not None:
            partition[name] = {"epoch": end.epoch, "end_offset": end.offset}
    body = codec.response_body(
        ApiKey.FETCH,
        version,
        error_code=0,
        responses=[{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
        node_endpoints=node_endpoints(current),
        round=_SOME_ROUND if has_round else 0,
    )
    tail = body[_RESPONSE_HEAD.size + len(_NO_RECORDS) :]
    return tail[: -_ROUND.size] if has_round else tail

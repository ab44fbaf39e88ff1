"""Answers of FetchQuorumRecords between flat and Kafka's Fetch, v13 to v17 (KIP-595, KIP-853).

As with the requests, the head of plain numbers is packed and unpacked here, and the tagged fields
at the end come from kio once and are kept. The records stand between the two: their bytes are
neither checked nor changed here, and leave as they are. An answer can carry a round of reads
(`quorum.protocol.read_rounds`).
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from quorum.core.messages import Error, FetchResponse
from quorum.core.vocabulary import NO_REPLICA, Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.protocol import codec, read_rounds
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import make, make_known, nested
from quorum.protocol.errors import error_name
from quorum.protocol.malformed import Malformed
from quorum.protocol.raft_types import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    HostPort,
    LeaderAndEpoch,
    RaftResponse,
    Refusal,
    address_of,
    flat_error,
)
from quorum.protocol.shape import Data
from quorum.records.varint import read_uvarint, uvarint

_NODE_ENDPOINTS_FROM: Final = 16

_ONE: Final = 2  # A compact array of one item: counts are written plus one, so that 0 is null.
_NULL: Final = 0
_NO_RECORDS: Final = b"\x01"
_UNKNOWN: Final = -1
_TOPIC_ID: Final = METADATA_TOPIC_ID.bytes

# throttle, error, session id, topics, topic id, partitions, partition, error, high watermark,
# last stable offset, log start offset, aborted transactions, preferred replica.
_HEAD: Final = Struct(">ihiB16sBihqqqBi")

_TAILS_MAX: Final = 256
_TAIL_BYTES_MAX: Final = 1024
"""Tails longer than real ones are not kept: no peer can fill the memory with them."""


class _Tail(NamedTuple):
    """The tagged fields at the end, up to the round of reads."""

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
    """The parts of the body, `records` as they are among them."""
    top_code = response.error if response.error is Error.INCONSISTENT_CLUSTER_ID else 0
    high_watermark = _UNKNOWN if response.high_watermark is None else response.high_watermark
    standing = LeaderAndEpoch(response.epoch, response.leader, leader_address)
    snapshot = response.snapshot
    head = _pack_head(top_code, response.error, high_watermark, response.log_start)
    if response.round:
        before = _tail_for_round(version, standing, response.diverging, snapshot)
        tail = before + read_rounds.pack(response.round)
    else:
        tail = _tail(version, standing, response.diverging, snapshot)
    if not records:
        return (b"".join((head, _NO_RECORDS, tail)),)
    return head + uvarint(len(records) + 1), records, tail


def write_fetch_refusal(version: int, refusal: Refusal, standing: LeaderAndEpoch) -> bytes:
    """An answer that the core was not asked for."""
    top_code = refusal.code if refusal.top_level else 0
    head = _pack_head(top_code, refusal.code, _UNKNOWN, _UNKNOWN)
    return b"".join((head, _NO_RECORDS, _tail(version, standing, None, None)))


def read_fetch_response(version: int, body: Data) -> RaftResponse | Refusal:
    """The flat answer and its records, or why the request was refused; raises `Malformed`."""
    if len(body) < _HEAD.size:
        return _refused_whole(version, body)
    head = _HEAD.unpack_from(body)
    _, top_code, _, topics, topic_id, partitions, partition, code, *offsets, aborted, _ = head
    if topics != _ONE or partitions != _ONE:
        return _refused_whole(version, body)
    if topic_id != _TOPIC_ID or partition != METADATA_PARTITION or aborted >= _ONE:
        reason = f"answers for partition {partition} of topic {topic_id.hex()}"
        raise Malformed(ApiKey.FETCH, version, reason)
    records, tail, round_ = _records_and_tail(version, body)
    if flat_error(top_code or code) is None or (tail.epoch < 0 and (top_code or code)):
        reason = error_name(top_code or code)
        return Refusal(top_code or code, reason, top_level=bool(top_code))
    response = _flat(version, Error(top_code or code), offsets[0], offsets[2], tail, round_)
    return RaftResponse(
        response=response,
        records=records,
        leader_address=tail.leader_address,
    )


def _flat(
    version: int, error: Error, high_watermark: int, log_start: int, tail: _Tail, round_: int
) -> FetchResponse:
    if tail.epoch < 0 or high_watermark < _UNKNOWN:
        reason = f"leader epoch {tail.epoch}, high watermark {high_watermark}"
        raise Malformed(ApiKey.FETCH, version, reason)
    return FetchResponse(
        error=error,
        epoch=Epoch(tail.epoch),
        leader=tail.leader,
        high_watermark=None if high_watermark == _UNKNOWN else Offset(high_watermark),
        log_start=Offset(max(0, log_start)),
        diverging=tail.diverging,
        snapshot=tail.snapshot,
        round=round_,
    )


def _records_and_tail(version: int, body: Data) -> tuple[Data, _Tail, int]:
    try:
        claimed, start = read_uvarint(body, _HEAD.size)
    except ValueError as error:
        raise Malformed(ApiKey.FETCH, version, str(error)) from None
    end = start + max(0, claimed - 1)
    if end > len(body):
        reason = f"{end - start} bytes of records, where {len(body) - start} bytes are left"
        raise Malformed(ApiKey.FETCH, version, reason)
    return body[start:end], *_tail_of(version, bytes(body[end:]))


def _tail_of(version: int, data: bytes) -> tuple[_Tail, int]:
    """Return the part behind the records, and the round of reads; 0 for none."""
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


@lru_cache(_TAILS_MAX)
def _read_before(version: int, before: bytes) -> _Tail | None:
    """Return the tail before a round; None if the bytes are no round."""
    try:
        tail = _read_tail.__wrapped__(version, before + read_rounds.NO_ROUND)
    except Malformed:
        return None
    return tail if read_rounds.ends_with_round(before, _tags_at(before)) else None


def _tags_at(tail: bytes) -> int:
    """The position of the response's tagged fields; the tail is well-formed."""
    return read_rounds.after_tags(tail, read_rounds.after_tags(tail, 0))


@lru_cache(_TAILS_MAX)
def _tail_for_round(
    version: int,
    standing: LeaderAndEpoch,
    diverging: OffsetAndEpoch | None,
    snapshot: OffsetAndEpoch | None,
) -> bytes:
    tail = _tail(version, standing, diverging, snapshot)
    return read_rounds.prepared(tail, _tags_at(tail))


@lru_cache(_TAILS_MAX)
def _read_tail(version: int, tail: bytes) -> _Tail:
    head = _pack_head(0, 0, 0, 0)
    # The tail means the same behind any head; kio reads it once.
    response = codec.decode_response(ApiKey.FETCH, version, b"".join((head, _NO_RECORDS, tail)))
    partition = response.responses[0].partitions[0]
    leader_id = partition.current_leader.leader_id
    leader = ReplicaId(leader_id) if leader_id >= 0 else None
    return _Tail(
        epoch=partition.current_leader.leader_epoch,
        leader=leader,
        leader_address=address_of(leader, response),
        diverging=_log_end(partition.diverging_epoch),
        snapshot=_log_end(partition.snapshot_id),
    )


def _log_end(value: Any) -> OffsetAndEpoch | None:
    if value.epoch < 0 or value.end_offset < 0:
        return None
    return OffsetAndEpoch(Epoch(value.epoch), Offset(value.end_offset))


def _refused_whole(version: int, body: Data) -> Refusal:
    """An answer without the one partition that was asked for says why."""
    response = codec.decode_response(ApiKey.FETCH, version, body)
    if response.error_code == 0:
        raise Malformed(ApiKey.FETCH, version, "neither an error nor exactly one partition")
    return Refusal(response.error_code.value, error_name(response.error_code.value))


def _pack_head(top_code: int, code: int, high_watermark: int, log_start: int) -> bytes:
    return _HEAD.pack(
        0,
        top_code,
        0,
        _ONE,
        _TOPIC_ID,
        _ONE,
        METADATA_PARTITION,
        code,
        high_watermark,
        _UNKNOWN,
        log_start,
        _NULL,
        NO_REPLICA,
    )


@lru_cache(_TAILS_MAX)
def _tail(
    version: int,
    standing: LeaderAndEpoch,
    diverging: OffsetAndEpoch | None,
    snapshot: OffsetAndEpoch | None,
) -> bytes:
    """All that follows the records, as kio writes it."""
    schema = codec.response_schema(ApiKey.FETCH, version)
    partition: dict[str, object] = {
        "partition_index": METADATA_PARTITION,
        "error_code": codec.error_code(0),
        "high_watermark": 0,
        "log_start_offset": 0,
        "current_leader": make(
            nested(schema, "LeaderIdAndEpoch"),
            leader_id=NO_REPLICA if standing.leader is None else standing.leader,
            leader_epoch=standing.epoch,
        ),
        "aborted_transactions": None,
        "records": b"",
    }
    for name, kind, end in (
        ("diverging_epoch", "EpochEndOffset", diverging),
        ("snapshot_id", "SnapshotId", snapshot),
    ):
        if end is not None:
            partition[name] = make(nested(schema, kind), epoch=end.epoch, end_offset=end.offset)
    topic = make(
        nested(schema, "FetchableTopicResponse"),
        topic_id=METADATA_TOPIC_ID,
        partitions=(make(nested(schema, "PartitionData"), **partition),),
    )
    response = make_known(
        schema,
        throttle_time=timedelta(0),
        error_code=codec.error_code(0),
        responses=(topic,),
        node_endpoints=_node_endpoints(schema, version, standing),
    )
    body = codec.encode_response_body(ApiKey.FETCH, version, response)
    return body[_HEAD.size + len(_NO_RECORDS) :]


def _node_endpoints(schema: type[Any], version: int, standing: LeaderAndEpoch) -> tuple[Any, ...]:
    if version < _NODE_ENDPOINTS_FROM or standing.leader is None:
        return ()
    if standing.leader_address is None:
        return ()
    host, port = standing.leader_address
    return (make(nested(schema, "NodeEndpoint"), node_id=standing.leader, host=host, port=port),)

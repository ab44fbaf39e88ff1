import struct
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.messages import Error, FetchRequest, FetchResponse
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.raft_messages import (
    read_request,
    read_response,
    write_refusal,
    write_request,
    write_response,
)
from quorum.protocol.raft_types import LeaderAndEpoch, LocalNode, RaftResponse, Refusal
from tests.quorum.protocol.raft_message_strategies import (
    ADDRESSES,
    CLUSTER_ID,
    CLUSTER_IDS,
    FETCH_RESPONSES,
    FETCHES,
    HERE,
    LOG_ENDS,
    ME,
)
from tests.support.kio_values import make, make_known, nested

VERSIONS = st.integers(13, 17)
RECORDS = st.binary(max_size=300)
TOPIC_ID = UUID(int=1)
STANDING = LeaderAndEpoch(Epoch(7), ReplicaId(3), ("leader.example", 9_093))


def kios_request(
    request: FetchRequest, version: int, cluster_id: str | None, **changes: Any
) -> bytes:
    """The same request, built and written by kio alone."""
    schema = codec.request_schema(ApiKey.FETCH, version)
    times = changes.pop("times", (1, 1))
    topic_id = changes.pop("topic_id", TOPIC_ID)
    top = {
        "cluster_id": cluster_id,
        "max_wait": timedelta(milliseconds=request.max_wait_ms),
        "min_bytes": 0,
        "max_bytes": request.max_bytes,
        "forgotten_topics_data": (),
        "replica_id": request.replica.id,
    }
    if version >= 15:
        state = nested(schema, "ReplicaState")
        top["replica_state"] = make(state, replica_id=changes.pop("replica_id", request.replica.id))
    directory_id = request.replica.directory_id
    values = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.log_end.offset,
        "last_fetched_epoch": request.log_end.epoch,
        "partition_max_bytes": request.max_bytes,
        "replica_directory_id": directory_id if directory_id.int else None,
    }
    values |= {name: value for name, value in changes.items() if name in values}
    top |= {name: value for name, value in changes.items() if name not in values}
    partition = make_known(nested(schema, "FetchPartition"), **values)
    topic = make(
        nested(schema, "FetchTopic"), topic_id=topic_id, partitions=(partition,) * times[1]
    )
    message = make_known(schema, topics=(topic,) * times[0], **top)
    return codec.encode_request_body(ApiKey.FETCH, version, message)


def kios_response(
    response: FetchResponse,
    version: int,
    records: bytes | None,
    snapshot: OffsetAndEpoch | None = None,
    address: tuple[str, int] | None = None,
    **changes: Any,
) -> bytes:
    """The same answer, built and written by kio alone."""
    schema = codec.response_schema(ApiKey.FETCH, version)
    leader = -1 if response.leader is None else response.leader
    of_leader = nested(schema, "LeaderIdAndEpoch")
    values: dict[str, Any] = {
        "partition_index": 0,
        "error_code": codec.error_code(response.error),
        "high_watermark": -1 if response.high_watermark is None else response.high_watermark,
        "log_start_offset": response.log_start,
        "current_leader": make(of_leader, leader_id=leader, leader_epoch=response.epoch),
        "aborted_transactions": None,
        "records": records,
    }
    if response.diverging is not None:
        end = response.diverging
        of_end = nested(schema, "EpochEndOffset")
        values["diverging_epoch"] = make(of_end, epoch=end.epoch, end_offset=end.offset)
    if snapshot is not None:
        of_end = nested(schema, "SnapshotId")
        values["snapshot_id"] = make(of_end, epoch=snapshot.epoch, end_offset=snapshot.offset)
    endpoints: tuple[Any, ...] = ()
    if version >= 16 and address is not None and leader >= 0:
        of_node = nested(schema, "NodeEndpoint")
        endpoints = (make(of_node, node_id=leader, host=address[0], port=address[1]),)
    values |= {name: value for name, value in changes.items() if name in values}
    topic = make(
        nested(schema, "FetchableTopicResponse"),
        topic_id=changes.get("topic_id", TOPIC_ID),
        partitions=(make(nested(schema, "PartitionData"), **values),),
    )
    whole = response.error is Error.INCONSISTENT_CLUSTER_ID
    message = make_known(
        schema,
        throttle_time=timedelta(0),
        error_code=codec.error_code(changes.get("top_code", response.error if whole else 0)),
        responses=(topic,) * changes.get("times", 1),
        node_endpoints=endpoints,
    )
    return codec.encode_response_body(ApiKey.FETCH, version, message)


@given(FETCHES, VERSIONS, CLUSTER_IDS)
def test_requests_equal_those_of_kio_and_arrive_unchanged(
    request: FetchRequest, version: int, cluster_id: str | None
) -> None:
    body = write_request(request, version, to=ME, cluster_id=cluster_id)
    assert body == kios_request(request, version, cluster_id)
    here = LocalNode(cluster_id=cluster_id, replica=ME)
    directory_id = request.replica.directory_id if version >= 17 else UUID(int=0)
    expected = FetchRequest(
        replica=ReplicaKey(request.replica.id, directory_id),
        epoch=request.epoch,
        log_end=request.log_end,
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
    )
    assert read_request(ApiKey.FETCH, version, body, here=here) == expected
    assert read_request(ApiKey.FETCH, version, memoryview(body), here=here) == expected


@given(FETCH_RESPONSES, VERSIONS, RECORDS, st.none() | LOG_ENDS, ADDRESSES)
def test_answers_equal_those_of_kio_and_arrive_unchanged(
    response: FetchResponse,
    version: int,
    records: bytes,
    snapshot: OffsetAndEpoch | None,
    address: tuple[str, int] | None,
) -> None:
    response = replace(response, snapshot=snapshot)
    parts = write_response(response, version, records=records, leader_address=address)
    body = b"".join(parts)
    assert body == kios_response(response, version, records, snapshot, address)
    known = address if version >= 16 and response.leader is not None else None
    expected = RaftResponse(response=response, records=records, leader_address=known)
    assert read_response(ApiKey.FETCH, version, body) == expected
    assert read_response(ApiKey.FETCH, version, memoryview(body)) == expected


def test_records_are_handed_on_and_taken_out_without_a_copy() -> None:
    records = bytes(100_000)
    response = FetchResponse(epoch=Epoch(3), leader=ReplicaId(1))
    parts = write_response(response, 17, records=records)
    assert any(part is records for part in parts)
    body = memoryview(b"".join(parts))
    answer = read_response(ApiKey.FETCH, 17, body)
    assert isinstance(answer, RaftResponse)
    assert isinstance(answer.records, memoryview)
    assert answer.records.obj is body.obj


REQUEST = FetchRequest(
    replica=ReplicaKey(ReplicaId(7), UUID(int=3 << 100)),
    epoch=Epoch(5),
    log_end=OffsetAndEpoch(Epoch(4), Offset(100)),
    max_wait_ms=500,
    max_bytes=1_000_000,
)


@pytest.mark.parametrize("version", range(13, 18))
def test_the_fetch_of_a_kafka_broker_is_understood(version: int) -> None:
    """A broker gives no bound for the partition, may send a rack, and starts with epoch 0."""
    body = kios_request(
        REQUEST, version, CLUSTER_ID, partition_max_bytes=0, rack_id="r1", min_bytes=1
    )
    fetched = read_request(ApiKey.FETCH, version, body, here=HERE)
    assert isinstance(fetched, FetchRequest)
    assert (fetched.replica.id, fetched.max_bytes) == (7, 1_000_000)
    directory_id = REQUEST.replica.directory_id if version >= 17 else UUID(int=0)
    assert fetched.replica.directory_id == directory_id
    first = FetchRequest(
        replica=ReplicaKey(ReplicaId(7)),
        epoch=Epoch(0),
        log_end=OffsetAndEpoch(Epoch(0), Offset(0)),
        max_wait_ms=500,
        max_bytes=8 * 1024 * 1024,
    )
    body = kios_request(first, version, None, partition_max_bytes=0)
    assert read_request(ApiKey.FETCH, version, body, here=HERE) == first


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_bytes": 2**31 - 1, "partition_max_bytes": 0}, FETCH_BYTES_MAX),
        ({"max_bytes": 2**31 - 1, "partition_max_bytes": 1_000}, 1_000),
        ({"max_bytes": 10, "partition_max_bytes": 1_000}, 10),
        ({"max_bytes": 0, "partition_max_bytes": 0}, 0),
    ],
)
def test_an_answer_is_bounded_by_all_that_bounds_it(changes: dict[str, int], expected: int) -> None:
    body = kios_request(REQUEST, 17, None, **changes)
    fetched = read_request(ApiKey.FETCH, 17, body, here=HERE)
    assert isinstance(fetched, FetchRequest)
    assert fetched.max_bytes == expected


@pytest.mark.parametrize("version", range(13, 18))
@pytest.mark.parametrize(
    ("changes", "code", "top_level", "reason"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID, True, "of cluster other"),
        ({"topic_id": UUID(int=2)}, ErrorCode.UNKNOWN_TOPIC_ID, True, "02 is unknown"),
        ({"topic_id": None}, ErrorCode.UNKNOWN_TOPIC_ID, True, "0 is unknown"),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, "partition 1 is unknown"),
        ({"times": (0, 1)}, ErrorCode.INVALID_REQUEST, True, "exactly one topic"),
        ({"times": (2, 1)}, ErrorCode.INVALID_REQUEST, True, "exactly one topic"),
        ({"times": (1, 0)}, ErrorCode.INVALID_REQUEST, True, "exactly one topic"),
        ({"times": (1, 2)}, ErrorCode.INVALID_REQUEST, True, "exactly one topic"),
        ({"replica_id": -2}, ErrorCode.INVALID_REQUEST, False, "replica -2"),
        (
            {"max_wait": timedelta(milliseconds=-1)},
            ErrorCode.INVALID_REQUEST,
            False,
            "wait of -1 ms",
        ),
        ({"max_bytes": -1}, ErrorCode.INVALID_REQUEST, False, "at most -1 bytes"),
        ({"partition_max_bytes": -1}, ErrorCode.INVALID_REQUEST, False, "-1 of the partition"),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST, False, "log end -1@4"),
        ({"last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST, False, "log end 100@-1"),
        ({"current_leader_epoch": 3}, ErrorCode.INVALID_REQUEST, False, "epoch 3 of the leader"),
    ],
)
def test_fetches_that_cannot_be_served_are_refused_with_a_reason(
    version: int, changes: dict[str, Any], code: ErrorCode, top_level: bool, reason: str
) -> None:
    cluster_id = changes.get("cluster_id", CLUSTER_ID)
    others = {name: value for name, value in changes.items() if name != "cluster_id"}
    body = kios_request(REQUEST, version, cluster_id, **others)
    refusal = read_request(ApiKey.FETCH, version, body, here=HERE)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.top_level) == (code, top_level)
    assert reason in refusal.reason


@pytest.mark.parametrize("version", range(13, 18))
@pytest.mark.parametrize("top_level", [True, False])
def test_a_refused_fetch_still_names_one_partition_and_the_leader(
    version: int, top_level: bool
) -> None:
    refusal = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "a reason for our log", top_level)
    body = write_refusal(ApiKey.FETCH, version, refusal, STANDING)
    message = codec.decode_response(ApiKey.FETCH, version, body)
    ((partition,),) = (topic.partitions for topic in message.responses)
    assert message.error_code == (ErrorCode.UNKNOWN_TOPIC_ID if top_level else 0)
    assert (partition.error_code, partition.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert partition.current_leader.leader_id == 3
    assert partition.current_leader.leader_epoch == 7
    assert partition.records == b""
    if version >= 16:
        (endpoint,) = message.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (3, "leader.example", 9_093)
    expected = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "UNKNOWN_TOPIC_ID", top_level)
    assert read_response(ApiKey.FETCH, version, body) == expected


RESPONSE = FetchResponse(epoch=Epoch(3), leader=ReplicaId(1), high_watermark=Offset(90))


def test_kafkas_empty_answers_are_read() -> None:
    """Records and aborted transactions may be null or empty."""
    for records in (None, b""):
        for aborted in (None, ()):
            body = kios_response(RESPONSE, 17, records, aborted_transactions=aborted)
            assert read_response(ApiKey.FETCH, 17, body) == RaftResponse(response=RESPONSE)


def test_kafkas_refusal_without_a_topic_is_read() -> None:
    body = kios_response(RESPONSE, 17, b"", times=0, top_code=104)
    assert read_response(ApiKey.FETCH, 17, body) == Refusal(104, "INCONSISTENT_CLUSTER_ID")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"times": 0}, "neither an error nor exactly one partition"),
        ({"times": 2}, "neither an error nor exactly one partition"),
        ({"topic_id": UUID(int=2)}, "answers for partition 0 of topic 0+2"),
        ({"partition_index": 1}, "answers for partition 1 of topic 0+1"),
        ({"high_watermark": -2}, "high watermark -2"),
    ],
)
def test_answers_that_fit_no_fetch_are_malformed(changes: dict[str, Any], reason: str) -> None:
    body = kios_response(RESPONSE, 17, b"", **changes)
    with pytest.raises(Malformed, match=reason):
        read_response(ApiKey.FETCH, 17, body)


def test_records_that_did_not_come_whole_are_malformed() -> None:
    body = kios_response(RESPONSE, 17, b"")
    claim = body.index(b"\x01\x01\x01\x09", 63)
    cut = body[:claim] + b"\xc8\x01" + body[claim + 1 :]
    with pytest.raises(Malformed, match=r"199 bytes of records, where 1[0-9] bytes are left"):
        read_response(ApiKey.FETCH, 17, cut)


def test_an_answer_without_an_epoch_is_malformed() -> None:
    nobody = FetchResponse(epoch=Epoch(-1), leader=None)
    with pytest.raises(Malformed, match="leader epoch -1"):
        read_response(ApiKey.FETCH, 17, kios_response(nobody, 17, b""))


@given(FETCH_RESPONSES, VERSIONS, RECORDS, st.data())
def test_a_cut_answer_is_malformed(
    response: FetchResponse, version: int, records: bytes, data: st.DataObject
) -> None:
    body = kios_response(response, version, records)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    with pytest.raises(Malformed):
        read_response(ApiKey.FETCH, version, cut)


@given(FETCHES, VERSIONS, st.data())
def test_a_cut_or_longer_request_is_malformed(
    request: FetchRequest, version: int, data: st.DataObject
) -> None:
    body = kios_request(request, version, CLUSTER_ID)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    for other in (cut, body + b"\x00", body + bytes(2_000)):
        with pytest.raises(Malformed):
            read_request(ApiKey.FETCH, version, other, here=HERE)


@given(FETCHES, FETCH_RESPONSES, st.data())
def test_a_damaged_message_is_read_or_malformed(
    request: FetchRequest, response: FetchResponse, data: st.DataObject
) -> None:
    for body, read in (
        (kios_request(request, 17, "c"), lambda b: read_request(ApiKey.FETCH, 17, b, here=HERE)),
        (kios_response(response, 17, b"xyz"), lambda b: read_response(ApiKey.FETCH, 17, b)),
    ):
        damaged = bytearray(body)
        damaged[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        try:
            read(bytes(damaged))
        except Malformed:
            continue


@given(VERSIONS)
def test_half_an_id_of_a_snapshot_is_no_answer(version: int) -> None:
    """Neither "fetch this snapshot" nor "there is nothing new"."""
    whole = FetchResponse(
        epoch=Epoch(3), leader=ReplicaId(1), snapshot=OffsetAndEpoch(Epoch(2), Offset(7))
    )
    body = b"".join(write_response(whole, version))
    ending = struct.pack(">qi", 7, 2)
    assert body.count(ending) == 1
    for half in (struct.pack(">qi", -1, 2), struct.pack(">qi", 7, -1)):
        with pytest.raises(Malformed, match="half an id"):
            read_response(ApiKey.FETCH, version, body.replace(ending, half))

"""The read round in Fetch: known to our nodes, and ignored by others."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.messages import FetchRequest, FetchResponse
from quorum.core.vocabulary import OffsetAndEpoch
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.protocol.raft_messages import read_request, read_response, write_request, write_response
from quorum.protocol.raft_types import LocalNode, RaftResponse
from tests.quorum.protocol.raft_message_strategies import (
    ADDRESSES,
    CLUSTER_IDS,
    FETCH_RESPONSES,
    FETCHES,
    HERE,
    LOG_ENDS,
    ME,
)

ROUNDS = st.integers(1, 2**64 - 1)
VERSIONS = st.integers(15, 17)
OTHER_TAG = b"\xa0\x9c\x01"  # 20,000
LIKE_A_ROUND = b"\x90\x4e\x08" + bytes(range(8))


@given(FETCHES, VERSIONS, CLUSTER_IDS, ROUNDS)
def test_an_echo_arrives_and_the_rest_is_as_without_it(
    request: FetchRequest, version: int, cluster_id: str | None, number: int
) -> None:
    here = LocalNode(cluster_id=cluster_id, replica=ME)
    plain = write_request(request, version, to=ME, cluster_id=cluster_id)
    echoing = replace(request, round=number)
    body = write_request(echoing, version, to=ME, cluster_id=cluster_id)
    decoded = codec.decode_request(ApiKey.FETCH, version, body)
    assert decoded.round == number
    assert replace(decoded, round=0) == codec.decode_request(ApiKey.FETCH, version, plain)
    expected = read_request(ApiKey.FETCH, version, plain, here=here)
    assert isinstance(expected, FetchRequest)
    for data in (body, memoryview(body)):
        found = read_request(ApiKey.FETCH, version, data, here=here)
        assert found == replace(expected, round=number)


@given(FETCH_RESPONSES, st.integers(13, 17), st.binary(), st.none() | LOG_ENDS, ADDRESSES, ROUNDS)
def test_a_round_arrives_and_the_rest_is_as_without_it(
    response: FetchResponse,
    version: int,
    records: bytes,
    snapshot: OffsetAndEpoch | None,
    address: tuple[str, int] | None,
    number: int,
) -> None:
    def written(message: FetchResponse) -> bytes:
        message = replace(message, snapshot=snapshot)
        parts = write_response(message, version, records=records, leader_address=address)
        return b"".join(parts)

    plain, body = written(response), written(replace(response, round=number))
    decoded = codec.decode_response(ApiKey.FETCH, version, body)
    assert decoded.round == number
    assert replace(decoded, round=0) == codec.decode_response(ApiKey.FETCH, version, plain)
    expected = read_response(ApiKey.FETCH, version, plain)
    assert isinstance(expected, RaftResponse)
    assert isinstance(expected.response, FetchResponse)
    found = read_response(ApiKey.FETCH, version, body)
    assert found == replace(expected, response=replace(expected.response, round=number))


@given(FETCHES, FETCH_RESPONSES)
def test_a_field_that_only_resembles_a_round_is_none(
    request: FetchRequest, response: FetchResponse
) -> None:
    """The last field may be another one that ends with the same bytes."""
    foreign = OTHER_TAG + bytes((len(LIKE_A_ROUND),)) + LIKE_A_ROUND
    asked = write_request(request, 17, to=ME, cluster_id="c")
    # The cluster's id and the replica's state are the two tagged fields of the whole.
    at = asked.rindex(b"\x02\x00\x02\x02c\x01")
    grown = asked[:at] + b"\x03" + asked[at + 1 :] + foreign
    here = LocalNode(cluster_id="c", replica=ME)
    assert read_request(ApiKey.FETCH, 17, grown, here=here) == request
    answer = b"".join(write_response(response, 17, records=b"", leader_address=None))
    assert answer[-1] == 0
    grown = answer[:-1] + b"\x01" + foreign
    assert read_response(ApiKey.FETCH, 17, grown) == RaftResponse(response=response)


@given(FETCHES, FETCH_RESPONSES)
def test_a_round_is_written_behind_all_other_fields(
    request: FetchRequest, response: FetchResponse
) -> None:
    written = b"\x90\x4e\x08" + bytes(7) + b"\x07"
    asked = write_request(replace(request, round=7), 17, to=ME, cluster_id="c")
    assert asked.endswith(written)
    response = replace(response, round=7)
    answer = b"".join(write_response(response, 17, records=b"", leader_address=("h", 1)))
    assert answer.endswith(written)


@given(FETCHES, FETCH_RESPONSES, ROUNDS, st.data())
def test_a_damaged_message_with_a_round_is_read_or_malformed(
    request: FetchRequest, response: FetchResponse, number: int, data: st.DataObject
) -> None:
    asked = write_request(replace(request, round=number), 17, to=ME, cluster_id="c")
    parts = write_response(
        replace(response, round=number), 17, records=b"xyz", leader_address=("h", 1)
    )
    for body in (asked, b"".join(parts)):
        damaged = bytearray(body)
        damaged[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        try:
            if body is asked:
                read_request(ApiKey.FETCH, 17, bytes(damaged), here=HERE)
            else:
                read_response(ApiKey.FETCH, 17, bytes(damaged))
        except Malformed:
            continue


@pytest.mark.parametrize("version", [13, 14])
def test_before_version_15_nothing_is_echoed(version: int) -> None:
    request = FetchRequest(
        replica=replace(ME, directory_id=UUID(int=0)),
        epoch=1,  # type: ignore[arg-type]
        log_end=OffsetAndEpoch(1, 5),  # type: ignore[arg-type]
        max_wait_ms=500,
        max_bytes=1_000,
        round=9,
    )
    body = write_request(request, version, to=ME, cluster_id=HERE.cluster_id)
    found = read_request(ApiKey.FETCH, version, body, here=HERE)
    assert found == replace(request, round=0)

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import frames
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey, UnsupportedVersion
from quorum.protocol.errors import Malformed
from tests.quorum.protocol.kio_strategies import VERSIONS, values_of
from tests.support.kio_values import make, nested
from tests.support.parameters import at_most_in_quick

Decode = Callable[[int, int, bytes], Any]

SIDES = [
    (codec.request_schema, codec.encode_request_body, codec.decode_request),
    (codec.response_schema, codec.encode_response_body, codec.decode_response),
]

PASSING_REST = (ApiKey.METADATA, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)


@pytest.mark.thorough
@given(st.sampled_from(VERSIONS), st.sampled_from(SIDES), st.data())
@settings(max_examples=at_most_in_quick(150))
def test_every_message_comes_back_as_it_went_and_nothing_else_does(
    what: tuple[int, int], side: tuple[Any, Any, Any], data: st.DataObject
) -> None:
    api_key, version = what
    schema_of, encode, decode = side
    value = data.draw(values_of(schema_of(api_key, version)))
    encoded = encode(api_key, version, value)
    assert decode(api_key, version, encoded) == value
    assert decode(api_key, version, memoryview(encoded)) == value
    if api_key in PASSING_REST and decode is codec.decode_request:
        assert decode(api_key, version, encoded + b"\x00") == value
    else:
        with pytest.raises(Malformed, match="1 bytes too many at the end"):
            decode(api_key, version, encoded + b"\x00")
    if encoded:
        cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
        with pytest.raises(Malformed):
            decode(api_key, version, cut)


def test_librdkafka_asks_for_all_topics_with_three_bytes_too_many() -> None:
    """As 2.16 sends it in version 13: the null array takes four bytes, where one is right."""
    read = codec.decode_request(ApiKey.METADATA, 13, bytes.fromhex("00000000 01 00 00"))
    assert read.topics is None
    assert not read.include_topic_authorized_operations


def test_librdkafka_alters_credentials_with_one_byte_too_many() -> None:
    """As 2.16 sends it: it appends the tagged fields of the request, none, twice."""
    upsertion = "02 61 01 00001000 02 73 02 70 00"
    sent = bytes.fromhex(f"01 02 {upsertion} 00 00")
    read = codec.decode_request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, sent)
    assert [(each.name, each.iterations) for each in read.upsertions] == [("a", 4_096)]


@pytest.mark.thorough
@given(st.sampled_from(VERSIONS), st.sampled_from(SIDES), st.data())
@settings(max_examples=at_most_in_quick(150))
def test_damaged_messages_are_read_or_malformed(
    what: tuple[int, int], side: tuple[Any, Any, Any], data: st.DataObject
) -> None:
    api_key, version = what
    schema_of, encode, decode = side
    encoded = bytearray(encode(api_key, version, data.draw(values_of(schema_of(*what)))))
    for _ in range(data.draw(st.integers(1, 3))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Malformed):
        decode(api_key, version, bytes(encoded))


@given(st.sampled_from(VERSIONS), st.sampled_from(SIDES), st.binary(max_size=80))
def test_any_bytes_are_read_or_malformed(
    what: tuple[int, int], side: tuple[Any, Any, Decode], junk: bytes
) -> None:
    with suppress(Malformed):
        side[2](*what, junk)


HUGE = [
    # Fetch v17: an array of topics; of partitions. EndQuorumEpoch v0: topics; successors.
    (ApiKey.FETCH, 17, b"\x00" * 21 + b"\xff\xff\xff\xff\x0f", "4294967294 items at byte 26"),
    (
        ApiKey.FETCH,
        17,
        b"\x00" * 21 + b"\x02" + b"\x00" * 16 + b"\xff\xff\xff\xff\x0f",
        "4294967294 items at byte 43",
    ),
    (ApiKey.END_QUORUM_EPOCH, 0, b"\xff\xff\x7f\xff\xff\xff", "2147483647 items at byte 6"),
    (
        ApiKey.END_QUORUM_EPOCH,
        0,
        b"\xff\xff\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01" + b"\x00" * 12 + b"\x7f\xff\xff\xff",
        "8589934588 bytes at byte 29",
    ),
]


@pytest.mark.parametrize(("api_key", "version", "data", "reason"), HUGE)
def test_an_array_that_claims_more_items_than_can_have_come_is_malformed(
    api_key: int, version: int, data: bytes, reason: str
) -> None:
    with pytest.raises(Malformed, match=rf"{reason}, where 0( bytes)? are left"):
        codec.decode_request(api_key, version, data)


def test_a_tagged_field_fills_exactly_the_bytes_it_claims() -> None:
    """Or the reader, which goes by the field, would go on elsewhere than the walk."""
    heartbeat = b"\x00" * 4 + b"\x00" * 16 + b"\x00\x00"
    one_directory = b"\x02" + bytes(range(16))
    right = heartbeat + b"\x01\x00\x11" + one_directory
    assert len(codec.decode_request(ApiKey.BROKER_HEARTBEAT, 1, right).offline_log_dirs) == 1
    for size in (b"\x10", b"\x12"):
        wrong = heartbeat + b"\x01\x00" + size + one_directory + b"\x00"
        with pytest.raises(Malformed, match=r"tagged field 0 does not fill|bytes at byte"):
            codec.decode_request(ApiKey.BROKER_HEARTBEAT, 1, wrong)


def test_the_native_reader_alone_would_end_the_process() -> None:
    """The reason for checking every message first. If this fails, the check may be unnecessary."""
    check = (
        "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        "from kio.serial import entity_reader; from kio.index import load_request_schema; "
        "read = entity_reader(load_request_schema(1, 17)); "
        "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)); "
        r"read(b'\x00' * 21 + b'\xff\xff\xff\xff\x0f', 0)"
    )
    process = subprocess.run([sys.executable, "-c", check], check=False, capture_output=True)
    assert process.returncode < 0, process.stderr
    assert b"memory allocation of" in process.stderr


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff\x00\x00\x00", "4 bytes at byte 2, where 3 are left"),
        (b"\xff\xff\x80\x00\x00\x00", "an array of -2147483648 items at byte 2"),
        (b"\x80\x00", "a length of -32768 at byte 0"),
    ],
)
def test_the_reason_names_the_place(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=f"EndQuorumEpoch v0: .*({reason})"):
        codec.decode_request(ApiKey.END_QUORUM_EPOCH, 0, data)


@pytest.mark.parametrize("decode", [codec.decode_request, codec.decode_response])
def test_versions_that_are_not_spoken_are_not_decoded(decode: Decode) -> None:
    for api_key, version in [(ApiKey.VOTE, 3), (ApiKey.FETCH, 18), (4_711, 0)]:
        with pytest.raises(UnsupportedVersion):
            decode(api_key, version, b"")


def test_a_payload_of_another_version_is_an_internal_error() -> None:
    request = make(codec.request_schema(ApiKey.API_VERSIONS, 0))
    with pytest.raises(AssertionError):
        codec.encode_request_body(ApiKey.API_VERSIONS, 1, request)


def test_whole_frames_hold_length_header_and_body() -> None:
    request = make(
        codec.request_schema(ApiKey.API_VERSIONS, 3),
        client_software_name="n",
        client_software_version="v",
    )
    frame = frames.encode_request(ApiKey.API_VERSIONS, 3, 5, "me", request)
    assert frame == (
        b"\x00\x00\x00\x12" + b"\x00\x12\x00\x03\x00\x00\x00\x05\x00\x02me\x00" + b"\x02n\x02v\x00"
    )
    response = make(
        codec.response_schema(ApiKey.API_VERSIONS, 0),
        error_code=codec.error_code(0),
        api_keys=(),
    )
    assert frames.encode_response(ApiKey.API_VERSIONS, 0, 5, response) == (
        b"\x00\x00\x00\x0a" + b"\x00\x00\x00\x05" + b"\x00\x00" + b"\x00\x00\x00\x00"
    )


def test_values_that_a_version_has_no_field_for_are_left_out() -> None:
    schema = codec.request_schema(ApiKey.API_VERSIONS, 0)
    assert codec.build(schema, {"client_software_name": "n"}) == make(schema)


def test_plain_values_become_structures_and_error_codes() -> None:
    schema = codec.response_schema(ApiKey.CREATE_TOPICS, 7)
    topic = {"name": "a", "topic_id": None, "error_code": 3, "error_message": "no", "configs": None}
    built = codec.build(schema, {"throttle_time": timedelta(0), "topics": [topic], "unknown": 1})
    of_topic = nested(schema, "CreatableTopicResult")
    expected = make(of_topic, **topic | {"error_code": codec.error_code(3)})
    assert built == make(schema, throttle_time=timedelta(0), topics=(expected,))
    with pytest.raises(TypeError, match="topics"):
        codec.build(schema, {"throttle_time": timedelta(0)})


def test_bodies_of_plain_values_are_those_of_built_ones() -> None:
    body = codec.request_body(
        ApiKey.CREATE_PARTITIONS,
        3,
        topics=[{"name": "a", "count": 2, "assignments": [{"broker_ids": [3, 1]}]}],
        timeout=timedelta(seconds=1),
        validate_only=False,
    )
    (topic,) = codec.decode_request(ApiKey.CREATE_PARTITIONS, 3, body).topics
    assert [each.broker_ids for each in topic.assignments] == [(3, 1)]
    answer = codec.response_body(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=(), next_cursor=None)
    decoded = codec.decode_response(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, answer)
    assert (decoded.throttle_time, decoded.next_cursor) == (timedelta(0), None)

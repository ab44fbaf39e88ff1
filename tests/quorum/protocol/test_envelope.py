"""The reason with which a controller refuses an envelope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response, encode_response_body, error_code
from quorum.protocol.codec import response_schema as schema_of
from quorum.protocol.envelope import REASON_BYTES_MAX, Reason, reason_of, write_refusal
from tests.support.kio_values import make


def reason_in(body: bytes | memoryview) -> Reason | None:
    """The reason in an EnvelopeResponse."""
    return reason_of(decode_response(ApiKey.ENVELOPE, 0, body))


@given(st.sampled_from([35, 41, 42, 97]), st.text(max_size=300), st.booleans())
def test_a_reason_arrives_and_other_nodes_read_the_error_code(
    code: int, text: str, may_be_done: bool
) -> None:
    body = write_refusal(code, Reason(text, may_be_done))
    assert reason_in(body) == reason_in(memoryview(body)) == Reason(text, may_be_done)
    answer = decode_response(ApiKey.ENVELOPE, 0, body)
    assert (answer.error_code.value, answer.response_data) == (code, None)


def test_a_reason_has_a_bound() -> None:
    reason = reason_in(write_refusal(41, Reason("\N{BULLET}" * REASON_BYTES_MAX)))
    assert reason is not None
    assert REASON_BYTES_MAX // 3 <= len(reason.text) <= REASON_BYTES_MAX // 3 + 1


@pytest.mark.parametrize("data", [None, b"", b"\x01\x94\x4e\x02\x00a"])
def test_a_refusal_of_kafka_and_a_response_have_no_reason(data: bytes | None) -> None:
    response = make(
        schema_of(ApiKey.ENVELOPE, 0), response_data=data, error_code=error_code(41 if data else 0)
    )
    assert reason_in(encode_response_body(ApiKey.ENVELOPE, 0, response)) is None


def test_fields_of_others_are_no_reason() -> None:
    assert reason_in(b"\x00\x00\x29" + b"\x01\x05\x02\x00a") is None


def test_kafkas_nodes_get_a_refusal_without_an_extension() -> None:
    assert write_refusal(41, None) == b"\x00\x00\x29\x00"

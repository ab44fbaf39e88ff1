"""The words with which a controller refuses what another node has passed on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response, encode_response_body, error_code, make
from quorum.protocol.codec import response_schema as schema_of
from quorum.protocol.envelope_refusals import WORDS_BYTES_MAX, Words, words_of, write_refusal


@given(st.sampled_from([35, 41, 42, 97]), st.text(max_size=300), st.booleans())
def test_words_arrive_and_whoever_knows_none_reads_the_code(
    code: int, text: str, may_be_done: bool
) -> None:
    body = write_refusal(code, Words(text, may_be_done))
    assert words_of(body) == words_of(memoryview(body)) == Words(text, may_be_done)
    answer = decode_response(ApiKey.ENVELOPE, 0, body)
    assert (answer.error_code.value, answer.response_data) == (code, None)


def test_words_have_a_bound() -> None:
    words = words_of(write_refusal(41, Words("\N{BULLET}" * WORDS_BYTES_MAX)))
    assert words is not None
    assert WORDS_BYTES_MAX // 3 <= len(words.text) <= WORDS_BYTES_MAX // 3 + 1


@pytest.mark.parametrize("data", [None, b"", b"\x01\x94\x4e\x02\x00a"])
def test_a_refusal_of_kafka_and_an_answer_say_nothing(data: bytes | None) -> None:
    response = make(
        schema_of(ApiKey.ENVELOPE, 0), response_data=data, error_code=error_code(41 if data else 0)
    )
    assert words_of(encode_response_body(ApiKey.ENVELOPE, 0, response)) is None


@pytest.mark.parametrize(
    "tags", [b"\x01\x05\x02\x00a", b"\x02\x05\x01\x00\x94\x4e\x02\x00a", b"\x01\x94\x4e\x00"]
)
def test_other_fields_of_others_are_no_words(tags: bytes) -> None:
    assert words_of(b"\x00\x00\x29" + tags) is None

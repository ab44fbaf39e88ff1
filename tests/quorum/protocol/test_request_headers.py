import io
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as ResponseV0
from kio.schema.response_header.v1.header import ResponseHeader as ResponseV1
from kio.serial import entity_writer

from quorum.protocol import headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import header_flexibility
from quorum.protocol.errors import Malformed
from tests.quorum.protocol.kio_strategies import VERSIONS
from tests.support.kio_values import make

CLIENT_IDS = st.none() | st.text(max_size=40)
CORRELATION_IDS = st.integers(-(2**31), 2**31 - 1)


def kios_bytes(value: object) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)  # type: ignore[type-var]
    return buffer.getvalue()


@given(st.sampled_from(VERSIONS), CORRELATION_IDS, CLIENT_IDS, st.binary(max_size=20))
def test_request_headers_are_kios_and_are_read_back(
    what: tuple[int, int], correlation_id: int, client_id: str | None, body: bytes
) -> None:
    api_key, version = what
    schema = HeaderV2 if header_flexibility(api_key, version).request else HeaderV1
    expected = make(
        schema,
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    written = headers.write_request_header(api_key, version, correlation_id, client_id)
    assert written == kios_bytes(expected)
    frame = written + body
    assert headers.read_request_prefix(frame) == (api_key, version, correlation_id)
    found, start = headers.read_request_header(frame, api_key, version)
    assert (found, frame[start:]) == (client_id, body)


@given(st.sampled_from(VERSIONS), CORRELATION_IDS, st.binary(max_size=20))
def test_response_headers_are_kios_and_are_read_back(
    what: tuple[int, int], correlation_id: int, body: bytes
) -> None:
    api_key, version = what
    flexible = header_flexibility(api_key, version).response
    expected = kios_bytes(
        make(ResponseV1 if flexible else ResponseV0, correlation_id=correlation_id)
    )
    length = len(expected) + len(body)
    framed = headers.write_framed_response_header(correlation_id, len(body), flexible=flexible)
    assert framed == length.to_bytes(4, "big") + expected
    frame = framed[4:] + body
    assert headers.read_correlation_id(frame, api_key, version) == correlation_id
    assert frame[headers.response_body_start(frame, api_key, version) :] == body


@given(st.sampled_from(VERSIONS), st.binary(max_size=40))
@example((ApiKey.VOTE, 0), b"")
def test_a_header_of_any_bytes_is_read_or_malformed(what: tuple[int, int], junk: bytes) -> None:
    api_key, version = what
    frame = headers.write_request_header(api_key, version, 1, None)[:8] + junk
    with suppress(Malformed):
        _, start = headers.read_request_header(frame, api_key, version)
        assert 10 <= start <= len(frame)
    with suppress(Malformed):
        headers.read_correlation_id(junk, api_key, version)
        assert 4 <= headers.response_body_start(junk, api_key, version) <= len(junk)


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    """KIP-482: whoever does not know a tagged field passes over it."""
    head = headers.write_request_header(ApiKey.VOTE, 1, 7, "me")[:-1]
    tagged = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    found, start = headers.read_request_header(head + tagged + b"body", ApiKey.VOTE, 1)
    assert (found, start) == ("me", len(head + tagged))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "the header ends before the client id"),
        (b"\x00\x00", "the bytes end inside a number"),
        (b"\x00\x05abc", "a client id of 5 bytes does not fit the frame"),
        (b"\xff\xfe", "a client id of -2 bytes does not fit the frame"),
        (b"\x00\x01\xff\x00", "the client id is not UTF-8"),
        (
            b"\xff\xff\x01\x00\x20",
            "tagged fields of the header: 32 bytes of tagged field 0, 0 are left",
        ),
    ],
)
def test_errors_in_a_header_are_named(frame: bytes, reason: str) -> None:
    whole = headers.write_request_header(ApiKey.VOTE, 1, 7, None)[:8] + frame
    with pytest.raises(Malformed, match=f"Vote v1: .*({reason})"):
        headers.read_request_header(whole, ApiKey.VOTE, 1)


def test_a_frame_too_short_for_a_header_is_malformed() -> None:
    with pytest.raises(Malformed, match="a request of 7 bytes has no header"):
        headers.read_request_prefix(b"1234567")
    with pytest.raises(Malformed, match="a response of 3 bytes has no header"):
        headers.read_correlation_id(b"123", ApiKey.VOTE, 1)

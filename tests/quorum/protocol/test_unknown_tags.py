"""KIP-482: a node skips unknown tagged fields anywhere in a message."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.protocol import codec, shape
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.records.varint import uvarint
from tests.quorum.protocol.kio_strategies import VERSIONS, values_of
from tests.quorum.protocol.unknown_tag_strategies import grown, written
from tests.support.parameters import at_most_in_quick

SIDES = [
    (codec.request_schema, codec.decode_request),
    (codec.response_schema, codec.decode_response),
]
# Every schema is loaded for it: not where the module is only collected.
FLEXIBLE = st.deferred(
    lambda: st.sampled_from(
        [(what, side) for what in VERSIONS for side in SIDES if side[0](*what).__flexible__]
    )
)


@pytest.mark.thorough
@given(FLEXIBLE, st.data())
@settings(max_examples=at_most_in_quick(200), deadline=None)
def test_a_message_means_the_same_with_unknown_tagged_fields_at_any_level(
    what: tuple[tuple[int, int], tuple[Any, Any]], data: st.DataObject
) -> None:
    (api_key, version), (schema_of, decode) = what
    value = data.draw(values_of(schema_of(api_key, version)))
    encoded = written(grown(value, data))
    assert decode(api_key, version, encoded) == value
    assert decode(api_key, version, memoryview(encoded)) == value
    check = shape.checker(schema_of(api_key, version))
    cleaned = check(encoded)
    # Every size in it is right as well: the reader looks at none, the walk at all of them.
    assert check(cleaned) is cleaned
    passing = (ApiKey.METADATA, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    if api_key in passing and decode is codec.decode_request:
        assert decode(api_key, version, encoded + b"\x00") == value
    else:
        with pytest.raises(Malformed, match="1 bytes too many at the end"):
            decode(api_key, version, encoded + b"\x00")
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    with pytest.raises(Malformed):
        decode(api_key, version, cut)


HEARTBEAT = b"\x00" * 4 + b"\x00" * 16 + b"\x00\x00"
ONE_DIRECTORY = b"\x02" + bytes(range(16))


def test_known_tagged_fields_among_unknown_ones_are_read() -> None:
    unknown = b"\x63\x02ab"
    known = b"\x00\x11" + ONE_DIRECTORY
    message = HEARTBEAT + b"\x03" + unknown + known + unknown
    read = codec.decode_request(ApiKey.BROKER_HEARTBEAT, 1, message)
    assert [each.bytes for each in read.offline_log_dirs] == [bytes(range(16))]


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (b"\x01\x63\x05abc", "5 bytes at byte 25, where 3 are left"),
        (b"\x02\x63\x00", "the bytes end inside a number"),
        (b"\x01\x63\xff\xff\xff\xff\xff\x01", "a number has more than 32 bits"),
        (b"\x02\x63\x00\x00\x10" + ONE_DIRECTORY, "tagged field 0 does not fill|at byte"),
        (b"\x01\x63\x00\x00", "1 bytes too many at the end"),
    ],
)
def test_unknown_tagged_fields_must_fit_their_message_all_the_same(
    tags: bytes, reason: str
) -> None:
    with pytest.raises(Malformed, match=reason):
        codec.decode_request(ApiKey.BROKER_HEARTBEAT, 1, HEARTBEAT + tags)


def test_the_memory_for_removing_unknown_fields_is_bounded() -> None:
    """A frame of 16 MiB has room for millions of small structures with an unknown field each."""
    topic = b"\x00" * 16 + b"\x01" + b"\x01\x63\x00"  # No partitions, one unknown tagged field.
    count = shape.TAG_EDITS_MAX // 2 + 1
    topics = uvarint(count + 1) + topic * count
    check = shape.checker(codec.request_schema(ApiKey.FETCH, 17))
    with pytest.raises(ValueError, match="unknown tagged fields in too many places"):
        check(b"\x00" * 21 + topics)
    with pytest.raises(Malformed, match="too many for one message"):
        codec.decode_request(ApiKey.FETCH, 17, b"\x00" * 21 + topics)


def test_a_message_without_unknown_tagged_fields_is_not_copied() -> None:
    check = shape.checker(codec.request_schema(ApiKey.BROKER_HEARTBEAT, 1))
    plain = HEARTBEAT + b"\x00"
    assert check(plain) is plain

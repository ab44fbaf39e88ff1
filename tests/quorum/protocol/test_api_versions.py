from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.protocol import api_versions, codec
from quorum.protocol.api_versions import Features, negotiate
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.protocol.errors import Malformed

VERSIONS = range(5)
RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(
    lambda ends: VersionRange(min(ends), max(ends))
)
OFFERS = st.dictionaries(st.integers(0, 25_000), RANGES, max_size=6)


@given(st.sampled_from(VERSIONS), OFFERS)
def test_an_offer_is_read_as_it_was_written(
    version: int, offered: Mapping[int, VersionRange]
) -> None:
    body = api_versions.write_offer(version, offered)
    assert api_versions.read_offer(version, body) == offered


def test_private_apis_are_offered_like_kafkas() -> None:
    body = api_versions.write_offer(3, {20_000: VersionRange(0, 0), 1: VersionRange(13, 17)})
    keys = codec.decode_response(ApiKey.API_VERSIONS, 3, body).api_keys
    assert [(k.api_key, k.min_version, k.max_version) for k in keys] == [
        (1, 13, 17),
        (20_000, 0, 0),
    ]


FEATURES = Features(
    supported={"metadata.version": VersionRange(15, 29), "kraft.version": VersionRange(0, 1)},
    finalized={"metadata.version": 21, "kraft.version": 0},
    finalized_epoch=77,
)


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_named_as_kafka_names_them(version: int) -> None:
    """KIP-584; a lowest level of 0 only from v4 on (KAFKA-17492), a level of 0 not at all."""
    body = api_versions.write_offer(version, SPOKEN, FEATURES)
    response = codec.decode_response(ApiKey.API_VERSIONS, version, body)
    supported = [(f.name, f.min_version, f.max_version) for f in response.supported_features]
    zero = [("kraft.version", 0, 1)] if version >= 4 else []
    assert supported == [*zero, ("metadata.version", 15, 29)]
    finalized = [(f.name, f.max_version_level) for f in response.finalized_features]
    assert finalized == [("metadata.version", 21)]
    assert response.finalized_features_epoch == 77


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_without_features_leave_them_out(version: int) -> None:
    plain = api_versions.write_offer(version, SPOKEN)
    assert api_versions.write_offer(version, SPOKEN, FEATURES) == plain


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_that_is_too_new_is_told_which_ones_are_served(version: int) -> None:
    """KIP-511: the answer has the form of v0, whatever was asked."""
    body = api_versions.write_unsupported(SPOKEN)
    assert body == b"\x00\x23" + b"\x00\x00\x00\x01" + b"\x00\x12\x00\x00\x00\x04"
    assert api_versions.read_offer(version, body) == VersionRange(0, 4)


def test_another_error_is_no_offer() -> None:
    body = b"\x00\x1d" + b"\x00\x00\x00\x00"
    with pytest.raises(Malformed, match="TOPIC_AUTHORIZATION_FAILED"):
        api_versions.read_offer(0, body)


@given(st.sampled_from(VERSIONS), st.binary(max_size=60))
def test_any_bytes_are_an_offer_or_malformed(version: int, junk: bytes) -> None:
    try:
        offer = api_versions.read_offer(version, junk)
    except Malformed:
        return
    assert isinstance(offer, Mapping | VersionRange)


@given(st.none() | RANGES, st.none() | RANGES)
def test_the_highest_common_version_is_chosen(
    ours: VersionRange | None, theirs: VersionRange | None
) -> None:
    both = [v for v in range(40) if v in (ours or ()) and v in (theirs or ())]
    assert negotiate(ours, theirs) == max(both, default=None)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_every_version_can_be_written(version: int) -> None:
    body = api_versions.write_request(version, "metaquorum", "1.0")
    request = codec.decode_request(ApiKey.API_VERSIONS, version, body)
    assert getattr(request, "client_software_name", "metaquorum") == "metaquorum"

import subprocess
import sys

import pytest

from quorum.protocol.apis import (
    SPOKEN,
    ApiKey,
    UnsupportedVersion,
    VersionRange,
    api_name,
)
from quorum.protocol.codec import header_flexibility, request_schema, response_schema
from tests.quorum.protocol.kio_strategies import VERSIONS


def test_every_api_has_its_range_and_every_range_its_schemas() -> None:
    assert set(SPOKEN) == set(ApiKey)
    for api_key, version in VERSIONS:
        request = request_schema(api_key, version)
        assert request.__api_key__ == api_key
        assert response_schema(api_key, version).__version__ == version
        kafkas_name = request.__name__.removesuffix("Request")
        assert api_name(api_key) == kafkas_name


def flexible_from(api_key: ApiKey) -> int:
    """The first spoken version of the API with flexible requests."""
    spoken = SPOKEN[api_key]
    versions = range(spoken.lowest, spoken.highest + 1)
    return next(each for each in versions if header_flexibility(api_key, each).request)


def test_flexible_versions_are_those_of_kafka() -> None:
    """The message schemas of Kafka 3.9, "flexibleVersions"."""
    assert flexible_from(ApiKey.VOTE) == 0
    assert flexible_from(ApiKey.BEGIN_QUORUM_EPOCH) == 1
    assert flexible_from(ApiKey.END_QUORUM_EPOCH) == 1
    assert flexible_from(ApiKey.API_VERSIONS) == 3
    assert flexible_from(ApiKey.METADATA) == 9
    assert flexible_from(ApiKey.CREATE_TOPICS) == 5
    assert flexible_from(ApiKey.INCREMENTAL_ALTER_CONFIGS) == 1


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_the_answer_to_api_versions_never_has_a_flexible_header(version: int) -> None:
    """KIP-511: its reader does not know yet what we speak."""
    assert not header_flexibility(ApiKey.API_VERSIONS, version).response
    assert header_flexibility(ApiKey.API_VERSIONS, version).request == (version >= 3)


@pytest.mark.parametrize(("api_key", "version"), [(1, 3), (1, 18), (52, 3), (4, 0), (20_999, 0)])
def test_an_unsupported_api_has_no_header(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"v{version}: "):
        header_flexibility(api_key, version)


def test_a_range_holds_both_its_ends() -> None:
    versions = VersionRange(2, 4)
    assert [version for version in range(7) if version in versions] == [2, 3, 4]
    assert "3" not in versions
    assert str(versions) == "2 to 4"
    assert str(VersionRange(1, 1)) == "1"


def test_importing_the_wire_and_the_transport_imports_no_schema() -> None:
    """A command line that does not speak to anyone must start at once."""
    modules = "quorum.protocol.raft_messages, quorum.protocol.api_versions, quorum.transport.server"
    check = (
        f"import sys, {modules}, quorum.transport.peers; "
        "sys.exit(any(m.partition('.')[0] == 'kio' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0

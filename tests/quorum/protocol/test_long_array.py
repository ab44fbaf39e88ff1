"""A response that is encoded item by item has the bytes of one that is encoded whole."""

from typing import Any

import pytest

from quorum.protocol import codec
from quorum.protocol.apis import SPOKEN, ApiKey
from quorum.protocol.long_array import encode_items
from statemachine.slices import whole

VERSIONS = [
    (api_key, version)
    for api_key in (ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_CLIENT_QUOTAS)
    for version in range(SPOKEN[api_key].lowest, SPOKEN[api_key].highest + 1)
]
NO_ERROR = {"error_code": 0, "error_message": None}
QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": None}],
    "values": [{"key": "producer_byte_rate", "value": 1.5}],
}
RESULT = {**NO_ERROR, "resource_type": 2, "resource_name": "t", "configs": ()}
RESPONSES: dict[ApiKey, tuple[dict[str, Any], str, dict[str, Any]]] = {
    ApiKey.DESCRIBE_CONFIGS: ({}, "results", RESULT),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (NO_ERROR, "entries", QUOTA),
}


@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_in_every_version(api_key: ApiKey, version: int, count: int) -> None:
    values, name, item = RESPONSES[api_key]
    items = [item] * count
    encoded = codec.response_body(api_key, version, **values, **{name: items})
    assert whole(encode_items(api_key, version, values, name, items)) == encoded
    assert len(list(encode_items(api_key, version, values, name, items))) == count


def test_only_the_last_field_can_be_given_item_by_item() -> None:
    with pytest.raises(AssertionError, match="ends with entries"):
        whole(encode_items(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {}, "error_message", ()))

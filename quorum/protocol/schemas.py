"""The class of each message: kio's for what Kafka has, our own for what it does not have.

kio and the private classes are imported when first asked for; which versions are spoken is said
in `quorum.protocol.apis`.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kio.static.protocol import RequestPayload, ResponsePayload

PRIVATE_API_KEYS_FROM: Final = 20_000
"""Far above Kafka's numbers; there is one version of each, 0."""

_PRIVATE: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        20_000: ("quorum.protocol.private.discover_brokers", "DiscoverBrokers"),
        20_001: ("quorum.protocol.private.alter_quorum", "AlterQuorum"),
        20_010: ("quorum.protocol.private.capability", "Capability"),
    }
)
"""Where the classes of a private API are, and its name."""

_REASSIGNMENTS: Final = "AlterPartitionReassignments"

_EXTENDED_REQUESTS: Final[Mapping[tuple[int, int], tuple[str, str]]] = MappingProxyType(
    {
        (45, 0): ("quorum.protocol.private.alter_reassignments_v0", f"{_REASSIGNMENTS}Request"),
        (45, 1): ("quorum.protocol.private.alter_reassignments", f"{_REASSIGNMENTS}Request"),
    }
)
_EXTENDED_RESPONSES: Final[Mapping[tuple[int, int], tuple[str, str]]] = MappingProxyType(
    {
        (45, 0): ("quorum.protocol.private.alter_reassignments_v0", f"{_REASSIGNMENTS}Response"),
        (45, 1): ("quorum.protocol.private.alter_reassignments", f"{_REASSIGNMENTS}Response"),
        (46, 0): (
            "quorum.protocol.private.list_reassignments",
            "ListPartitionReassignmentsResponse",
        ),
        (55, 2): ("quorum.protocol.private.describe_quorum", "DescribeQuorumResponse"),
    }
)
"""Messages of Kafka's to which tagged fields of our own are added, by API and version."""


def load_request_schema(api_key: int, version: int) -> "type[RequestPayload]":
    """The class of a request that is spoken."""
    if api_key >= PRIVATE_API_KEYS_FROM:
        request: type[RequestPayload] = _private(api_key, "Request")
        return request
    extended = _EXTENDED_REQUESTS.get((api_key, version))
    if extended is not None:
        request = _named(*extended)
        return request
    from kio.index import load_request_schema

    return load_request_schema(api_key, version)


def load_response_schema(api_key: int, version: int) -> "type[ResponsePayload]":
    """The class of the answer to a request that is spoken."""
    if api_key >= PRIVATE_API_KEYS_FROM:
        response: type[ResponsePayload] = _private(api_key, "Response")
        return response
    extended = _EXTENDED_RESPONSES.get((api_key, version))
    if extended is not None:
        response = _named(*extended)
        return response
    from kio.index import load_response_schema

    return load_response_schema(api_key, version)


def _private(api_key: int, side: str) -> Any:
    module, name = _PRIVATE[api_key]
    return _named(module, f"{name}{side}")


def _named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)

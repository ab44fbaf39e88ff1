"""The capabilities of a cluster: each one typed request, its answer and its handler."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from admin.capabilities import brokers
from admin.capabilities.schema import Request

CAPABILITIES: Final[Mapping[str, type[Request[Any]]]] = MappingProxyType(
    {
        kind.NAME: kind
        for kind in (
            brokers.ListBrokers,
            brokers.DescribeBroker,
            brokers.CordonBrokers,
            brokers.UncordonBrokers,
            brokers.UnregisterBrokers,
            brokers.SafeToStop,
        )
    }
)
"""Every capability by its name."""

"""Ask the addresses of controllers that are said to be gone whether one of them answers.

A second set of voters beside one that lives would write another history, so whoever founds one asks
before. A node on a network that is not reached from here is not found.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from admin.client.channels import Channels, Form, NoResponse
from admin.client.retrying_client import CONTROLLERS, anonymous_discovery
from admin.faults import Incompatible, Unauthenticated
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address

ASK_MS: Final = 2_000
"""The time for an address to answer."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The addresses at which somebody is."""

    living: tuple[Address, ...]
    """Nodes of the cluster."""
    strange: tuple[Address, ...]
    """Listeners that do not say what they are to a client without TLS and credentials."""


async def look_for_nodes(addresses: Iterable[Address], cluster_id: str) -> Seen:
    """Ask each of these addresses once whether it is a node of this cluster."""
    places = sorted({*addresses})
    found = await asyncio.gather(*map(_cluster_at, places))
    return Seen(
        tuple(place for place, id_ in zip(places, found, strict=True) if id_ == cluster_id),
        tuple(place for place, id_ in zip(places, found, strict=True) if id_ == _STRANGE),
    )


_STRANGE: Final = ""


async def _cluster_at(address: Address) -> str | None:
    """The cluster id of the node at an address; None without a node, "" if it does not say."""
    channels = Channels("metaquorum-look")
    try:
        try:
            found = await channels.ask(
                address, ApiKey.DISCOVER_BROKERS, anonymous_discovery, timeout_ms=ASK_MS
            )
        except Incompatible:
            # Kafka's controllers know this one alone.
            found = await channels.ask(
                address, ApiKey.DESCRIBE_CLUSTER, _controllers, timeout_ms=ASK_MS
            )
        return str(found.value.cluster_id or _STRANGE)
    except NoResponse as error:
        return None if error.is_unconnected else _STRANGE
    except (Incompatible, Unauthenticated):
        return _STRANGE
    finally:
        await channels.close()


def _controllers(form: Form) -> Any:
    return form.request(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)

"""Ask the addresses of controllers that are said to be gone whether one of them answers.

A second set of voters beside one that lives would write another history, so whoever founds one asks
before. A node on a network that is not reached from here is not found: the operator gets a line
about each address.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from admin.client.channels import Channels, Form, NoResponse
from admin.client.retrying_client import CONTROLLERS, anonymous_discovery
from admin.faults import Incompatible
from quorum.protocol.apis import ApiKey
from quorum.transport.address import REFUSALS, Address, dial
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

ASK_MS: Final = 2_000
"""The time for an address to accept a connection, and then to answer."""


class Presence(Enum):
    """The finding at an address; the value is its text for the operator."""

    MEMBER = "a node of this cluster answers"
    OTHER = "a node of another cluster answers"
    STRANGE = (
        "something listens, and does not say what it is: make sure that it is no controller of "
        "this cluster"
    )
    REFUSED = "refused, nothing listens there"
    UNREACHABLE = (
        "unreachable, and a network partition looks the same: make sure that no controller of this "
        "cluster runs there"
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """The findings at the addresses that were asked."""

    found: Mapping[Address, Presence]

    @property
    def living(self) -> list[Address]:
        """The addresses of nodes of the cluster."""
        return [each for each, presence in self.found.items() if presence is Presence.MEMBER]

    def lines(self, unknown: Collection[int]) -> Iterator[str]:
        """Yield a sentence about each address, and about each voter whose address is unknown."""
        for address, presence in self.found.items():
            yield f"{address}: {presence.value}."
        for id in sorted(unknown):
            yield f"Voter {id}: its address is not known, so it was not checked."


async def look_for_nodes(
    addresses: Iterable[Address], cluster_id: str, security: ClientSecurity = PLAIN_CLIENT
) -> Seen:
    """Ask each of these addresses once whether it is a node of this cluster."""
    places = sorted({*addresses})
    found = await asyncio.gather(*(_look(each, cluster_id, security) for each in places))
    return Seen(dict(zip(places, found, strict=True)))


async def _look(address: Address, cluster_id: str, security: ClientSecurity) -> Presence:
    try:
        async with asyncio.timeout(ASK_MS / 1_000):
            await dial(_Visit, address)
    except REFUSALS:
        return Presence.REFUSED
    except (OSError, OverflowError, ValueError):
        # A time-out is an OSError; the last two are for impossible hosts and ports.
        return Presence.UNREACHABLE
    found = await _cluster_at(address, security)
    if not found:
        return Presence.STRANGE
    return Presence.MEMBER if found == cluster_id else Presence.OTHER


class _Visit(asyncio.Protocol):
    """Leaves once the connection is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


async def _cluster_at(address: Address, security: ClientSecurity) -> str | None:
    """The cluster id of the node at an address; None if it does not say."""
    channels = Channels("metaquorum-look", security)
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
        return found.value.cluster_id or None
    except (NoResponse, Incompatible):
        return None
    finally:
        await channels.close()


def _controllers(form: Form) -> Any:
    return form.request(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)

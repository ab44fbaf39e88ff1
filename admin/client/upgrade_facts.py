"""The facts about a running cluster for `upgrade_rules`: every node is asked itself."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from admin.capabilities.brokers import Broker, ListBrokers, SafeToStop
from admin.capabilities.health import DescribeHealth, Health, Server
from admin.capabilities.paging import every_page
from admin.capabilities.quorum import NodeAddress
from admin.client.admin_client import AdminClient
from admin.client.upgrade_rules import CAUGHT_UP_MS, UpgradeFacts, UpgradeNode, order
from admin.faults import AdminError, Incompatible, Refused, Unauthenticated
from admin.monitoring.health_rules import Rule, Severity
from quorum.transport.address import Address
from quorum.version import VERSION
from statemachine.features.features import FEATURES

ASK_MS: Final = 3_000
"""The time for each node to answer."""

_JUDGED_BY_NODE: Final = frozenset({Rule.VOTER_NOT_FETCHING, Rule.NO_FAILURE_TOLERANCE})
"""Rules about what the report says of each node, and of its restart."""

Connect = Callable[[Address, bool], AdminClient]
"""Return a client of the node at an address; True for a controller."""


async def upgrade_facts(client: AdminClient, connect: Connect, target: str | None) -> UpgradeFacts:
    """Ask the cluster, then each of its nodes; `target` is None for the release of this command.

    Raises `AdminError` if the cluster itself does not answer.
    """
    health = await client.ask(DescribeHealth())
    quorum = await client.describe_quorum()
    brokers = (await every_page(client.ask, ListBrokers())).brokers
    gossip = {each.replica_id: each for each in (await client.discover_brokers()).brokers}
    servers = {each.id: each for each in health.servers}
    of_brokers = {each.broker_id: each for each in brokers}
    controllers = [each for each in servers.values() if each.id not in of_brokers]
    asked = [_controller(each, gossip.get(each.id), connect) for each in controllers]
    asked += [_broker(each, gossip.get(each.broker_id), connect) for each in brokers]
    nodes = await asyncio.gather(*asked)
    nodes = [each async for each in _with_safety(client, nodes, target or VERSION)]
    features = await client.describe_features()
    return UpgradeFacts(
        target=target or VERSION,
        is_asked=target is not None,
        nodes=sorted(nodes, key=lambda node: (node.role != "controller", node.id)),
        in_force={each.name: each.level for each in features.features},
        supported={each.name: (each.lowest, each.highest) for each in FEATURES.values()}
        if target in (None, VERSION)
        else {},
        unhealthy=list(_unhealthy(health)),
        voters_change=bool(quorum.target_voters),
    )


async def _with_safety(
    client: AdminClient, nodes: Sequence[UpgradeNode], target: str
) -> AsyncIterator[UpgradeNode]:
    """Yield the nodes; whether a broker may stop is asked for the next one alone: it takes long."""
    first = next((each for each in order(nodes) if each.version != target), None)
    for each in nodes:
        if each is first and each.role == "broker":
            try:
                found = await client.ask(SafeToStop(broker_ids=(each.id,)))
            except Refused as error:
                yield replace(each, unsafe=str(error))
                continue
            if not found.safe:
                count = found.partitions_hurt
                reason = f"without {each.name}, {count} partitions have too few copies in sync"
                yield replace(each, unsafe=reason)
                continue
        yield each


def _unhealthy(health: Health) -> Iterable[tuple[str, str]]:
    for each in health.reasons:
        if each.severity is Severity.ERROR and each.rule not in _JUDGED_BY_NODE:
            yield each.sentence, each.command


async def _controller(server: Server, known: NodeAddress | None, connect: Connect) -> UpgradeNode:
    # A single voter leads, and has caught up with itself.
    lag_ms = 0 if server.leader else server.lag_time_ms
    caught_up = bool(server.reachable) and lag_ms is not None and lag_ms < CAUGHT_UP_MS
    node = UpgradeNode(
        id=server.id,
        role="controller",
        address="an unknown address" if known is None else str(known.address),
        voter=server.voter,
        leader=server.leader,
        caught_up=caught_up,
    )
    if known is None:
        # Kafka's controllers do not gossip, and are led like ours.
        return replace(node, of_kafka=caught_up, problem=None if caught_up else "it is not led")
    return await _asked(node, known.address, connect, is_controller=True)


async def _broker(broker: Broker, known: NodeAddress | None, connect: Connect) -> UpgradeNode:
    places = [Address(each.host, each.port) for each in broker.endpoints]
    # Its listener among the brokers is the one that it advertises.
    place = places[0] if known is None and places else None if known is None else known.address
    node = UpgradeNode(
        id=broker.broker_id,
        role="broker",
        address=str(place or "an unknown address"),
        caught_up=broker.state == "alive",
    )
    return node if place is None else await _asked(node, place, connect, is_controller=False)


async def _asked(
    node: UpgradeNode, place: Address, connect: Connect, *, is_controller: bool
) -> UpgradeNode:
    """Complete a node by what it says itself."""
    try:
        async with connect(place, is_controller) as client:
            version = (await client.discover_brokers()).software_version
            features = await client.describe_features()
    except Unauthenticated as error:
        return replace(node, problem=str(error))
    except Incompatible:
        # None of Kafka's nodes knows DiscoverBrokers.
        return replace(node, of_kafka=True)
    except AdminError as error:
        return replace(node, problem=str(error))
    levels = {each.name: each.supported for each in features.features if each.supported}
    return replace(node, version=version, levels=levels)

"""Connect to every node at its registered address, for the rules of health: which node refuses,
and which is silent.

A cluster may be well while no client reaches one of its nodes: a follower connects to its leader,
so that no other node looks at the certificate of the follower.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec.structs import replace

from admin.client.admin_client import AdminClient
from admin.faults import AdminError, CertificateRefused, Incompatible, Unauthenticated
from admin.monitoring.health_rules import NodeProbe
from admin.units import show_duration
from quorum.transport.address import Address

PROBE_MS: Final = 3_000
"""The time for each node to answer."""
PROBES_AT_ONCE_MAX: Final = 32

Connect = Callable[[Address], AdminClient]
"""Return a client of the node at an address, whose calls take `PROBE_MS` at most."""


async def node_probes(
    client: AdminClient,
    connect: Connect,
    *,
    of_brokers: bool,
    reachable: Collection[int],
    within_ms: int,
) -> Sequence[NodeProbe]:
    """Ask every controller and every live broker for its API versions, all within the time.

    `of_brokers`: the client was given brokers, so that its security is that of brokers. `reachable`
    are the controllers that the leader hears of. Raises `AdminError` if nobody names the nodes.
    """
    brokers = await client.brokers()
    quorum = await client.describe_quorum(stale=True)
    found = [
        (
            NodeProbe(
                name=f"controller {id}",
                address=str(listeners[0][1]),
                is_alive=id in reachable,
                is_of_target=not of_brokers,
            ),
            Address(*listeners[0][1]),
        )
        for id, listeners in sorted(quorum.addresses.items())
        if listeners
    ]
    found += [
        (
            NodeProbe(name=f"broker {each.id}", address=str(each.address), is_of_target=of_brokers),
            each.address,
        )
        for each in brokers
    ]
    limit = asyncio.Semaphore(PROBES_AT_ONCE_MAX)
    deadline = asyncio.get_running_loop().time() + within_ms / 1_000

    async def probed(node: NodeProbe, address: Address) -> NodeProbe:
        try:
            async with asyncio.timeout_at(deadline), limit, connect(address) as each:
                await each.describe_features()
        except CertificateRefused as error:
            return replace(node, refusal=str(error), is_certificate_refused=True)
        except (Unauthenticated, Incompatible) as error:
            return replace(node, refusal=str(error))
        except TimeoutError:
            return replace(node, silence=f"not asked within {show_duration(within_ms)}")
        except AdminError as error:
            return replace(node, silence=str(error))
        return node

    return await asyncio.gather(*(probed(*each) for each in found))

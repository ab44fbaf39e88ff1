"""Which brokers a plan may name: all that are registered, alive or not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from admin.capabilities.brokers import ListBrokers
from admin.client.admin_client import AdminClient, Incompatible
from admin.model import Assignment, PartitionId


@dataclass(frozen=True, slots=True)
class Registered:
    """The brokers of the cluster."""

    racks: Mapping[int, str | None]
    """Of all that are registered; where nobody tells of the others, of those alive."""
    dead: Collection[int] = ()
    """Those that cannot copy anything now."""
    cordoned: Collection[int] = ()
    """Those that get no new replicas."""

    def awaited(
        self, plan: Sequence[Assignment], current: Mapping[PartitionId, Sequence[int]]
    ) -> list[int]:
        """The dead ones to which the plan copies something, in order."""
        wanted = {
            broker
            for one in plan
            for broker in one.replicas or ()
            if broker not in current.get(one.id, ())
        }
        return sorted(wanted & {*self.dead})


async def registered(client: AdminClient) -> Registered:
    """The brokers as they are now. Apache's brokers do not pass the question on to a controller."""
    try:
        found = await client.ask(ListBrokers())
    except Incompatible:
        return Registered({each.id: each.rack for each in await client.brokers()})
    return Registered(
        racks={each.broker_id: each.rack for each in found.brokers},
        dead={each.broker_id for each in found.brokers if each.state != "alive"},
        cordoned={each.broker_id for each in found.brokers if each.cordoned},
    )

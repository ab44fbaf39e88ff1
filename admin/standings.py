"""What nodes say of the leader when nobody could answer: asked at the end, to tell a person why.

DiscoverBrokers needs no leader, so every controller of ours answers it. Brokers and controllers of
Kafka do not serve it, and then there is nothing to tell. Nothing is decided here.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admin.addresses import Address
from admin.channels import Channels, Form, Unanswered
from admin.faults import Incompatible
from quorum.core.vocabulary import NO_REPLICA
from quorum.protocol.apis import ApiKey


@dataclass(frozen=True, slots=True)
class Standing:
    """Who leads, as one node has heard it; `leader_id` is -1 where it knows of nobody."""

    leader_id: int
    epoch: int

    def __str__(self) -> str:
        if self.leader_id == NO_REPLICA:
            return f"knows no leader, epoch {self.epoch}"
        return f"says that {self.leader_id} leads epoch {self.epoch}"


def ask_anybody(form: Form) -> Any:
    """A client's DiscoverBrokers: it only asks."""
    return form.request(replica_id=NO_REPLICA, boot_timestamp=-1, host="", port=-1)


async def standings(
    channels: Channels, addresses: Sequence[Address], *, timeout_ms: int
) -> Mapping[Address, Standing]:
    """How the nodes at these addresses stand, those of them that tell within the time."""

    async def ask(address: Address) -> Standing | None:
        try:
            response = await channels.ask(
                address, ApiKey.DISCOVER_BROKERS, ask_anybody, timeout_ms=timeout_ms
            )
        except (Unanswered, Incompatible):
            return None
        if response.error_code.value:
            return None
        return Standing(response.leader_id, response.leader_epoch)

    found = await asyncio.gather(*map(ask, addresses))
    return {where: each for where, each in zip(addresses, found, strict=True) if each is not None}


def is_leaderless(found: Iterable[Standing]) -> bool:
    """Whether some tell, and none of them knows a leader."""
    leaders = {each.leader_id for each in found}
    return leaders == {NO_REPLICA}

"""The nodes that one node has heard of: DiscoverBrokers of KIP-595, asked by a client.

It needs no leader, and may be asked of any node, controller or embedded broker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from admin.addresses import Address
from admin.client.asking import Question, ask_anybody
from quorum.core.vocabulary import NO_DIRECTORY
from quorum.protocol.apis import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """The address that a node has announced at its boot of this timestamp."""

    id: int
    address: Address
    boot_timestamp_ms: int
    """The time at which it was booted, unless its clock has gone back before."""
    directory_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """The nodes that one node knows; `leader_id` is -1 for none."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    nodes: Sequence[NodePlace]


def discover_brokers() -> Question:
    """Ask for the nodes."""
    return Question(
        api_key=ApiKey.DISCOVER_BROKERS, fill=ask_anybody, failing="the nodes cannot be discovered"
    )


def read_whereabouts(response: Any) -> Whereabouts:
    """Return the nodes of the answer, by rising id."""
    nodes = (
        NodePlace(
            id=each.replica_id,
            address=Address(each.host, each.port),
            boot_timestamp_ms=each.boot_timestamp,
            directory_id=each.directory_id or NO_DIRECTORY,
        )
        for each in response.brokers
    )
    return Whereabouts(
        cluster_id=response.cluster_id,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        nodes=tuple(sorted(nodes, key=lambda node: node.id)),
    )

"""What is to be done so that brokers have no replicas any more: a plan, and what it cannot do.

Pure: from what a cluster says of itself to what to ask of it. Who asks again, later, is told what
is still to be done, so that nothing has to be remembered between.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from admin.care import BrokerStanding
from admin.model import (
    NO_LEADER,
    Assignment,
    PartitionDescription,
    PartitionId,
    Reassignment,
    TopicDescription,
)
from statemachine.planning.drain import drain
from statemachine.planning.unplanned import Unplanned, at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptying:
    """How far some brokers are from having no replicas."""

    held: int
    """Partitions that have a replica on any of them."""
    leaving: int
    """Those of them that are on their way elsewhere."""
    leaderless: Sequence[PartitionId]
    """Those that nobody leads: there is nobody to copy them from."""
    busy: Sequence[PartitionId]
    """Those that are being moved already, and keep a replica on the brokers."""
    plan: Sequence[Assignment] | Unplanned
    """What the others are to become, or why there is no plan."""
    current: Mapping[PartitionId, Sequence[int]]
    """Where the planned ones are: the plan that leads back."""


def emptying(
    brokers: Collection[int],
    standings: Sequence[BrokerStanding],
    topics: Mapping[str, TopicDescription],
    active: Sequence[Reassignment],
) -> Emptying:
    """How far the brokers are, and what is to be moved; `standings` are those of all brokers."""
    partitions = {
        PartitionId(topic.name, each.partition): each
        for topic in topics.values()
        for each in topic.partitions
    }
    held = {id for id, each in partitions.items() if not set(brokers).isdisjoint(each.replicas)}
    moving = {one.id: one for one in active if one.id in held}
    leaving = {
        id for id, one in moving.items() if set(brokers) & set(one.replicas) <= set(one.removing)
    }
    busy = moving.keys() - leaving
    leaderless = {id for id in held - moving.keys() if partitions[id].leader == NO_LEADER}
    wanted: dict[tuple[str, int], tuple[int, ...]] = {
        id: tuple(partitions[id].replicas) for id in held - moving.keys() - leaderless
    }
    found = at_once(
        drain(
            wanted,
            brokers,
            _takers(standings),
            {each.id: each.rack for each in standings},
            loads={each.id: each.replica_count for each in standings},
            leads=_preferred(partitions.values()),
        )
    )
    return Emptying(
        held=len(held),
        leaving=len(leaving),
        leaderless=sorted(leaderless),
        busy=sorted(busy),
        plan=found
        if isinstance(found, Unplanned)
        else [
            Assignment(topic=topic, partition=number, replicas=replicas)
            for (topic, number), replicas in found.items()
        ],
        current={PartitionId(*named): wanted[named] for named in sorted(wanted)},
    )


def _takers(standings: Sequence[BrokerStanding]) -> list[int]:
    return [each.id for each in standings if each.state == "alive" and not each.is_cordoned]


def _preferred(partitions: Collection[PartitionDescription]) -> Counter[int]:
    """How often each broker is the preferred leader."""
    return Counter(each.replicas[0] for each in partitions if each.replicas)

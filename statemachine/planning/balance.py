"""How evenly partitions are spread: measures, and no judgement."""

from collections import Counter

from msgspec import Struct

from statemachine.planning.placing import Assignment
from statemachine.planning.racks import Racks, bounds, rack_names
from statemachine.vocabulary import BrokerId


class Load(Struct, frozen=True, kw_only=True, gc=False):
    """What one broker has of the partitions measured."""

    broker: BrokerId
    replicas: int
    leaders: int
    """Partitions whose preferred leader it is; of the whole cluster, those that it leads."""


class Balance(Struct, frozen=True, kw_only=True):
    """How evenly partitions are spread over brokers and racks."""

    loads: tuple[Load, ...]
    """Of each broker, in order of id."""
    crowded: int | None
    """Partitions with more replicas in a rack than the racks call for; None where racks are not
    known."""

    @property
    def replica_gap(self) -> int:
        """How many replicas the fullest broker has more than the emptiest."""
        counts = [load.replicas for load in self.loads]
        return max(counts, default=0) - min(counts, default=0)

    @property
    def leader_gap(self) -> int:
        """As `replica_gap`, of preferred leaders."""
        counts = [load.leaders for load in self.loads]
        return max(counts, default=0) - min(counts, default=0)


def balance(assignment: Assignment, racks: Racks) -> Balance:
    """How evenly the partitions are spread over these brokers and whoever else has some of them."""
    replicas = Counter(broker for each in assignment.values() for broker in each)
    leaders = Counter(each[0] for each in assignment.values())
    brokers = sorted({*racks, *replicas})
    return Balance(
        loads=tuple(
            Load(broker=broker, replicas=replicas[broker], leaders=leaders[broker])
            for broker in brokers
        ),
        crowded=_crowded(assignment, racks),
    )


def _crowded(assignment: Assignment, racks: Racks) -> int | None:
    if not racks or any(rack is None for rack in racks.values()):
        return None
    names = rack_names(racks)
    sizes = Counter(names.values())
    room = [sizes[name] for name in sorted(sizes)]
    ideals: dict[int, tuple[tuple[int, ...], ...]] = {}
    crowded = 0
    for replicas in assignment.values():
        in_rack = Counter(names[broker] for broker in replicas if broker in names)
        count = in_rack.total()
        if count not in ideals:
            ideals[count] = bounds([0] * len(room), room, count)
        least, most = ideals[count]
        found = [in_rack[name] for name in sorted(sizes)]
        crowded += any(
            not low <= has <= high for low, has, high in zip(least, found, most, strict=True)
        )
    return crowded

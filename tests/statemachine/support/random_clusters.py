"""Small clusters for plans, and properties of all placements of a partition on them."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping

import hypothesis.strategies as st

from statemachine.reassignment.planner.placing import Named
from statemachine.vocabulary import BrokerId, Replicas

Racks = dict[BrokerId, str | None]
Current = dict[Named, Replicas]


@st.composite
def clusters(
    draw: st.DrawFn, *, brokers_max: int = 4, partitions_max: int = 4, strangers: int = 1
) -> tuple[Current, Racks]:
    """Partitions with one to three replicas, some on brokers that are not in the list."""
    brokers = draw(st.integers(1, brokers_max))
    with_racks = draw(st.booleans())
    racks: Racks = {
        broker: draw(st.sampled_from("abc")) if with_racks else None for broker in range(brokers)
    }
    everyone = range(brokers + strangers)
    replicas = st.lists(
        st.sampled_from(everyone), min_size=1, max_size=min(3, brokers), unique=True
    )
    names = [("t", 0), ("t", 1), ("u", 0), ("u", 1)][:partitions_max]
    count = draw(st.integers(1, len(names)))
    return {named: tuple(draw(replicas)) for named in names[:count]}, racks


def as_even_as_racks_allow(racks: Racks, count: int, kept: Replicas = ()) -> list[Replicas]:
    """The sets of `count` more brokers that, with those kept, use the racks most evenly."""
    found = list(itertools.combinations([b for b in sorted(racks) if b not in kept], count))
    if any(rack is None for rack in racks.values()):
        return found
    rated = [
        (squares(Counter(racks.get(b) for b in (*kept, *each)).values()), each) for each in found
    ]
    best = min(rate for rate, _ in rated)
    return [each for rate, each in rated if rate == best]


def squares(counts: Iterable[int]) -> int:
    """The smaller, the more even, where the sum is the same."""
    return sum(count * count for count in counts)


def loads(assignment: Mapping[Named, Iterable[BrokerId]], brokers: Iterable[BrokerId]) -> list[int]:
    """The number of replicas of each broker."""
    counts = Counter(broker for each in assignment.values() for broker in each)
    return [counts[broker] for broker in brokers]

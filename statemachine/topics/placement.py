"""Replica placement of new topics: spread over brokers and racks, deterministically.

The brokers form a ring that alternates between racks. Leaders are assigned around the ring; the
followers of a partition are placed after its leader, one position further in each round, so that
the partitions of a broker have different followers. No rack gets a second replica of a partition
before every rack has one. The start depends on the topic's id, so that small topics do not all
begin at the same broker.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from statemachine.records import kafka_records
from statemachine.vocabulary import BrokerId, Replicas


def place(
    brokers: list[kafka_records.RegisterBroker],
    topic_id: UUID,
    partition_count: int,
    replication_factor: int,
    *,
    first: int = 0,
) -> Iterator[Replicas]:
    """Yield the replicas of each partition, the preferred leader first.

    There must be at least `replication_factor` brokers. With the same brokers, partitions from
    `first` on get the replicas that they would have had from the beginning.
    """
    assert 1 <= replication_factor <= len(brokers)
    ring = _ring(brokers)
    racks = {broker.broker_id: broker.rack for broker in brokers}
    sizes = sorted(Counter(racks.values()).values())
    takers = [len(sizes) - bisect_right(sizes, has) for has in range(sizes[-1] + 1)]
    start, stride = topic_id.int % len(ring), topic_id.int // len(ring)
    for number in range(first, first + partition_count):
        leader = (start + number) % len(ring)
        step = stride + number // len(ring)
        yield _replicas(ring, racks, takers, leader, step, replication_factor)


def _ring(brokers: list[kafka_records.RegisterBroker]) -> list[BrokerId]:
    """Return the brokers in an order that alternates between racks as far as possible."""
    by_rack: dict[str | None, list[BrokerId]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        by_rack.setdefault(broker.rack, []).append(broker.broker_id)
    lanes = [by_rack[rack] for rack in sorted(by_rack, key=lambda rack: (rack is None, rack or ""))]
    longest = max(len(lane) for lane in lanes)
    return [lane[turn] for turn in range(longest) for lane in lanes if turn < len(lane)]


def _replicas(
    ring: list[BrokerId],
    racks: dict[BrokerId, str | None],
    takers: list[int],
    leader: int,
    stride: int,
    replication_factor: int,
) -> Replicas:
    """Return the next replicas, the leader first; `takers[n]` racks have more than n brokers."""
    chosen = [ring[leader]]
    in_rack = {racks[ring[leader]]: 1}
    others = len(ring) - 1
    allowed = 1
    # The leader's rack has one already.
    left = takers[0] - 1
    while len(chosen) < replication_factor:
        step = 0
        # Once every rack has as many as allowed, the rest of the ring has no candidate.
        while left and len(chosen) < replication_factor:
            candidate = ring[(leader + 1 + (stride + step) % others) % len(ring)]
            step += 1
            count = in_rack.get(racks[candidate], 0)
            if candidate in chosen or count >= allowed:
                continue
            chosen.append(candidate)
            in_rack[racks[candidate]] = count + 1
            left -= 1
        left = takers[allowed]
        allowed += 1
    return tuple(chosen)

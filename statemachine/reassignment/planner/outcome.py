"""The outcome of a plan: moves, and the balance of replicas and leaders before and after."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from statemachine.reassignment.planner.placing import Assignment, Racks, bounds, rack_names
from statemachine.reassignment.planner.survey import Ground, Held, Stay
from statemachine.vocabulary import NO_LEADER, BrokerId, Replicas


class Load(Struct, frozen=True, kw_only=True, gc=False):
    """The share of one broker in the partitions measured."""

    broker: BrokerId
    replicas: int
    leaders: int
    """Partitions whose preferred leader it is; of the whole cluster, those that it leads."""


class Balance(Struct, frozen=True, kw_only=True):
    """The balance of partitions over brokers and racks."""

    loads: tuple[Load, ...]
    """Of each broker, in order of id."""
    crowded: int | None
    """Partitions with more replicas in a rack than the racks call for; None where racks are not
    known."""


def balance(assignment: Assignment, racks: Racks) -> Balance:
    """Return the balance of the partitions over these brokers and all others that have some of
    them.
    """
    replicas = Counter(broker for each in assignment.values() for broker in each)
    leaders = Counter(each[0] for each in assignment.values())
    brokers = sorted({*racks, *replicas})
    return Balance(loads=_loads(brokers, replicas, leaders), crowded=_crowded(assignment, racks))


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


def loads_before_and_after(
    seen: Ground, rows: Sequence[Held], plan: Assignment
) -> tuple[tuple[Load, ...], tuple[Load, ...]]:
    """Of every broker, in order of id, what it has and leads: now, and then.

    `rows` is what the emptied brokers hold. Then is when the plan is carried out and what is on its
    way away from them has arrived; everything else stays as it is now.
    """
    replicas, leads = Counter(seen.loads), Counter(seen.leads)
    for row in rows:
        target = plan.get((row.topic, row.partition))
        if target is None and row.stay is Stay.LEAVING:
            target = row.final
        if target is None:
            continue
        replicas.subtract(row.replicas)
        replicas.update(target)
        if row.leader != NO_LEADER:
            leads[row.leader] -= 1
            leads[_leader_then(row, target, is_limited=seen.is_limited)] += 1
    brokers = sorted({*seen.racks, *replicas})
    return _loads(brokers, seen.loads, seen.leads), _loads(brokers, replicas, leads)


def _leader_then(row: Held, target: Replicas, *, is_limited: bool) -> BrokerId:
    """Return the final leader by the completion rule, if all brokers are alive."""
    takes_over = is_limited and target[0] not in row.before
    return target[0] if takes_over or row.leader not in target else row.leader


def _loads(
    brokers: Sequence[BrokerId], replicas: dict[BrokerId, int], leads: dict[BrokerId, int]
) -> tuple[Load, ...]:
    return tuple(
        Load(broker=each, replicas=replicas.get(each, 0), leaders=leads.get(each, 0))
        for each in brokers
    )


class Outcome(Struct, frozen=True, kw_only=True):
    """The moves of a plan, and the balance before and after."""

    replicas_added: int
    """Copies that would be made."""
    replicas_removed: int
    leaders_moved: int
    """Partitions that would have another preferred leader."""
    before: Balance
    after: Balance


def outcome(current: Assignment, plan: Assignment, racks: Racks) -> Outcome:
    """Return the outcome of a plan on `current`, which has all the planned partitions."""
    return Outcome(
        replicas_added=sum(len(set(plan[named]) - set(current[named])) for named in plan),
        replicas_removed=sum(len(set(current[named]) - set(plan[named])) for named in plan),
        leaders_moved=sum(plan[named][0] != current[named][0] for named in plan),
        before=balance(current, racks),
        after=balance({**current, **plan}, racks),
    )

"""The outcome of a plan: moves, and the balance of replicas and leaders before and after."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from statemachine.reassignment.planner.placing import Assignment, Racks, bounds, rack_names
from statemachine.reassignment.planner.survey import ClusterSurvey, Held, Stay
from statemachine.vocabulary import NO_LEADER, BrokerId, Replicas


class BrokerShare(Struct, frozen=True, kw_only=True, gc=False, rename={"broker": "broker_id"}):
    """A broker's share of the planned partitions, or of all partitions for a decommission."""

    broker: BrokerId
    replicas_before: int
    replicas_after: int
    leaders_before: int
    """Partitions with it as preferred leader; for a decommission, as leader."""
    leaders_after: int


class Outcome(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "crowded_before": "racks_shared_before",
        "crowded_after": "racks_shared_after",
        "shares": "brokers",
    },
):
    """The outcome of a plan."""

    replicas_added: int = 0
    """Copies that would be made."""
    replicas_removed: int = 0
    leaders_moved: int = 0
    """Partitions that would have another preferred leader."""
    crowded_before: int | None = None
    """Partitions that share racks needlessly; None if racks are not known."""
    crowded_after: int | None = None
    shares: tuple[BrokerShare, ...] = ()


def outcome(current: Assignment, plan: Assignment, racks: Racks) -> Outcome:
    """Return the outcome of a plan on `current`, which has all planned partitions."""
    if not current:
        # Zeros would look like the brokers' real shares.
        return Outcome()
    after = {**current, **plan}
    return Outcome(
        replicas_added=sum(len(set(plan[named]) - set(current[named])) for named in plan),
        replicas_removed=sum(len(set(current[named]) - set(plan[named])) for named in plan),
        leaders_moved=sum(plan[named][0] != current[named][0] for named in plan),
        crowded_before=crowded(current, racks),
        crowded_after=crowded(after, racks),
        shares=_shares(racks, *_counts(current), *_counts(after)),
    )


def _counts(assignment: Assignment) -> tuple[Counter[BrokerId], Counter[BrokerId]]:
    """Return the partitions of each broker, and those of which it is the preferred leader."""
    replicas = Counter(broker for each in assignment.values() for broker in each)
    return replicas, Counter(each[0] for each in assignment.values())


def crowded(assignment: Assignment, racks: Racks) -> int | None:
    """Return the number of partitions that are uneven over racks; None if racks are unknown."""
    if not racks or any(rack is None for rack in racks.values()):
        return None
    names = rack_names(racks)
    sizes = Counter(names.values())
    room = tuple([sizes[name] for name in sorted(sizes)])
    found = 0
    for replicas in assignment.values():
        in_rack = Counter(names[broker] for broker in replicas if broker in names)
        least, most = bounds((0,) * len(room), room, in_rack.total())
        has_each = [in_rack[name] for name in sorted(sizes)]
        found += any(
            not low <= has <= high for low, has, high in zip(least, has_each, most, strict=True)
        )
    return found


def cluster_shares(
    seen: ClusterSurvey, rows: Sequence[Held], plan: Assignment
) -> tuple[BrokerShare, ...]:
    """Return the share of every broker in all partitions, in order of id, before and after.

    `rows` are the partitions on the emptied brokers. "After" means that the plan and the
    reassignments away from these brokers are complete; everything else stays as it is now.
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
    return _shares(seen.racks, seen.loads, seen.leads, replicas, leads)


def _leader_then(row: Held, target: Replicas, *, is_limited: bool) -> BrokerId:
    """Return the final leader by the completion rule, if all brokers are alive."""
    takes_over = is_limited and target[0] not in row.before
    return target[0] if takes_over or row.leader not in target else row.leader


def _shares(
    brokers: Iterable[BrokerId],
    replicas: Mapping[BrokerId, int],
    leaders: Mapping[BrokerId, int],
    replicas_after: Mapping[BrokerId, int],
    leaders_after: Mapping[BrokerId, int],
) -> tuple[BrokerShare, ...]:
    """Return the shares of these brokers and of all others with replicas, now or afterwards."""
    return tuple(
        BrokerShare(
            broker=each,
            replicas_before=replicas.get(each, 0),
            replicas_after=replicas_after.get(each, 0),
            leaders_before=leaders.get(each, 0),
            leaders_after=leaders_after.get(each, 0),
        )
        for each in sorted({*brokers, *replicas, *replicas_after})
    )

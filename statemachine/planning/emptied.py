"""What every broker has and leads of the whole cluster now, and would once some are emptied.

Only what the emptied brokers hold is looked at one by one: how many replicas each broker has, and
how many partitions it leads, is counted in the index. It is foretold, and promises nothing.
"""

from collections import Counter
from collections.abc import Sequence

from statemachine.planning.balance import Load
from statemachine.planning.placing import Assignment
from statemachine.planning.survey import Ground, Held, Stay
from statemachine.vocabulary import NO_LEADER, BrokerId, Replicas


def whole(
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
    """Who leads in the end, as `completion` has it, if everybody lives."""
    takes_over = is_limited and target[0] not in row.before
    return target[0] if takes_over or row.leader not in target else row.leader


def _loads(
    brokers: Sequence[BrokerId], replicas: dict[BrokerId, int], leads: dict[BrokerId, int]
) -> tuple[Load, ...]:
    return tuple(
        Load(broker=each, replicas=replicas.get(each, 0), leaders=leads.get(each, 0))
        for each in brokers
    )

"""What a plan would do, said before it is carried out. It promises nothing: brokers come and go."""

from collections.abc import Mapping

from msgspec import Struct

from statemachine.planning.balance import Balance, balance
from statemachine.planning.placing import Assignment, Named
from statemachine.planning.racks import Racks


class Outcome(Struct, frozen=True, kw_only=True):
    """What a plan would move, and how evenly everything is spread before and after."""

    partitions: int
    """Partitions that would not be as they are."""
    replicas_added: int
    """Copies that would be made."""
    replicas_removed: int
    leaders_moved: int
    """Partitions that would have another preferred leader."""
    bytes_moved: int | None
    """Of all the copies made; None where the size of any partition that is copied is not known."""
    before: Balance
    after: Balance


def outcome(
    current: Assignment,
    plan: Assignment,
    racks: Racks,
    sizes_bytes: Mapping[Named, int] | None = None,
) -> Outcome:
    """What carrying out the plan would make of `current`, which has all the partitions planned."""
    added = {named: len(set(plan[named]) - set(current[named])) for named in plan}
    removed = sum(len(set(current[named]) - set(plan[named])) for named in plan)
    copied = {named: count for named, count in added.items() if count}
    sizes = sizes_bytes or {}
    return Outcome(
        partitions=sum(plan[named] != current[named] for named in plan),
        replicas_added=sum(added.values()),
        replicas_removed=removed,
        leaders_moved=sum(plan[named][0] != current[named][0] for named in plan),
        bytes_moved=(
            sum(sizes[named] * count for named, count in copied.items())
            if all(named in sizes for named in copied)
            else None
        ),
        before=balance(current, racks),
        after=balance({**current, **plan}, racks),
    )

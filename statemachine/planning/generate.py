"""A plan that spreads the partitions of some topics over a list of brokers (`--generate`).

Afterwards every replica is on a broker of the list, no rack has more replicas of a partition than
it must, and the brokers have as even a number of replicas, and of preferred leaders, as that
leaves possible. Among all such plans it is one that copies the fewest replicas; replication factors
stay. Counted are the partitions named, and nothing else that the brokers carry.
"""

from collections.abc import Generator

from statemachine.planning.placing import (
    Assignment,
    Named,
    Question,
    Table,
    answer,
    in_place_of,
    led_evenly,
)
from statemachine.planning.racks import Racks
from statemachine.planning.unplanned import Reason, Unplanned, too_few, too_many
from statemachine.vocabulary import Replicas


def generate(
    current: Assignment, brokers: Racks
) -> Generator[None, None, dict[Named, Replicas] | Unplanned]:
    """What is to change of `current`, in order of name; or why there is nothing to be changed.

    Racks are heeded if every broker has one. Partitions that are being moved are best left out: all
    the replicas of `current` count as wanted.
    """
    refusal = _refusal(current, brokers)
    if refusal is not None:
        return refusal
    table = Table(brokers)
    # Topic by topic, the brokers that are filled first would get partitions of the first topics
    # alone; number by number each gets some of all.
    names = sorted(current, key=lambda named: (named[1], named[0]))
    everyone = table.bits(table.brokers)
    questions = [
        Question(kept=(), count=len(set(current[named])), candidates=everyone, has=current[named])
        for named in names
    ]
    found = yield from answer(table, questions, {})
    members = {
        named: in_place_of(current[named], each) for named, each in zip(names, found, strict=True)
    }
    planned = yield from led_evenly(members, {n: current[n][0] for n in names}, {})
    changed = {named: planned[named] for named in sorted(names) if planned[named] != current[named]}
    if not changed:
        return Unplanned(
            Reason.NOTHING_TO_IMPROVE,
            "no plan would be better: replicas and preferred leaders are spread as evenly over"
            " these brokers and racks as they can be",
        )
    return changed


def _refusal(current: Assignment, brokers: Racks) -> Unplanned | None:
    if not current:
        return Unplanned(Reason.NO_PARTITIONS, "there are no partitions to be planned for")
    largest = max(current, key=lambda named: len(set(current[named])))
    return too_many(len(current)) or too_few(
        f"{largest[0]}-{largest[1]}", len(set(current[largest])), len(brokers)
    )

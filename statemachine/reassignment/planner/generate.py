"""A plan that spreads the partitions of some topics over a list of brokers (`--generate`).

Afterwards every replica is on a broker of the list, no rack has more replicas of a partition than
it must, and the brokers have as even a number of replicas, and of preferred leaders, as that
leaves possible. Among all such plans it is one that copies the fewest replicas; replication factors
stay. Counted are the partitions named, and nothing else that the brokers carry.
"""

from collections.abc import Collection, Generator

from statemachine.reassignment.planner.placing import (
    Assignment,
    Named,
    Question,
    Racks,
    Table,
    answer,
    in_place_of,
    led_evenly,
)
from statemachine.reassignment.planner.survey import Reason, Unplanned, too_few, too_many
from statemachine.vocabulary import BrokerId, Replicas


def generate(
    current: Assignment, brokers: Racks, *, closed: Collection[BrokerId] = ()
) -> Generator[None, None, dict[Named, Replicas] | Unplanned]:
    """Return the changes of `current`, by name; or the reason why there are none.

    Racks are heeded if every broker has one. Brokers that are `closed` (cordoned) keep what they
    have as far as that is even, and get nothing new. Partitions that are being moved are best left
    out: all the replicas of `current` count as wanted.
    """
    refusal = _refusal(current, brokers)
    if refusal is not None:
        return refusal
    table = Table(brokers)
    takers = table.bits([broker for broker in table.brokers if broker not in closed])
    # Topic by topic, the brokers that are filled first would get partitions of the first topics
    # alone; number by number each gets some of all.
    names = sorted(current, key=lambda named: (named[1], named[0]))
    questions = []
    for named in names:
        replicas = current[named]
        candidates = takers | table.bits(replicas)
        short = too_few(f"{named[0]}-{named[1]}", len(set(replicas)), candidates.bit_count())
        if short is not None:
            return short
        questions.append(
            Question(kept=(), count=len(set(replicas)), candidates=candidates, has=replicas)
        )
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
    return too_many(len(current))

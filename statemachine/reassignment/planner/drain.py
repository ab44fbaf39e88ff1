"""A plan that empties brokers: what they have goes elsewhere, and nothing else moves.

It is the plan with the fewest copies by its nature. Where the copies go is chosen so that the
brokers that take them end up as evenly loaded, and racks as evenly used, as what stays put allows.
Whether the emptied brokers live does not matter: replicas are copied from those that are in sync.
"""

from collections.abc import Collection, Generator, Mapping

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
from statemachine.reassignment.planner.survey import Reason, Unplanned, too_many
from statemachine.vocabulary import BrokerId, Replicas


def drain(
    current: Assignment,
    emptied: Collection[BrokerId],
    onto: Collection[BrokerId],
    racks: Racks,
    *,
    loads: Mapping[BrokerId, int],
    leads: Mapping[BrokerId, int],
) -> Generator[None, None, dict[Named, Replicas] | Unplanned]:
    """Return the changes of `current` that leave no replica on the emptied brokers.

    `onto` may get replicas, and is in `racks`, which may know others too; `loads` and `leads` are
    how many replicas and preferred leaders each broker has now. Partitions without a replica on an
    emptied broker are left alone.
    """
    gone = frozenset(emptied)
    takers = sorted(set(onto) - gone)
    names = sorted(
        (named for named in current if not gone.isdisjoint(current[named])),
        key=lambda named: (named[1], named[0]),
    )
    if (refusal := too_many(len(names))) is not None:
        return refusal
    table = Table(racks)
    allowed = table.bits(takers)
    questions = []
    for named in names:
        question = _question(current[named], gone, table, allowed)
        if question.count > question.candidates.bit_count():
            return _stuck(named, current[named], gone, question.candidates.bit_count())
        questions.append(question)
    found = yield from answer(table, questions, loads)
    members = {
        named: in_place_of(current[named], (*question.kept, *coming))
        for named, question, coming in zip(names, questions, found, strict=True)
    }
    headless = {named: members[named] for named in names if current[named][0] in gone}
    led = yield from led_evenly(headless, {n: current[n][0] for n in headless}, leads)
    planned = members | led
    return {named: planned[named] for named in sorted(planned)}


def _question(
    replicas: Replicas, gone: Collection[BrokerId], table: Table, allowed: int
) -> Question:
    kept = tuple([replica for replica in replicas if replica not in gone])
    return Question(
        kept=kept,
        count=len(replicas) - len(kept),
        candidates=allowed & ~table.bits(kept),
        has=(),
    )


def _stuck(named: Named, replicas: Replicas, gone: Collection[BrokerId], there: int) -> Unplanned:
    leaving = [replica for replica in replicas if replica in gone]
    return Unplanned(
        Reason.TOO_FEW_BROKERS,
        f"{named[0]}-{named[1]} has replicas {_listed(replicas)}: {len(leaving)} must go from"
        f" {_listed(leaving)}, and {there} other brokers could take one; add brokers, or give it"
        " fewer replicas first",
    )


def _listed(brokers: Collection[BrokerId]) -> str:
    return ", ".join(map(str, brokers))

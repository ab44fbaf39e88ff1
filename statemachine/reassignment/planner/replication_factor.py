"""A plan that gives partitions another number of replicas. No other plan ever does.

Replicas are only added, or only taken away: nothing else moves, and the preferred leader stays.
Which ones come or go is chosen for even racks first and even brokers then.
"""

from collections.abc import Collection, Generator, Mapping

from statemachine.reassignment.planner.placing import (
    Assignment,
    Named,
    Question,
    Racks,
    Table,
    answer,
)
from statemachine.reassignment.planner.survey import Reason, Unplanned, too_few, too_many
from statemachine.vocabulary import BrokerId, Replicas


def with_factor(
    current: Assignment,
    factor: int,
    onto: Collection[BrokerId],
    racks: Racks,
    *,
    loads: Mapping[BrokerId, int],
) -> Generator[None, None, dict[Named, Replicas] | Unplanned]:
    """Return the changes of `current` that give every partition `factor` replicas.

    `onto` may get replicas, and is in `racks`, which may know others too; `loads` is how many
    replicas each broker has now, those of `current` included.
    """
    names = sorted(
        (named for named in current if len(current[named]) != factor),
        key=lambda named: (named[1], named[0]),
    )
    refusal = _refusal(names, factor)
    if refusal is not None:
        return refusal
    table = Table(racks)
    allowed = table.bits(sorted(set(onto)))
    others = dict(loads)
    questions = []
    for named in names:
        question = _question(current[named], factor, table, allowed)
        short = too_few(
            f"{named[0]}-{named[1]}", factor, len(question.kept) + question.candidates.bit_count()
        )
        if short is not None:
            return short
        questions.append(question)
        for replica in question.has:
            others[replica] = others.get(replica, 0) - 1
    found = yield from answer(table, questions, others)
    planned = {
        named: _in_order(current[named], (*question.kept, *chosen))
        for named, question, chosen in zip(names, questions, found, strict=True)
    }
    return {named: planned[named] for named in sorted(planned)}


def _refusal(names: list[Named], factor: int) -> Unplanned | None:
    if factor < 1:
        return Unplanned(
            Reason.INVALID_FACTOR,
            f"a replication factor of {factor} is not possible; ask for 1 or more",
        )
    if not names:
        return Unplanned(
            Reason.NOTHING_TO_IMPROVE, f"every partition has {factor} replica(s) already"
        )
    return too_many(len(names))


def _question(replicas: Replicas, factor: int, table: Table, allowed: int) -> Question:
    if factor > len(replicas):
        candidates = allowed & ~table.bits(replicas)
        return Question(kept=replicas, count=factor - len(replicas), candidates=candidates, has=())
    # The preferred leader stays. Unregistered brokers go first.
    known = tuple([replica for replica in replicas[1:] if replica in table.bit])
    strangers = tuple([replica for replica in replicas[1:] if replica not in table.bit])
    staying = strangers[: max(0, factor - 1 - len(known))]
    return Question(
        kept=(replicas[0], *staying),
        count=factor - 1 - len(staying),
        candidates=table.bits(known),
        has=known,
    )


def _in_order(before: Replicas, members: Replicas) -> Replicas:
    """The members in the order of before, newcomers last."""
    return (
        *[broker for broker in before if broker in members],
        *[broker for broker in members if broker not in before],
    )

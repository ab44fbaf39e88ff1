"""Plans: spread partitions over brokers, empty brokers, or change the number of replicas.

A plan has only the partitions that change, by topic and number. Replicas are spread evenly over
racks first, then over brokers, with the fewest copies that this takes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from statemachine.brokers.lifecycle import closed_note
from statemachine.errors import listed
from statemachine.limits import PLANNED_PARTITIONS_MAX
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
from statemachine.vocabulary import BrokerId, Replicas


class Unplanned(Struct, frozen=True):
    """The reason why there is no plan."""

    message: str


Planning: TypeAlias = Generator[None, None, dict[Named, Replicas] | Unplanned]
"""The computation of a plan, in slices of a few milliseconds."""


def generate(current: Assignment, brokers: Racks, *, closed: Collection[BrokerId] = ()) -> Planning:
    """Spread the partitions over these brokers (`--generate`).

    Every replica ends on one of the brokers, no rack has more replicas of a partition than it must,
    and replicas and preferred leaders are as even as that allows; replication factors stay. Racks
    count if every broker has one. `closed` (cordoned) brokers get no new replicas, and keep theirs
    as far as loads stay even. Only `current` counts as load. Leave out partitions under
    reassignment: replicas that are being removed would be planned for too.
    """
    if not current:
        return Unplanned("there are no partitions to plan for")
    table = Table(brokers)
    takers = table.bits([broker for broker in table.brokers if broker not in closed])

    def question(replicas: Replicas) -> Question:
        candidates = takers | table.bits(replicas)
        return Question(kept=(), count=len(set(replicas)), candidates=candidates, has=replicas)

    loads = Counter(broker for replicas in current.values() for broker in replicas)
    members = yield from _placed(current, current, table, question, loads, _too_few)
    if isinstance(members, Unplanned):
        return members
    planned = yield from led_evenly(members, current, {})
    changed = {
        named: planned[named] for named in sorted(planned) if planned[named] != current[named]
    }
    if not changed:
        return Unplanned(
            "no plan would be better: replicas and preferred leaders are spread as evenly over"
            " these brokers and racks as they can be",
        )
    return changed


def drain(
    current: Assignment,
    emptied: Collection[BrokerId],
    onto: Collection[BrokerId],
    racks: Racks,
    *,
    loads: Mapping[BrokerId, int],
    leads: Mapping[BrokerId, int],
    closed: Collection[BrokerId] = (),
) -> Planning:
    """Empty the `emptied` brokers, which may be dead; no other replica moves.

    The brokers `onto` may get replicas; `racks` has them and may have others. `loads` and `leads`
    are the numbers of replicas and preferred leaders that each broker has now. A refusal names the
    `closed` (cordoned) brokers.
    """
    gone = frozenset(emptied)
    table = Table(racks)
    allowed = table.bits(sorted(set(onto) - gone))

    def question(replicas: Replicas) -> Question:
        kept = tuple([replica for replica in replicas if replica not in gone])
        candidates = allowed & ~table.bits(kept)
        return Question(kept=kept, count=len(replicas) - len(kept), candidates=candidates, has=())

    def stuck(named: Named, question: Question) -> str:
        return _stuck(named, current[named], question, gone, closed)

    names = [named for named in current if not gone.isdisjoint(current[named])]
    members = yield from _placed(current, names, table, question, loads, stuck)
    if isinstance(members, Unplanned):
        return members
    headless = {named: each for named, each in members.items() if current[named][0] in gone}
    led = yield from led_evenly(headless, current, leads)
    return dict(sorted((members | led).items()))


def _stuck(
    named: Named,
    replicas: Replicas,
    question: Question,
    gone: Collection[BrokerId],
    closed: Collection[BrokerId],
) -> str:
    leaving = [replica for replica in replicas if replica in gone]
    note = closed_note(set(closed) - set(gone))
    add, more = ("add or uncordon brokers", f".{note[:-1]}") if note else ("add brokers", "")
    return (
        f"{named[0]}-{named[1]} has replicas {listed(replicas)}: {len(leaving)} must go from"
        f" {listed(leaving)}, and {question.candidates.bit_count()} other brokers could take"
        f" one; {add}, or give it fewer replicas first{more}"
    )


def with_factor(
    current: Assignment,
    factor: int,
    onto: Collection[BrokerId],
    racks: Racks,
    *,
    loads: Mapping[BrokerId, int],
) -> Planning:
    """Give every partition `factor` replicas: only add, or only remove; the preferred leader stays.

    The brokers `onto` may get replicas; `racks` has them and may have others. `loads` is the number
    of replicas that each broker has now, those of `current` included.
    """
    if factor < 1:
        return Unplanned(f"a replication factor of {factor} is not possible; ask for 1 or more")
    names = [named for named in current if len(current[named]) != factor]
    if not names:
        return Unplanned(f"every partition has {factor} replica(s) already")
    table = Table(racks)
    allowed = table.bits(sorted(set(onto)))

    def question(replicas: Replicas) -> Question:
        kept, candidates = replicas, allowed & ~table.bits(replicas)
        known: Replicas = ()
        if factor < len(replicas):
            # Unregistered brokers go first.
            known = tuple([replica for replica in replicas[1:] if replica in table.bit])
            strangers = tuple([replica for replica in replicas[1:] if replica not in table.bit])
            kept = (replicas[0], *strangers[: max(0, factor - 1 - len(known))])
            candidates = table.bits(known)
        return Question(kept=kept, count=factor - len(kept), candidates=candidates, has=known)

    members = yield from _placed(current, names, table, question, loads, _too_few)
    return members if isinstance(members, Unplanned) else dict(sorted(members.items()))


def _placed(
    current: Assignment,
    names: Iterable[Named],
    table: Table,
    question_of: Callable[[Replicas], Question],
    loads: Mapping[BrokerId, int],
    shortage: Callable[[Named, Question], str],
) -> Planning:
    """Choose the brokers of each named partition; `loads` includes their present replicas."""
    # In order of number first: in order of topic, the brokers that are filled first would get
    # partitions of the first topics only.
    ordered = sorted(names, key=lambda named: (named[1], named[0]))
    if len(ordered) > PLANNED_PARTITIONS_MAX:
        return Unplanned(
            f"{len(ordered)} partitions are more than one plan may have: {PLANNED_PARTITIONS_MAX};"
            " plan for fewer topics or brokers at a time",
        )
    others, questions = Counter(loads), []
    for named in ordered:
        question = question_of(current[named])
        if question.count > question.candidates.bit_count():
            return Unplanned(shortage(named, question))
        questions.append(question)
        others.subtract(question.has)
    found = yield from answer(table, questions, others)
    return {
        named: in_place_of(current[named], (*question.kept, *coming))
        for named, question, coming in zip(ordered, questions, found, strict=True)
    }


def _too_few(named: Named, question: Question) -> str:
    kept = len(question.kept)
    return (
        f"{named[0]}-{named[1]} needs {kept + question.count} brokers for its replicas, and can"
        f" have {kept + question.candidates.bit_count()}"
    )

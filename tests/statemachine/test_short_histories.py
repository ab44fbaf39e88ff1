"""Every short history of one partition on three brokers, one after the other: none loses anything.

From a partition with one replica whatever may happen is tried: another target, a cancel, a change
of the ISR, a broker that dies or is back. What comes of it is looked at, and is where the next
things begin, unless it has been met before; so the shortest history that goes wrong is found first.
"""

from collections import deque
from collections.abc import Iterator
from itertools import permutations, product
from typing import Final, NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

from statemachine import commands
from statemachine.commands import AlterReassignments, Command, Decision, Reassignment
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration, merged
from statemachine.records import kafka_records
from statemachine.replay import replay
from statemachine.vocabulary import NO_LEADER, Replicas
from tests.statemachine.support.config_requests import ALL_BROKERS, SET, change
from tests.statemachine.support.reference_checks import check_change
from tests.statemachine.support.world import World

pytestmark = pytest.mark.thorough

BROKERS: Final = (1, 2, 3)
TARGETS: Final = tuple(each for size in BROKERS for each in permutations(BROKERS, size))
MIN_ISR: Final = 2
STATES: Final = 2_500
"""From which everything is tried: histories of up to six things, most of them of five."""

_NAMES: Final = (("isr", "elr"), ("min-isr", "all-target"), ("whole", "steps"))

Log = tuple[kafka_records.Record, ...]


class Logged(World):
    """A cluster that keeps its log."""

    def __init__(self, *, elr: bool) -> None:
        self.log: list[kafka_records.Record] = []
        super().__init__(broker_count=len(BROKERS), elr=elr)

    def replay(
        self, record: kafka_records.Record, written: kafka_records.Record | None = None
    ) -> None:
        """As ever."""
        self.log.append(record)
        super().replay(record, written)


class State(NamedTuple):
    """The state on which the future depends; epochs, times and move ids are left out."""

    partition: tuple[object, ...]
    live: frozenset[int]
    complete: frozenset[int]
    """The brokers that have all that was ever acknowledged."""


class Happened(NamedTuple):
    """Something that happened, and what it has come to."""

    words: tuple[object, ...]
    before: PartitionRegistration
    after: PartitionRegistration
    live: frozenset[int]
    complete: frozenset[int]
    added: Log

    @property
    def state(self) -> State:
        """A key that is equal for states that were met before."""
        part = self.after
        shape = (part.replicas, part.isr, part.leader, part.adding, part.removing, part.target)
        rest = (part.original, part.base, part.elr, part.last_known_elr, part.recovery)
        return State((*shape, *rest), self.live, self.complete)


def _chosen() -> Iterator[ParameterSet]:
    """All combinations; half of them have every pair of choices, and the others are `long`."""
    for places in product((0, 1), repeat=3):
        names = [pair[place] for pair, place in zip(_NAMES, places, strict=True)]
        elr, rule, way = names
        marks = [pytest.mark.long] if sum(places) % 2 else []
        at_once = "1" if way == "steps" else None
        yield pytest.param(elr == "elr", rule, at_once, id="-".join(names), marks=marks)


@pytest.mark.parametrize(("elr", "rule", "at_once"), [*_chosen()])
def test_no_short_history_gives_up_what_was_acknowledged(
    elr: bool, rule: str, at_once: str | None
) -> None:
    world = Logged(elr=elr)
    world.given(replicas=(1,), isr=(1,), leader=1, configs={"min.insync.replicas": str(MIN_ISR)})
    ops = [("reassignment.completion.rule", SET, rule)]
    if at_once is not None:
        ops.append(("reassignment.parallel.replica.count", SET, at_once))
    world.ask(commands.IncrementalAlterConfigs(changes=(change(ALL_BROKERS, *ops),)))
    begin = world.partition()
    first = Happened((), begin, begin, frozenset(BROKERS), frozenset(begin.isr), ())
    waiting: deque[tuple[tuple[object, ...], Log, Happened]] = deque(
        [((), tuple(world.log), first)]
    )
    met = {first.state}
    for _ in range(STATES):
        story, log, last = waiting.popleft()
        world.image = built(log)
        for each in next_of(world, last, elr=elr):
            wrong = faults(each, elr=elr)
            assert not wrong, f"{wrong} after {[*story, each.words]}: {each.before} -> {each.after}"
            if each.added and each.state not in met:
                met.add(each.state)
                waiting.append(((*story, each.words), log + each.added, each))


def built(log: Log) -> Image:
    image = Image()
    for record in log:
        replay(image, record, image.end_offset)
    return image


def next_of(world: World, last: Happened, *, elr: bool) -> Iterator[Happened]:
    """Everything that may happen next, decided by the image of the world."""
    part = world.partition()
    for replicas in (*TARGETS, *([None] if part.moving else [])):
        asked = Reassignment(topic="t", partition=0, replicas=replicas)
        words = ("cancel",) if replicas is None else ("move", *replicas)
        yield happened(world, last, words, AlterReassignments(reassignments=(asked,)))
    for isr in changed_isrs(part, last.live):
        command = commands.AlterPartition(
            broker_id=part.leader,
            broker_epoch=world.epoch(part.leader),
            proposals=(world.proposal(isr),),
        )
        yield happened(world, last, ("isr", *isr), command)
    for broker in BROKERS:
        if broker in last.live:
            fenced = commands.FenceBrokers(broker_ids=(broker,))
            yield happened(world, last, ("fence", broker), fenced, live=last.live - {broker})
        else:
            beat = commands.BrokerHeartbeat(
                broker_id=broker,
                broker_epoch=world.epoch(broker),
                metadata_offset=world.image.end_offset - 1,
            )
            yield happened(world, last, ("return", broker), beat, live=last.live | {broker})


def changed_isrs(part: PartitionRegistration, live: frozenset[int]) -> Iterator[Replicas]:
    """The ISRs that a leader may propose: one more member that has caught up, or one less."""
    if part.leader == NO_LEADER:
        return
    for each in part.replicas:
        if each in part.isr and each != part.leader:
            yield tuple(member for member in part.isr if member != each)
        elif each not in part.isr and each in live:
            yield (*part.isr, each)


def happened(
    world: World,
    last: Happened,
    words: tuple[object, ...],
    command: Command,
    live: frozenset[int] | None = None,
) -> Happened:
    """Carry out a command; a leader acknowledges whatever it may, at every step."""
    decision = decide(world.image, command, now_ms=world.now_ms)
    before = after = world.partition()
    complete = last.complete
    if words[0] == "isr" and is_accepted(decision):
        complete |= {each for each in words[1:] if isinstance(each, int)}
    for record in decision.records:
        if isinstance(record, kafka_records.PartitionChange):
            after, old = merged(after, record), after
            check_change(old, record, after)
            lead = after.leader
            assert lead in (NO_LEADER, old.leader) or lead in complete, f"{words}: {old} -> {after}"
            if len(after.isr) >= min(MIN_ISR, len(after.replicas)):
                complete &= set(after.isr)
    live = last.live if live is None else live
    return Happened(words, before, after, live, complete, tuple(decision.records))


def is_accepted(decision: Decision) -> bool:
    assert isinstance(decision.answer, commands.PartitionsAltered)
    (told,) = decision.answer.partitions
    return told.error in (Error.NONE, Error.NEW_LEADER_ELECTED)


def faults(what: Happened, *, elr: bool) -> list[str]:
    """The violation, if any; unclean elections are not allowed here."""
    before, after = what.before, what.after
    cancelled = what.words == ("cancel",) and what.added
    waits = after.isr or after.elr
    wrong = {
        "no replica is left that has all that was acknowledged": not (
            what.complete & set(after.replicas)
        ),
        "who is in sync lacks some of it": not set(after.isr) <= what.complete,
        "who is eligible lacks some of it": not set(after.elr) <= what.complete,
        "nobody is in sync": not elr and not after.isr,
        "nobody leads": NO_LEADER == after.leader != before.leader and what.words[0] != "fence",
        "one could lead and does not": after.leader == NO_LEADER and bool({*waits} & what.live),
        "a cancel leaves a move": cancelled and after.moving,
        "a cancel leaves other replicas": cancelled and after.replicas != before.base,
    }
    return [words for words, is_so in wrong.items() if is_so]

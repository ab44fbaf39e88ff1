"""How much room the limits leave for further steps, as the records of a decision leave it."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.configs.effective import configured_min_isr
from statemachine.image.partition_index import PartitionIndex, Topic
from statemachine.limits import PASSED_OVER_MAX, STEPS_BEGUN_MAX, TURNS_LOOKED_AT_MAX
from statemachine.partitions.change_builder import change_partition
from statemachine.partitions.registration import PartitionRegistration, Stage, moves_leader
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.scheduler.auto_pause import Hurt, pause_and_resume, resting, rests
from statemachine.reassignment.scheduler.priority import Class, draft_place, turns_of
from statemachine.reassignment.scheduler.queue import Group, Place, Turn, Turns
from statemachine.reassignment.settings import Limits, limits
from statemachine.reassignment.step import Blocked, Step, step
from statemachine.slices import CHANGED_US, LOOKED_AT_US, PASSED_US, Slices
from statemachine.vocabulary import Replicas


class Room:
    """What is under way, against what may be."""

    __slots__ = ("adding", "leaders", "limits", "partitions")

    def __init__(self, index: PartitionIndex, limits: Limits) -> None:
        self.limits = limits
        self.partitions = len(index.stepping)
        self.leaders = index.leader_moves
        self.adding = index.adding_total

    @property
    def has_place(self) -> bool:
        """Whether one partition more may have a step under way."""
        return self.partitions < self.limits.parallel_partitions

    @property
    def has_leaders(self) -> bool:
        """Whether one step more may move a leader."""
        return self.leaders < self.limits.leader_movements

    def fits(self, step: Step) -> bool:
        """Whether the step may begin now, in a place that there is."""
        return (not step.moves_leader or self.has_leaders) and self.has_adding(step)

    def has_adding(self, step: Step) -> bool:
        """Whether so many replicas more may be added now."""
        return self.adding + len(step.adding) <= self.limits.replica_movements

    def take(self, partition: PartitionRegistration) -> None:
        """The step of this partition is under way."""
        self._count(partition, 1)

    def give_back(self, partition: PartitionRegistration) -> None:
        """The step of this partition, if there was one, is not under way any more."""
        self._count(partition, -1)

    def _count(self, partition: PartitionRegistration, sign: int) -> None:
        if partition.steps:
            self.partitions += sign
            self.leaders += sign * moves_leader(partition)
            self.adding += sign * len(partition.adding)


def room_of(draft: PendingDecision, limits: Limits) -> Slices[Room]:
    """The room that there is after the records so far."""
    room = Room(draft.image.index, limits)
    for topic, number, after in draft.changed_partitions():
        before = topic.partition(number)
        if before is not None:
            room.give_back(before)
        room.take(after)
        yield PASSED_US
    for topic in draft.deleted_topics():
        for number, partition in topic.existing():
            if not draft.has_changed(topic, number):
                room.give_back(partition)
            yield PASSED_US
    return room


_NO_TURN_YET: Final = 1 << 62
"""Behind every turn there is: of those that this decision has attached, in the order asked."""


class _Candidate(NamedTuple):
    turn: Turn
    topic: Topic
    number: int
    place: Place | None = None
    """Where it stands after what the decision has changed, if it has."""


class _Changed(NamedTuple):
    """What the decision itself has changed among those that wait."""

    shadowed: BitMap
    """Turns of which the image is out of date."""
    groups: dict[Group, list[_Candidate]]
    hurt: Hurt


def advance(
    draft: PendingDecision, at_most: int = STEPS_BEGUN_MAX, *, anew: bool = False
) -> Slices[bool]:
    """Begin the steps that there is room for; returns whether some are left for another decision.

    The last thing of a decision: it sees what the records so far make of the image. `anew` is for
    who has just begun to decide: moves that rest by themselves may have nothing left that waits.
    """
    image = draft.image
    if not (image.index.moving or draft.has_waiting):
        image.index.turns = None
    # Where turns are kept somebody has waited, whose move may still rest by itself.
    waits = image.index.waiting or draft.has_waiting
    if not (waits or image.index.turns is not None or (anew and image.index.stepping)):
        return False
    if image.transaction is not None:
        return False
    turns = yield from turns_of(image)
    in_force = limits(draft)
    changed = yield from _changed(draft, turns, in_force)
    pause_and_resume(draft, turns, changed.shadowed, changed.hurt, in_force)
    if draft.all_paused is not None:
        return False
    room = yield from room_of(draft, in_force)
    return (yield from _Beginning(draft, turns, room, at_most).begin(changed))


def begins_at_once(draft: PendingDecision) -> bool:
    """Whether partitions of a new move wait for nothing: no limit, and no pause of all moves."""
    return draft.all_paused is None and limits(draft).is_unlimited


def staying(partition: PartitionRegistration, target: Replicas) -> Replicas:
    """The replicas that a new target leaves for now, in their order.

    What was only added for the old one goes at once. Not so who is in sync, or eligible, or known
    to have led last (KIP-966): nobody else may have what it has. It is removed like any other.
    """
    needed = {*target, *partition.isr, *partition.elr, *partition.last_known_elr}
    return tuple(
        replica
        for replica in partition.replicas
        if replica in needed or replica not in partition.adding
    )


def attached(
    partition: PartitionRegistration, target: Replicas, stage: Stage
) -> PartitionRegistration:
    """The partition as it waits for its turn to set out for `target`, from what it has now.

    Of a step that is under way stays what leads to the new target as well, and who is needed.
    """
    kept = staying(partition, target)
    adding = tuple(replica for replica in partition.adding if replica in target)
    removing = tuple(replica for replica in partition.removing if replica not in target)
    before = partition.base
    at_least = min(len(before), len(target))
    # Without what it was to make room for, nobody goes.
    removing = removing[: max(0, len(kept) - at_least)] if adding else ()
    return replace(
        partition,
        replicas=kept,
        adding=adding,
        removing=removing,
        target=target,
        original=before,
        stage=replace(stage, step=1, base=before) if adding else stage,
    )


def _begun(partition: PartitionRegistration, found: Step, now_ms: int) -> PartitionRegistration:
    before = partition.stage
    return replace(
        partition,
        replicas=partition.replicas + found.adding,
        adding=found.adding,
        removing=found.removing,
        stage=Stage(before.move, before.step + 1, now_ms),
    )


class _Beginning:
    """One decision's beginning of steps."""

    def __init__(self, draft: PendingDecision, turns: Turns, room: Room, at_most: int) -> None:
        self.draft = draft
        self.turns = turns
        self.limits = room.limits
        self.at_most = at_most
        self.room = room
        self.begun = 0
        self.passed_over: Turn | None = None
        """The first that needs more replicas at once than may be added now."""

    def begin(self, changed: _Changed) -> Slices[bool]:
        """Give everyone a turn, as long as there is room; whether some are left for whom it is."""
        held = resting(self.draft, self.turns) | changed.shadowed
        for group in sorted(self.turns.groups.keys() | changed.groups.keys()):
            if group[0] == Class.LEADER_MOVES and not self.room.has_leaders:
                continue
            looked_at = 0
            for candidate in self._in_turn(group, changed, held):
                if not self.room.has_place or self._is_held_back():
                    return False
                if self.begun >= self.at_most:
                    return True
                if looked_at >= TURNS_LOOKED_AT_MAX:
                    break
                looked_at += not self._try(candidate)
                yield CHANGED_US
        return False

    def _in_turn(self, group: Group, changed: _Changed, held: BitMap) -> Iterator[_Candidate]:
        waiting = self.turns.groups.get(group, BitMap()) - held
        drafted = sorted(filter(self._goes_on, changed.groups.get(group, ())), key=_turn)
        return merge(map(self._candidate, waiting), drafted, key=_turn)

    def _goes_on(self, drafted: _Candidate) -> bool:
        place = drafted.place
        return place is None or not rests(self.draft, place.move, is_hurt=place.is_hurt)

    def _candidate(self, turn: Turn) -> _Candidate:
        found = self.draft.image.index.at(self.turns.key(turn))
        assert found is not None, f"turn {turn} is of no partition"
        return _Candidate(turn, *found)

    def _is_held_back(self) -> bool:
        """Whether the others wait now, until one fits that was passed over too often."""
        passed = self.passed_over
        return passed is not None and self.turns.passed_over(passed) >= PASSED_OVER_MAX

    def _try(self, candidate: _Candidate) -> bool:
        """Begin the partition's next step, and those after it if it is complete at once."""
        began = False
        while self.room.has_place and self.begun < self.at_most:
            partition = self.draft.partition(candidate.topic, candidate.number)
            assert partition is not None
            if not partition.waits or not self._begin_step(candidate, partition):
                break
            began = True
        return began

    def _begin_step(self, candidate: _Candidate, partition: PartitionRegistration) -> bool:
        topic, number = candidate.topic, candidate.number
        found = step(
            partition.replicas,
            partition.target,
            isr=partition.isr,
            leader=partition.leader,
            min_isr=configured_min_isr(self.draft, topic.name),
            live=self.draft.live,
            limits=self.limits,
        )
        if isinstance(found, Blocked) or not self.room.fits(found):
            if isinstance(found, Step) and not self.room.has_adding(found):
                self.passed_over = candidate.turn if self.passed_over is None else self.passed_over
            return False
        wish = _begun(partition, found, self.draft.now_ms)
        self.room.take(change_partition(self.draft, topic, number, wish))
        self.begun += 1
        if self.passed_over is not None:
            self.turns.pass_over(self.passed_over)
        return True


def _changed(draft: PendingDecision, turns: Turns, in_force: Limits) -> Slices[_Changed]:
    changed = _Changed(BitMap(), {}, {})
    for count, (topic, number, partition) in enumerate(_drafted(draft, turns)):
        yield LOOKED_AT_US
        turn = turns.turn(topic.keys[number])
        if turn is not None:
            changed.shadowed.add(turn)
        if not partition.target:
            continue
        place = draft_place(draft, topic, partition, in_force)
        before = topic.partition(number)
        if turn is None or before is None or before.stage.move != place.move:
            turn = _NO_TURN_YET + count
        if place.is_hurt and place.move:
            changed.hurt.setdefault(place.move, (topic, number, partition))
        if place.group is not None:
            candidate = _Candidate(turn, topic, number, place)
            changed.groups.setdefault(place.group, []).append(candidate)
    for turn in _of_deleted(draft, turns):
        changed.shadowed.add(turn)
        yield PASSED_US
    return changed


def _of_deleted(draft: PendingDecision, turns: Turns) -> Iterator[Turn]:
    for topic in draft.deleted_topics():
        for key in topic.keys:
            turn = turns.turn(key)
            if turn is not None:
                yield turn


def _drafted(
    draft: PendingDecision, turns: Turns
) -> Iterator[tuple[Topic, int, PartitionRegistration]]:
    """The partitions that are not, or may not be, where the image has them."""
    image = draft.image
    for topic, number, partition in draft.changed_partitions():
        if partition.target or turns.turn(topic.keys[number]) is not None:
            yield topic, number, partition
    for broker_id in draft.returned_brokers():
        for turn in islice(turns.waiting_for.get(broker_id, ()), STEPS_BEGUN_MAX):
            found = image.index.at(turns.key(turn))
            assert found is not None, f"turn {turn} is of no partition"
            topic, number = found
            partition_before = topic.partition(number)
            if partition_before is not None and not draft.has_changed(topic, number):
                yield topic, number, partition_before


def _turn(candidate: _Candidate) -> Turn:
    return candidate.turn

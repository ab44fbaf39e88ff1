"""Start reassignment steps: as many partitions at a time as the limits allow (KIP-435).

Every decision ends with this: the budget that its records free goes to the partitions that wait, in
the same list of records, so that no fail-over can lose the next step. A partition that does not fit
is passed over for one that does, a bounded number of times. Without limits all start at once.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.configs.effective import configured_min_isr
from statemachine.image.partition_index import PartitionIndex
from statemachine.image.partition_table import Topic
from statemachine.limits import PASSED_OVER_MAX, STEPS_BEGUN_MAX, TURNS_LOOKED_AT_MAX
from statemachine.partitions.change_builder import change_partition
from statemachine.partitions.registration import PartitionRegistration, Stage, moves_leader
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.scheduler.auto_pause import (
    UnderMinIsr,
    pause_and_resume,
    resting,
    rests,
)
from statemachine.reassignment.scheduler.queue import (
    Position,
    PriorityClass,
    PriorityGroup,
    QueueEntry,
    ReassignmentQueue,
    entry_of,
)
from statemachine.reassignment.settings import Limits, limits
from statemachine.reassignment.step import Blocked, Step, step
from statemachine.slices import CHANGED_US, LOOKED_AT_US, PASSED_US, Slices


class Budget:
    """The steps under way, against the limits."""

    __slots__ = ("adding", "leaders", "limits", "partitions")

    def __init__(self, index: PartitionIndex, limits: Limits) -> None:
        self.limits = limits
        self.partitions = len(index.stepping)
        self.leaders = index.leader_moves
        self.adding = index.adding_total

    @property
    def has_slot(self) -> bool:
        """True if one partition more may have a step under way."""
        return self.partitions < self.limits.parallel_partitions

    @property
    def has_leaders(self) -> bool:
        """True if one step more may move a leader."""
        return self.leaders < self.limits.leader_movements

    def fits(self, step: Step) -> bool:
        """Return True if a step may begin in a free slot."""
        return (not step.moves_leader or self.has_leaders) and self.has_adding(step)

    def has_adding(self, step: Step) -> bool:
        """Return True if the step's new replicas may be added now."""
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


def budget_of(draft: PendingDecision, limits: Limits) -> Slices[Budget]:
    """The budget that there is after the records so far."""
    budget = Budget(draft.image.index, limits)
    for topic, number, after in draft.changed_partitions():
        before = topic.partition(number)
        if before is not None:
            budget.give_back(before)
        budget.take(after)
        yield PASSED_US
    for topic in draft.deleted_topics():
        for number, partition in topic.existing():
            if not draft.has_changed(topic, number):
                budget.give_back(partition)
            yield PASSED_US
    return budget


_NO_POSITION_YET: Final = 1 << 62
"""Behind every position in the queue: of partitions that this decision attaches, in order."""


class _Candidate(NamedTuple):
    position: Position
    topic: Topic
    number: int
    entry: QueueEntry | None = None
    """Where it stands after what the decision has changed, if it has."""


_BY_POSITION: Final = attrgetter("position")


class _Changed(NamedTuple):
    """The changes of this decision among the waiting partitions."""

    shadowed: BitMap
    """Positions of partitions that this decision has changed."""
    groups: dict[PriorityGroup, list[_Candidate]]
    under_min_isr: UnderMinIsr


def advance(
    draft: PendingDecision, at_most: int = STEPS_BEGUN_MAX, *, anew: bool = False
) -> Slices[bool]:
    """Begin the steps that the budget allows; return whether some are left for another decision.

    This is the last part of a decision: it sees the image after the records so far. `anew` is for a
    new active controller: of an automatically paused move, no partition may be waiting.
    """
    image = draft.image
    scheduler = draft.scheduler
    if not (image.index.moving or draft.has_waiting):
        scheduler.drop_queue()
    # While a queue is kept a partition has waited, whose move may still be paused automatically.
    waits = image.index.waiting or draft.has_waiting
    if not (waits or scheduler.has_queue or (anew and image.index.stepping)):
        return False
    if image.transaction is not None:
        return False
    queue = yield from scheduler.queue_of(image)
    in_force = limits(draft)
    changed = yield from _changed(draft, queue, in_force)
    pause_and_resume(draft, queue, changed.shadowed, changed.under_min_isr, in_force)
    if draft.all_paused is not None:
        return False
    budget = yield from budget_of(draft, in_force)
    return (yield from _StepStarter(draft, queue, budget, at_most).begin(changed))


def _begun(partition: PartitionRegistration, found: Step, now_ms: int) -> PartitionRegistration:
    before = partition.stage
    return replace(
        partition,
        replicas=partition.replicas + found.adding,
        adding=found.adding,
        removing=found.removing,
        stage=Stage(before.move, before.step + 1, now_ms),
    )


class _StepStarter:
    """One decision's beginning of steps."""

    def __init__(
        self, draft: PendingDecision, queue: ReassignmentQueue, budget: Budget, at_most: int
    ) -> None:
        self.draft = draft
        self.queue = queue
        self.limits = budget.limits
        self.at_most = at_most
        self.budget = budget
        self.begun = 0
        self.passed_over: Position | None = None
        """The first that needs more replicas at once than may be added now."""

    def begin(self, changed: _Changed) -> Slices[bool]:
        """Start steps while the budget lasts; return whether some that fit are left."""
        held = resting(self.draft, self.queue) | changed.shadowed
        for group in sorted(self.queue.groups.keys() | changed.groups.keys()):
            if group[0] == PriorityClass.LEADER_MOVES and not self.budget.has_leaders:
                continue
            looked_at = 0
            for candidate in self._in_turn(group, changed, held):
                if not self.budget.has_slot or self._is_held_back():
                    return False
                if self.begun >= self.at_most:
                    return True
                if looked_at >= TURNS_LOOKED_AT_MAX:
                    break
                looked_at += not self._try(candidate)
                yield CHANGED_US
        return False

    def _in_turn(
        self, group: PriorityGroup, changed: _Changed, held: BitMap
    ) -> Iterator[_Candidate]:
        waiting = self.queue.groups.get(group, BitMap()) - held
        drafted = sorted(filter(self._goes_on, changed.groups.get(group, ())), key=_BY_POSITION)
        return merge(map(self._candidate, waiting), drafted, key=_BY_POSITION)

    def _goes_on(self, drafted: _Candidate) -> bool:
        entry = drafted.entry
        return entry is None or not rests(
            self.draft, entry.move, is_under_min_isr=entry.is_under_min_isr
        )

    def _candidate(self, position: Position) -> _Candidate:
        found = self.draft.image.index.at(self.queue.key_at(position))
        assert found is not None, f"position {position} is of no partition"
        return _Candidate(position, *found)

    def _is_held_back(self) -> bool:
        """Return True if all others wait for one that was passed over too often."""
        passed = self.passed_over
        return passed is not None and self.queue.passed_over(passed) >= PASSED_OVER_MAX

    def _try(self, candidate: _Candidate) -> bool:
        """Begin the partition's next step, and those after it if it is complete at once."""
        began = False
        while self.budget.has_slot and self.begun < self.at_most:
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
        if isinstance(found, Blocked) or not self.budget.fits(found):
            if isinstance(found, Step) and not self.budget.has_adding(found):
                self.passed_over = (
                    candidate.position if self.passed_over is None else self.passed_over
                )
            return False
        desired = _begun(partition, found, self.draft.now_ms)
        self.budget.take(change_partition(self.draft, topic, number, desired))
        self.begun += 1
        if self.passed_over is not None:
            self.queue.pass_over(self.passed_over)
        return True


def _changed(
    draft: PendingDecision, queue: ReassignmentQueue, in_force: Limits
) -> Slices[_Changed]:
    changed = _Changed(BitMap(), {}, {})
    for count, (topic, number, partition) in enumerate(_drafted(draft, queue)):
        yield LOOKED_AT_US
        position = queue.position(topic.keys[number])
        if position is not None:
            changed.shadowed.add(position)
        if not partition.target:
            continue
        move = draft.move(partition.stage.move)
        entry = entry_of(
            partition,
            configured_min_isr(draft, topic.name),
            in_force,
            draft.live,
            0 if move is None else move.options.priority,
        )
        before = topic.partition(number)
        if position is None or before is None or before.stage.move != entry.move:
            position = _NO_POSITION_YET + count
        if entry.is_under_min_isr and entry.move:
            changed.under_min_isr.setdefault(entry.move, (topic, number, partition))
        if entry.group is not None:
            candidate = _Candidate(position, topic, number, entry)
            changed.groups.setdefault(entry.group, []).append(candidate)
    for topic in draft.deleted_topics():
        for key in topic.keys:
            position = queue.position(key)
            if position is not None:
                changed.shadowed.add(position)
                yield PASSED_US
    return changed


def _drafted(
    draft: PendingDecision, queue: ReassignmentQueue
) -> Iterator[tuple[Topic, int, PartitionRegistration]]:
    """The partitions that are not, or may not be, where the image has them."""
    image = draft.image
    for topic, number, partition in draft.changed_partitions():
        if partition.target or queue.position(topic.keys[number]) is not None:
            yield topic, number, partition
    for broker_id in draft.returned_brokers():
        for position in islice(queue.waiting_for.get(broker_id, ()), STEPS_BEGUN_MAX):
            found = image.index.at(queue.key_at(position))
            assert found is not None, f"position {position} is of no partition"
            topic, number = found
            partition_before = topic.partition(number)
            if partition_before is not None and not draft.has_changed(topic, number):
                yield topic, number, partition_before

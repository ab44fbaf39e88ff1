"""Start reassignment steps: as many partitions at a time as the limits allow (KIP-435).

Every decision ends with this: waiting partitions use the budget that its records free, in the same
list of records, so that no fail-over can lose the next step. A partition that does not fit is
passed over for one that does, a bounded number of times. Without limits all start at once.
"""

from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.image.partition_index import PartitionIndex
from statemachine.limits import PASSED_OVER_MAX, STEPS_BEGUN_MAX, WAITING_TRIED_MAX
from statemachine.partitions.change_builder import change_partition
from statemachine.partitions.registration import PartitionRegistration, Stage, moves_leader
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.scheduler.auto_pause import (
    partition_at,
    pause_and_resume,
    paused_positions,
)
from statemachine.reassignment.scheduler.queue import (
    Position,
    PriorityClass,
    ReassignmentQueue,
    entry_of,
)
from statemachine.reassignment.settings import Limits, limits
from statemachine.reassignment.step import Blocked, Step, next_step
from statemachine.slices import CHANGED_US, LOOKED_AT_US, PASSED_US, Slices


class Budget:
    """The steps that the limits still allow."""

    __slots__ = ("adding", "leaders", "limits", "partitions")

    def __init__(self, index: PartitionIndex, limits: Limits) -> None:
        self.limits = limits
        self.partitions = len(index.stepping)
        self.leaders = index.leader_moves
        self.adding = index.adding_total

    @property
    def has_slot(self) -> bool:
        """True if one more partition may have a step under way."""
        return self.partitions < self.limits.parallel_partitions

    @property
    def has_leaders(self) -> bool:
        """True if one more step may move a leader."""
        return self.leaders < self.limits.leader_movements

    def fits(self, step: Step) -> bool:
        """Return True if the step may begin, given a free slot."""
        return (not step.moves_leader or self.has_leaders) and self.has_adding(step)

    def has_adding(self, step: Step) -> bool:
        """Return True if the step's new replicas may be added now."""
        return self.adding + len(step.adding) <= self.limits.replica_movements

    def change(
        self, before: PartitionRegistration | None, after: PartitionRegistration | None
    ) -> None:
        """Replace the step of the partition `before` with that of `after` in the counts."""
        for partition, sign in ((before, -1), (after, 1)):
            if partition is not None and partition.steps:
                self.partitions += sign
                self.leaders += sign * moves_leader(partition)
                self.adding += sign * len(partition.adding)


def advance(pending: PendingDecision, *, check_pauses: bool = False) -> Slices[bool]:
    """Begin the steps that the budget allows; return whether some are left for another decision.

    This is the last part of a decision: it sees the image after the records so far. A new active
    controller sets `check_pauses`: an automatically paused move may have no waiting partition.
    """
    image = pending.image
    scheduler = pending.scheduler
    if not (image.index.moving or pending.has_waiting):
        scheduler.drop_queue()
    # A kept queue means that a partition has waited: its move may still be paused automatically.
    waits = image.index.waiting or pending.has_waiting
    if not (waits or scheduler.has_queue or (check_pauses and image.index.stepping)):
        return False
    if image.transaction is not None:
        return False
    queue = yield from scheduler.queue_of(image)
    budget = Budget(image.index, limits(pending))
    yield from _foresee(pending, queue, budget)
    pause_and_resume(pending, queue, budget.limits)
    if pending.all_paused is not None:
        return False
    return (yield from _StepStarter(pending, queue, budget).begin())


def _foresee(pending: PendingDecision, queue: ReassignmentQueue, budget: Budget) -> Slices[None]:
    """Apply the records so far to the queue and the budget."""
    for topic, number, after in pending.changed_partitions():
        budget.change(topic.partition(number), after)
        key = topic.keys[number]
        if after.target or queue.position(key) is not None:
            queue.foresee(key, entry_of(pending, topic, after, budget.limits))
        yield LOOKED_AT_US
    for topic_id in sorted(pending.deleted):
        topic = pending.image.topics[topic_id]
        for number, partition in topic.existing():
            if not pending.has_changed(topic, number):
                budget.change(partition, None)
            if queue.position(topic.keys[number]) is not None:
                queue.foresee(topic.keys[number], None)
            yield PASSED_US
    for broker_id in pending.returned_brokers():
        for position in queue.waiting_for.get(broker_id, BitMap())[:STEPS_BEGUN_MAX]:
            topic, number, found = partition_at(pending, queue, position)
            queue.foresee(topic.keys[number], entry_of(pending, topic, found, budget.limits))
            yield LOOKED_AT_US


def _begun(partition: PartitionRegistration, found: Step, now_ms: int) -> PartitionRegistration:
    before = partition.stage
    return replace(
        partition,
        replicas=partition.replicas + found.adding,
        adding=found.adding,
        removing=found.removing,
        stage=Stage(before.move, before.step + 1, now_ms, before.base),
    )


class _StepStarter:
    """Begins steps within one decision."""

    def __init__(self, pending: PendingDecision, queue: ReassignmentQueue, budget: Budget) -> None:
        self.pending = pending
        self.queue = queue
        self.budget = budget
        self.begun = 0
        self.passed_over: Position | None = None
        """The first position whose step adds more replicas than the budget allows."""

    def begin(self) -> Slices[bool]:
        """Start steps while the budget lasts; return whether some that fit are left."""
        held = paused_positions(self.pending, self.queue)
        for group in sorted(self.queue.groups):
            if group[0] == PriorityClass.LEADER_MOVES and not self.budget.has_leaders:
                continue
            looked_at = 0
            for position in self.queue.groups[group] - held:
                if not self.budget.has_slot or self._is_held_back():
                    return False
                if self.begun >= STEPS_BEGUN_MAX:
                    return True
                if looked_at >= WAITING_TRIED_MAX:
                    break
                looked_at += not self._try(position)
                yield CHANGED_US
        return False

    def _is_held_back(self) -> bool:
        """Return True if one was passed over too often: all others wait until it begins."""
        passed = self.passed_over
        return passed is not None and self.queue.passed_over(passed) >= PASSED_OVER_MAX

    def _try(self, position: Position) -> bool:
        """Begin the next step, and later ones if it completes at once; True if any began."""
        topic, number, partition = partition_at(self.pending, self.queue, position)
        began = False
        while partition.waits and self.budget.has_slot and self.begun < STEPS_BEGUN_MAX:
            found = next_step(self.pending, topic, partition, self.budget.limits)
            if isinstance(found, Blocked) or not self.budget.fits(found):
                if isinstance(found, Step) and not self.budget.has_adding(found):
                    self.passed_over = position if self.passed_over is None else self.passed_over
                break
            desired = _begun(partition, found, self.pending.now_ms)
            after = change_partition(self.pending, topic, number, desired)
            self.budget.change(partition, after)
            partition = after
            self.begun += 1
            if self.passed_over is not None:
                self.queue.pass_over(self.passed_over)
            began = True
        return began

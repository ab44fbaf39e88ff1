"""The progress of a reassigned partition, and the reason that holds it up.

Except for copy reports it follows from the image, so that all controllers agree. The first reason
that applies is given, in the order of `Reason`.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

from msgspec import Struct

from statemachine.configs.effective import configured_min_isr, min_isr
from statemachine.errors import listed
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment import running_copies
from statemachine.reassignment.completion import completes, missing, needed, staying_in_sync
from statemachine.reassignment.copies import CopyLookup, no_report, partition_copies
from statemachine.reassignment.move import is_stopped
from statemachine.reassignment.scheduler.advance import Budget
from statemachine.reassignment.scheduler.queue import is_under_min_isr
from statemachine.reassignment.settings import CompletionRule, Limits, completion_rule, limits
from statemachine.reassignment.step import Blocked, Reason, Step, next_step, steps_left
from statemachine.reassignment.throttle import copying, rate_of
from statemachine.vocabulary import NO_LEADER, MoveState, Replicas


class State(Enum):
    """The states of a partition that is being reassigned."""

    GROWING = "growing"
    """Its step has begun, and none of the added replicas is in sync yet."""
    CATCHING_UP = "catching-up"
    """Some are in sync, or the step adds no replica; it is not complete yet."""
    WAITING = "waiting"
    """It waits for its first or next step."""
    PAUSED = "paused"
    """Its move, or every move, is paused: it waits, or its copies stand still."""


class Why(Struct, frozen=True, kw_only=True, gc=False):
    """One reason; `detail` is its text for people."""

    reason: Reason | None
    detail: str = ""
    brokers: Replicas = ()
    """The brokers that the reason names."""
    since_ms: int = 0
    """When a pause or the fencing of a broker began; 0 for other reasons."""


_NOTHING: Final = Why(reason=None)


class PartitionProgress(Why, frozen=True, kw_only=True, gc=False):
    """The progress of one partition.

    A `reason` of None says that nothing is known to hold it up; `since_ms` is when this state
    began, 0 if that is unknown.
    """

    step: int
    """The number of the step that is under way or comes next, from 1."""
    of: int
    """The number of all steps, if the settings stay and all live brokers catch up."""
    state: State


def progress_of(
    image: Image, topic: Topic, number: int, report_of: CopyLookup = no_report
) -> PartitionProgress | None:
    """Return the progress of the partition; None if it is not being reassigned.

    `report_of` looks up the brokers' copy reports, which show whether replicas fall behind.
    """
    partition = topic.partition(number)
    if partition is None or not partition.moving:
        return None
    begun = partition.stage.step
    reasons = _under_way(image, topic, number, partition, report_of)
    if partition.waits:
        begun += 1
        reasons = _waiting(image, topic, partition)
    why = next(reasons, _NOTHING)
    return PartitionProgress(
        step=max(begun, 1),
        of=max(begun, 1) - 1 + len(planned_steps(image, topic, partition)),
        state=state_of(image, topic, number, partition),
        reason=why.reason,
        detail=why.detail,
        brokers=why.brokers,
        since_ms=max(partition.stage.since_ms, why.since_ms),
    )


def planned_steps(
    image: Image, topic: Topic, partition: PartitionRegistration
) -> tuple[Replicas, ...]:
    """Return the replicas after each step from the present one on.

    This assumes that the settings stay and all live brokers catch up.
    """
    current, in_flight = partition.aimed, not partition.waits
    if not partition.target or current == partition.target:
        return (current,)
    known = [each for each in partition.isr if each in current]
    plan = steps_left(
        current,
        partition.target,
        isr=current if in_flight else tuple(known),
        leader=partition.leader if partition.leader in current else current[0],
        min_isr=configured_min_isr(image, topic.name),
        live=image.live,
        limits=limits(image),
    )
    after = tuple(each.replicas for each in plan)
    return (current, *after) if in_flight else after


def state_of(image: Image, topic: Topic, number: int, partition: PartitionRegistration) -> State:
    """Return the state of a partition that is being reassigned."""
    if partition.waits:
        is_paused = next(_pauses(image, topic, partition), None) is not None
        return State.PAUSED if is_paused else State.WAITING
    if running_copies.stands_still(image, topic, number, partition):
        return State.PAUSED
    if partition.adding and not any(each in partition.isr for each in partition.adding):
        return State.GROWING
    return State.CATCHING_UP


def _waiting(image: Image, topic: Topic, partition: PartitionRegistration) -> Iterator[Why]:
    yield from _pauses(image, topic, partition)
    in_force = limits(image)
    found = next_step(image, topic, partition, in_force)
    if isinstance(found, Blocked):
        yield from _absent(image, found.brokers, found.reason)
        return
    yield from _full(image, found, in_force)
    yield Why(reason=Reason.TURN, detail="others that wait go first")


def _pauses(image: Image, topic: Topic, partition: PartitionRegistration) -> Iterator[Why]:
    paused = image.all_paused
    if paused is not None:
        detail = f"all moves are paused by {paused.who or 'somebody'}"
        yield Why(reason=Reason.ALL_PAUSED, detail=detail, since_ms=paused.since_ms)
    move = image.moves.get(partition.stage.move)
    if move is None or move.state == MoveState.RUNNING:
        return
    if move.state == MoveState.PAUSED:
        detail = f"move {move.id} is paused by {move.who or 'somebody'}"
        yield Why(reason=Reason.MOVE_PAUSED, detail=detail, since_ms=move.since_ms)
    elif not is_under_min_isr(partition, configured_min_isr(image, topic.name)):
        yield Why(reason=Reason.HURT, detail=move.detail, since_ms=move.since_ms)


def _absent(image: Image, brokers: Replicas, otherwise: Reason) -> Iterator[Why]:
    """Yield the reason for missing brokers: unregistered if none is registered, or `otherwise`."""
    unknown = tuple(each for each in brokers if each not in image.brokers)
    if not brokers:
        yield Why(reason=otherwise, detail="no replica that could lead is alive")
    elif unknown == brokers:
        detail = f"not registered: {listed(unknown)}"
        yield Why(reason=Reason.NOT_REGISTERED, detail=detail, brokers=unknown)
    else:
        fenced = [image.brokers[each].fenced_at_ms or 0 for each in brokers if each not in unknown]
        detail = f"not alive: {listed(brokers)}"
        yield Why(reason=otherwise, detail=detail, brokers=brokers, since_ms=max(fenced))


def _full(image: Image, found: Step, in_force: Limits) -> Iterator[Why]:
    """Yield the limits that leave no budget for the step."""
    index, budget = image.index, Budget(image.index, in_force)
    if not budget.has_slot:
        detail = f"partitions with a step under way: {len(index.stepping)}"
        yield Why(reason=Reason.LIMIT_PARTITIONS, detail=detail)
    if found.moves_leader and not budget.has_leaders:
        detail = f"steps under way that move a leader: {index.leader_moves}"
        yield Why(reason=Reason.LIMIT_LEADER_MOVEMENTS, detail=detail)
    if not budget.has_adding(found):
        detail = f"replicas that are being added: {index.adding_total}, it would add "
        yield Why(reason=Reason.LIMIT_REPLICA_MOVEMENTS, detail=f"{detail}{len(found.adding)}")


def _under_way(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration, report_of: CopyLookup
) -> Iterator[Why]:
    if running_copies.stands_still(image, topic, number, partition):
        yield from _pauses(image, topic, partition)
    if partition.leader == NO_LEADER:
        yield Why(reason=Reason.NO_LEADER, detail="no replica that could lead is alive")
    behind = copying(partition)
    dead = tuple(each for each in behind if not image.live(each))
    if dead:
        yield from _absent(image, dead, Reason.NO_LIVE_TARGET)
    rule = completion_rule(image)
    configured = min_isr(image, topic.name, partition)
    if behind:
        yield from _catching_up(image, topic, number, partition, report_of)
    elif completes(partition, configured, rule):
        return
    elif rule is CompletionRule.ALL_TARGET and (lacking := missing(partition)):
        detail = f"not in sync: {listed(lacking)}"
        yield Why(reason=Reason.ALL_TARGET, detail=detail, brokers=lacking)
    else:
        staying, least = staying_in_sync(partition), needed(partition, configured)
        detail = f"{staying} of those that stay are in sync, and min ISR is {least}"
        yield Why(reason=Reason.MIN_ISR, detail=detail)


def _catching_up(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration, report_of: CopyLookup
) -> Iterator[Why]:
    behind, move = copying(partition), image.moves.get(partition.stage.move)
    copies = partition_copies(image, topic, number, partition, report_of)
    if copies is not None and copies.behind:
        names = listed(copies.behind)
        detail = f"more is written than is copied, so that it never is in sync: {names}"
        rate = rate_of(move)
        if rate:
            detail += f"; the move is throttled to {rate} bytes/s"
        yield Why(reason=Reason.FALLING_BEHIND, detail=detail, brokers=copies.behind)
    detail = f"not in sync yet: {listed(behind)}"
    if is_stopped(move, image.all_paused):
        for each, reason in running_copies.reasons(image, topic, number, partition).items():
            detail += f"; the pause does not stop {each}: {reason}"
    yield Why(reason=Reason.CATCHING_UP, detail=detail, brokers=behind)

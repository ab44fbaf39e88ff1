"""Where a partition that is being reassigned stands among the others. It changes nothing.

Those under min ISR go first, then those whose leader moves, then all others; within each of these
the move with the higher priority, then whoever was asked for first (KIP-435, and REASSIGNMENT's
order of turns).
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from uuid import UUID

from statemachine.configs.effective import configured_min_isr
from statemachine.image.image import Image
from statemachine.image.partition_index import Topic, in_order
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.scheduler.queue import Group, Place, Turns
from statemachine.reassignment.settings import UNLIMITED, Limits, limits
from statemachine.records.own_codec import plan_of
from statemachine.slices import LOOKED_AT_US, PASSED_US, Slices
from statemachine.vocabulary import NO_LEADER, BrokerId, MoveId


class Class(IntEnum):
    """Who goes first."""

    UNDER_MIN_ISR = 0
    LEADER_MOVES = 1
    OTHERS = 2


def place_of(
    partition: PartitionRegistration,
    min_isr: int,
    limits: Limits,
    live: Callable[[BrokerId], bool],
    priority: int,
) -> Place:
    """Where the partition stands; `min_isr` is what its topic is configured to."""
    move = partition.stage.move
    hurt = is_hurt(partition, min_isr)
    if not partition.waits:
        return Place(move=move, is_hurt=hurt)
    new = tuple([each for each in partition.target if each not in partition.replicas])
    can_go_on = limits.is_unlimited or (
        partition.leader != NO_LEADER and (not new or any(live(each) for each in new))
    )
    group: Group | None = None
    if can_go_on:
        group = (class_of(partition, min_isr, limits), -priority)
    return Place(group=group, waits_for=new, move=move, is_hurt=hurt)


def class_of(partition: PartitionRegistration, min_isr: int, limits: Limits) -> Class:
    """Which class the next step of the partition is in, if all its brokers are alive."""
    if len(partition.isr) < min(min_isr, len(partition.aimed)):
        return Class.UNDER_MIN_ISR
    replicas, target, leader = partition.replicas, partition.target, partition.leader
    if target[0] not in replicas:
        return Class.LEADER_MOVES
    if leader not in target:
        old = [each for each in replicas if each not in target]
        if limits.parallel_replicas == UNLIMITED or leader in old[: limits.parallel_replicas]:
            return Class.LEADER_MOVES
    return Class.OTHERS


def is_hurt(partition: PartitionRegistration, min_isr: int) -> bool:
    """Whether it is at or under min ISR for want of a replica that is not just being added.

    A partition with as many replicas as min ISR asks for is always at it, and so is one that only
    waits for what its own move adds: neither is hurt.
    """
    if len(partition.isr) > min(min_isr, len(partition.aimed)):
        return False
    return any(
        each not in partition.isr and each not in partition.adding for each in partition.replicas
    )


def turns_of(image: Image) -> Slices[Turns]:
    """The turns of the image as they are now, and from here on as it changes."""
    turns = image.index.turns
    if turns is None:
        keys = yield from _keys_as_asked(image)
        turns = image.index.turns = Turns(keys)
    in_force = limits(image)
    for key in turns.touched():
        turns.put(key, _place(image, key, in_force))
        yield LOOKED_AT_US
    return turns


def _place(image: Image, key: int, in_force: Limits) -> Place | None:
    found = image.index.at(key)
    if found is None:
        return None
    topic, number = found
    partition = topic.partition(number)
    if partition is None or not partition.target:
        return None
    move = image.moves.get(partition.stage.move)
    return place_of(
        partition,
        configured_min_isr(image, topic.name),
        in_force,
        lambda broker_id: _live(image, broker_id),
        0 if move is None else move.priority,
    )


def _live(image: Image, broker_id: BrokerId) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.live


def _keys_as_asked(image: Image) -> Slices[list[int]]:
    """The keys of what is being reassigned: move by move, each in the order of its plan."""
    planned: dict[tuple[UUID, int, MoveId], int] = {}
    for move_id in image.index.of_move:
        for each in _planned(image, move_id):
            planned.setdefault((*each, move_id), len(planned))
            yield PASSED_US
    found = []
    for topic, number in in_order(image.index, image.index.moving):
        partition = topic.partition(number)
        assert partition is not None
        move_id = partition.stage.move
        place = planned.get((topic.topic_id, number, move_id), len(planned))
        found.append((move_id, place, topic.name, number, topic.keys[number]))
        yield LOOKED_AT_US
    return [key for *_, key in sorted(found)]


def _planned(image: Image, move_id: MoveId) -> Iterator[tuple[UUID, int]]:
    move = image.moves.get(move_id)
    for part in () if move is None else move.parts:
        for topic in plan_of(part):
            for partition in topic.partitions:
                yield topic.topic_id, partition.number


def draft_place(
    draft: PendingDecision, topic: Topic, partition: PartitionRegistration, in_force: Limits
) -> Place:
    """Where a partition stands that a decision has changed."""
    move = draft.move(partition.stage.move)
    priority = 0 if move is None else move.priority
    min_isr = configured_min_isr(draft, topic.name)
    return place_of(partition, min_isr, in_force, draft.live, priority)

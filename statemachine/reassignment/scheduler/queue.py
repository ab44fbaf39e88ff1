"""The queue of partitions that wait for a step of their reassignment.

A position is a number: the partition that was requested earlier has the lower one, and keeps it
from step to step. Bitmaps of positions hold the partitions that wait in each priority group, for
each broker and in each move, so that the scheduler reads only those that can go on.

Priority (KIP-435): partitions under min ISR, then those whose leader moves, then all others; within
a class the move with the higher priority, then the earlier request. All of it follows from an
image: a new controller builds the same queue.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from pyroaring import BitMap

from statemachine.configs.effective import configured_min_isr
from statemachine.image.delta import SchedulerDelta
from statemachine.image.image import Image
from statemachine.image.partition_index import in_order
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.settings import UNLIMITED, Limits, limits
from statemachine.reassignment.step import ClusterView
from statemachine.slices import LOOKED_AT_US, PASSED_US, Slices
from statemachine.vocabulary import NO_LEADER, NO_MOVE, BrokerId, MoveId, Replicas

PriorityGroup: TypeAlias = tuple[int, int]
"""Class and negated priority: the lower group goes first."""

Position: TypeAlias = int


class QueueEntry(NamedTuple):
    """The entry of a partition that is being reassigned."""

    group: PriorityGroup | None = None
    """The group in which it waits; None while a step is under way, or none can begin."""
    waits_for: Replicas = ()
    """Its next step needs one of these brokers."""
    move: MoveId = NO_MOVE
    is_under_min_isr: bool = False
    """See the function `is_under_min_isr`."""


class ReassignmentQueue:
    """The partitions that are being reassigned, by the keys of the index."""

    def __init__(self, keys: Iterable[int]) -> None:
        """Queue the partitions with these keys, in this order."""
        self._keys: dict[Position, int] = {}
        self._positions: dict[int, Position] = {}
        self._entries: dict[Position, QueueEntry] = {}
        self._marked: dict[int, None] = dict.fromkeys(keys)
        self._next = 0
        self._passed_over = (-1, 0)
        self.groups: dict[PriorityGroup, BitMap] = {}
        """Positions that could begin a step, apart from limits and pauses."""
        self.under_min_isr = BitMap()
        self.of_move: dict[MoveId, BitMap] = {}
        self.waiting_for: dict[BrokerId, BitMap] = {}

    def mark_by(self, delta: SchedulerDelta) -> None:
        """Mark every partition whose entry may have changed by this delta."""
        self._marked.update(delta.partitions)
        positions = [self.waiting_for.get(broker_id, ()) for broker_id in delta.brokers]
        positions += [self.of_move.get(move_id, ()) for move_id in delta.moves]
        for some in positions:
            self._marked.update((self._keys[position], None) for position in some)
        if delta.has_limits:
            self._marked.update(dict.fromkeys(self._positions))

    def take_marked(self) -> Iterator[int]:
        """Yield and remove the marked keys, in the order in which they were marked first.

        Each is removed when it is yielded, so that an interrupted scan can go on later.
        """
        for key in list(self._marked):
            del self._marked[key]
            yield key

    def put(self, key: int, entry: QueueEntry | None) -> None:
        """Set the entry of the partition with this key; None removes it.

        A partition that joins another move gets a new position.
        """
        position = self._positions.get(key)
        if position is not None:
            before = self._entries[position]
            self._leave(position, before)
            if entry is None or entry.move != before.move:
                del self._positions[key], self._keys[position], self._entries[position]
                position = None
        if entry is None:
            return
        if position is None:
            position, self._next = self._next, self._next + 1
            self._positions[key], self._keys[position] = position, key
        self._entries[position] = entry
        self._enter(position, entry)

    def foresee(self, key: int, entry: QueueEntry | None) -> None:
        """Like `put`, for a decision whose records may not be appended: mark the key as well."""
        self._marked[key] = None
        self.put(key, entry)

    def position(self, key: int) -> Position | None:
        """Return the position of the partition with this key, or None."""
        return self._positions.get(key)

    def key_at(self, position: Position) -> int:
        """Return the key of the partition at this position."""
        return self._keys[position]

    def passed_over(self, position: Position) -> int:
        """Return how often others were preferred to this first one, which did not fit."""
        first, times = self._passed_over
        return times if position == first else 0

    def pass_over(self, position: Position) -> None:
        """Count that another partition was preferred to this one."""
        self._passed_over = (position, self.passed_over(position) + 1)

    def _enter(self, position: Position, entry: QueueEntry) -> None:
        for bitmaps, name in _bitmaps(self, entry):
            bitmap = bitmaps.get(name)
            if bitmap is None:
                bitmap = bitmaps[name] = BitMap()
            bitmap.add(position)
        if entry.is_under_min_isr:
            self.under_min_isr.add(position)

    def _leave(self, position: Position, entry: QueueEntry) -> None:
        for bitmaps, name in _bitmaps(self, entry):
            bitmap = bitmaps[name]
            bitmap.discard(position)
            if not bitmap:
                del bitmaps[name]
        self.under_min_isr.discard(position)


def _bitmaps(
    queue: ReassignmentQueue, entry: QueueEntry
) -> Iterator[tuple[dict[object, BitMap], object]]:
    if entry.group is not None:
        yield queue.groups, entry.group  # type: ignore[misc]
    if entry.move != NO_MOVE:
        yield queue.of_move, entry.move  # type: ignore[misc]
    for broker_id in entry.waits_for:
        yield queue.waiting_for, broker_id  # type: ignore[misc]


class PriorityClass(IntEnum):
    """The priority classes, the most urgent first."""

    UNDER_MIN_ISR = 0
    LEADER_MOVES = 1
    OTHERS = 2


def entry_of(
    view: ClusterView, topic: Topic, partition: PartitionRegistration, limits: Limits
) -> QueueEntry | None:
    """Return the entry of the partition, or None if it has no target."""
    if not partition.target:
        return None
    min_isr = configured_min_isr(view, topic.name)
    move_id = partition.stage.move
    under_min_isr = is_under_min_isr(partition, min_isr)
    if not partition.waits:
        return QueueEntry(move=move_id, is_under_min_isr=under_min_isr)
    new = tuple([each for each in partition.target if each not in partition.replicas])
    can_go_on = limits.is_unlimited or (
        partition.leader != NO_LEADER and (not new or any(view.live(each) for each in new))
    )
    group: PriorityGroup | None = None
    if can_go_on:
        move = view.moves.get(move_id)
        priority = 0 if move is None else move.options.priority
        group = (class_of(partition, min_isr, limits), -priority)
    return QueueEntry(group=group, waits_for=new, move=move_id, is_under_min_isr=under_min_isr)


def class_of(partition: PartitionRegistration, min_isr: int, limits: Limits) -> PriorityClass:
    """Return the class of the partition's next step if all its brokers are alive."""
    if len(partition.isr) < min(min_isr, len(partition.aimed)):
        return PriorityClass.UNDER_MIN_ISR
    replicas, target, leader = partition.replicas, partition.target, partition.leader
    if target[0] not in replicas:
        return PriorityClass.LEADER_MOVES
    if leader not in target:
        old = [each for each in replicas if each not in target]
        if limits.parallel_replicas == UNLIMITED or leader in old[: limits.parallel_replicas]:
            return PriorityClass.LEADER_MOVES
    return PriorityClass.OTHERS


def is_under_min_isr(partition: PartitionRegistration, min_isr: int) -> bool:
    """Return True if it is at or under min ISR and lacks a replica that is not being added.

    A partition that has only min ISR replicas, all in sync, does not count, and neither does one
    that only lacks replicas that its own move adds.
    """
    if len(partition.isr) > min(min_isr, len(partition.aimed)):
        return False
    return any(
        each not in partition.isr and each not in partition.adding for each in partition.replicas
    )


def refresh(queue: ReassignmentQueue, image: Image) -> Slices[None]:
    """Bring the entries of the marked partitions up to date with the image."""
    in_force = limits(image)
    for key in queue.take_marked():
        found, entry = image.index.at(key), None
        partition = None if found is None else found[0].partition(found[1])
        if found is not None and partition is not None:
            entry = entry_of(image, found[0], partition, in_force)
        queue.put(key, entry)
        yield LOOKED_AT_US


def keys_in_order(image: Image) -> Slices[list[int]]:
    """Return the keys of all partitions under reassignment, by move and in the plan's order."""
    planned: dict[tuple[UUID, int, MoveId], int] = {}
    for move_id in image.index.of_move:
        move = image.moves.get(move_id)
        for topic_id, each in () if move is None else move.planned:
            planned.setdefault((topic_id, each.number, move_id), len(planned))
            yield PASSED_US
    found = []
    for topic, number in (yield from in_order(image.index, image.index.moving)):
        partition = topic.partition(number)
        assert partition is not None
        move_id = partition.stage.move
        place = planned.get((topic.topic_id, number, move_id), len(planned))
        found.append((move_id, place, topic.name, number, topic.keys[number]))
        yield LOOKED_AT_US
    return [key for *_, key in sorted(found)]

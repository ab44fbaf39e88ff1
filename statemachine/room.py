"""How much room the limits leave for further steps, as the records of a decision leave it."""

from statemachine.draft import Draft
from statemachine.index import PartitionIndex
from statemachine.partition import Partition, moves_leader
from statemachine.settings import Limits
from statemachine.slices import PASSED_US, Slices
from statemachine.steps import Step


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

    def take(self, partition: Partition) -> None:
        """The step of this partition is under way."""
        self._count(partition, 1)

    def give_back(self, partition: Partition) -> None:
        """The step of this partition, if there was one, is not under way any more."""
        self._count(partition, -1)

    def _count(self, partition: Partition, sign: int) -> None:
        if partition.steps:
            self.partitions += sign
            self.leaders += sign * moves_leader(partition)
            self.adding += sign * len(partition.adding)


def room_of(draft: Draft, limits: Limits) -> Slices[Room]:
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

"""Steps that are taken back while they are under way, counted: how much of that a run has shown.

They are judged elsewhere: that the replicas are those of before the step, and that a partition that
was led still is, where the record is committed (P13, `chaos.cluster.rules`); that nobody has data
of what is not on it, by the disks in the end (P21, `chaos.cluster.data`).
"""

from typing import TYPE_CHECKING, Final
from uuid import UUID

from broker.partition.assignment import PartitionKey
from chaos.cluster.parts import Key, Part, without
from chaos.cluster.replicas import held_on
from quorum.core.vocabulary import ReplicaId

if TYPE_CHECKING:
    from chaos.cluster.world import ClusterWorld

TAKEN_BACK: Final = "a step is taken back"
REMOVED: Final = "what was copied for a step that was taken back is removed"


class Cancels:
    """Of one run."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world
        self._dropped: set[tuple[ReplicaId, PartitionKey]] = set()
        """Who had begun to copy what, and was no replica any more."""

    def taken_back(self, key: Key, before: Part, after: Part) -> None:
        """A step of this partition was under way, and all is as before it."""
        self._world.note(TAKEN_BACK)
        partition = PartitionKey(UUID(hex=key[0]), key[1])
        for each in map(ReplicaId, without(before.replicas, after.replicas)):
            if partition in held_on(self._world.machines[each].disk):
                self._dropped.add((each, partition))

    def removes(self, replica: ReplicaId, partition: PartitionKey) -> None:
        """It removes its data."""
        if (replica, partition) in self._dropped:
            self._dropped.discard((replica, partition))
            self._world.note(REMOVED)

"""What brokers do with the data of partitions, judged: P21.

By what is on the virtual disks, and by the metadata that was committed; never by what a broker
believes.
"""

from typing import TYPE_CHECKING

from broker.partition.assignment import PartitionKey
from chaos.cluster.replicas import held_on
from chaos.violation import Violation
from quorum.core.vocabulary import ReplicaId

if TYPE_CHECKING:
    from chaos.cluster.broker import BrokerProcess
    from chaos.cluster.world import ClusterWorld


class Data:
    """One for each run."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world
        self._held_since: dict[tuple[ReplicaId, PartitionKey], int] = {}

    def opens(self, process: "BrokerProcess", key: PartitionKey) -> None:
        """A broker is about to have data of it."""
        told = self._world.judge.told(process.speaker)
        self._held_since.setdefault((process.id, key), told)

    def removes(self, process: "BrokerProcess", key: PartitionKey) -> None:
        """P21: a broker is about to remove its data; it has seen that it is no replica since."""
        told = self._world.judge.told(process.speaker)
        since = self._held_since.pop((process.id, key), 0)
        self._world.note("data of a partition is removed")
        self._world.cancels.removes(process.id, key)
        if not self._world.history.was_no_replica(process.broker_id, key, since, told):
            raise Violation(
                "P21", f"{process.id} removes {key}, and has been a replica since {since}"
            )

    def loses(self, replica: ReplicaId) -> None:
        """Its whole disk is gone."""
        for each in [each for each in self._held_since if each[0] == replica]:
            del self._held_since[each]

    def check_end(self) -> None:
        """P21: nobody has data of what is not on it."""
        view = self._world.history.view_at(self._world.history.end)
        for replica in self._world.brokers:
            for key in held_on(self._world.machines[replica].disk):
                part = view.parts.get((key.topic_id.hex, key.number))
                if part is None or int(replica) not in part.replicas:
                    raise Violation("P21", f"{replica} has data of {key}, which is not on it")

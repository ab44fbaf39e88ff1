"""Values about a cluster that the client, HTTP and the commands share.

Frozen, without behaviour beyond what follows from their own fields; they know neither the wire
nor the screen. Times are wall-clock milliseconds as the leader of the quorum saw them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from controller.move_requests import PartitionId as PartitionId
from quorum.transport.address import Address
from statemachine.commands import Reassignment


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker that is alive, and where clients reach it."""

    id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The brokers or the controllers of a cluster."""

    cluster_id: str | None
    controller_id: int
    nodes: Sequence[BrokerInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition of a topic; `leader` may be `NO_LEADER`."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int] = ()
    adding: Sequence[int] = ()
    """Of the replicas, those that a move adds; `removing` those that it removes at its end."""
    removing: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic with its partitions in order."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionDescription]

    @property
    def replication_factor(self) -> int:
        """Replicas of its first partition without those that a move adds, as in Kafka's tools."""
        if not self.partitions:
            return 0
        first = self.partitions[0]
        return len(first.replicas) - len(first.adding)


class Assignment(Reassignment, frozen=True, kw_only=True, gc=False):
    """The wanted replicas of a partition, the preferred leader first; None cancels its move."""

    @property
    def id(self) -> PartitionId:
        """The id of the partition."""
        return PartitionId(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """One feature of a cluster (KIP-584)."""

    name: str
    supported: tuple[int, int] | None
    """The levels that the node which was asked supports; None if it does not know the feature."""
    level: int
    """The level in force; 0: disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesDescription:
    """The features of a cluster, as of the offset `epoch` of its metadata."""

    epoch: int
    features: Sequence[FeatureInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfo:
    """One configuration in force, with its source."""

    name: str
    value: str | None
    """None: it is secret."""
    source: str

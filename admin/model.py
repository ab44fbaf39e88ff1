"""What is asked for and told about a cluster: values that every door, client and command shares.

Frozen, without behaviour beyond what follows from their own fields; they know neither the wire
nor the screen. Times are wall-clock milliseconds as the leader of the quorum saw them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from admin.addresses import Address

UNKNOWN: Final = -1
"""A time or a lag that nobody knows."""

NO_LEADER: Final = -1


class PartitionId(NamedTuple):
    """One partition of a topic; sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """One replica of the metadata log as the leader last heard of it (KIP-595, KIP-836)."""

    id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata quorum as its leader sees it; `target_voters` is None without a target."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[ReplicaInfo]
    observers: Sequence[ReplicaInfo]
    addresses: Mapping[int, Sequence[tuple[str, Address]]]
    """Where each replica listens, by its id: the name of the listener and its address."""
    target_voters: Sequence[int] | None = None
    waits_for: str | None = None
    """What a change of the voters waits for."""
    full_disks: Sequence[int] = ()
    """Nodes without room on their disks. Each knows it of itself alone: the leader, or, of a stale
    description, whoever was asked."""

    @property
    def leader(self) -> ReplicaInfo | None:
        """The leader among the voters; None for one that is being removed from them."""
        return next((voter for voter in self.voters if voter.id == self.leader_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadTransfer:
    """A lead that was handed over; `NO_LEADER` where nobody is known yet who leads instead."""

    leader_id: int
    leader_epoch: int
    duration_ms: int
    """From the request until this leader was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker that is alive, and where clients reach it."""

    id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """Who is in the cluster: its brokers, or its controllers, as asked for."""

    cluster_id: str | None
    controller_id: int
    nodes: Sequence[BrokerInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition of a topic; `leader` is `NO_LEADER` while nobody may lead."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic with its partitions in order."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionDescription]

    @property
    def replication_factor(self) -> int:
        """Replicas of its first partition, which is how Kafka's tools count them."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition under way: where its replicas are, and which come and go (KIP-455).

    Our controllers say more of it: where it goes, and of the first ones in a list why it is not
    further.
    """

    topic: str
    partition: int
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    target: Sequence[int] = ()
    """What it is to have in the end, in order; empty where the node does not say."""
    move_id: int = 0
    """The move that it belongs to; 0 for none."""
    step: int = 0
    """Which is under way or comes next, from 1 on; 0 where that and the rest is not told."""
    step_count: int = 0
    state: str = ""
    reason: str | None = None
    """A word for programs; None where nothing is known that would keep it."""
    detail: str = ""
    reason_brokers: Sequence[int] = ()
    since_ms: int = 0
    """0 where nobody noted it."""
    bytes_left: int = UNKNOWN
    """To be copied for the step under way, as brokers say; `UNKNOWN` where they do not."""
    bytes_per_s: int = UNKNOWN

    @property
    def id(self) -> PartitionId:
        """Which partition it is."""
        return PartitionId(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignments:
    """The partitions under way, and the offset that this is as of, where the node said it."""

    moves: Sequence[Reassignment]
    as_of: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Topics by name, and the offset that this is as of, where the node said it."""

    found: Mapping[str, TopicDescription]
    as_of: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Where a partition's replicas shall be, the preferred leader first; None cancels the move."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None

    @property
    def id(self) -> PartitionId:
        """Which partition it is."""
        return PartitionId(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What came of a request for one partition; error code 0 is success."""

    topic: str
    partition: int
    error_code: int = 0
    error_name: str = "NONE"
    message: str | None = None
    replicas: Sequence[int] = ()
    """What it has now; of a dry run, what it would have. Empty where the node does not say."""
    steps: Sequence[Sequence[int]] = ()
    """Of a dry run what it would have after each step; told of the first partitions."""

    @property
    def id(self) -> PartitionId:
        """Which partition it is."""
        return PartitionId(self.topic, self.partition)


def lag(replica: ReplicaInfo, leader: ReplicaInfo) -> int:
    """How many records `replica` is behind, or `UNKNOWN` where the leader's own end is not known.

    Its last report may be older than the leader's end. One that never reported lags by the whole
    log and one more, as Kafka's tool has it.
    """
    if leader.log_end_offset == UNKNOWN:
        return UNKNOWN
    return leader.log_end_offset - replica.log_end_offset


def lag_time_ms(replica: ReplicaInfo, leader: ReplicaInfo) -> int:
    """For how long `replica` has not been caught up, or `UNKNOWN`.

    As Kafka's tool has it: the leader is caught up with itself at every moment, so the difference
    of the two times is how far the replica lags behind it.
    """
    if replica.id == leader.id:
        return 0
    if UNKNOWN in (replica.last_caught_up_ms, leader.last_caught_up_ms):
        return UNKNOWN
    return leader.last_caught_up_ms - replica.last_caught_up_ms


def slowest(voters: Iterable[ReplicaInfo]) -> ReplicaInfo:
    """The voter with the lowest log end offset; the first of several, as in Kafka's tool."""
    return min(voters, key=lambda voter: voter.log_end_offset)


def max_follower_lag(quorum: QuorumDescription) -> int:
    """MaxFollowerLag: records that the slowest voter is behind, `UNKNOWN` without a leader."""
    leader = quorum.leader
    return UNKNOWN if leader is None else lag(slowest(quorum.voters), leader)


def max_follower_lag_time_ms(quorum: QuorumDescription) -> int:
    """MaxFollowerLagTimeMs: the lag in time of the slowest voter, or `UNKNOWN`."""
    leader = quorum.leader
    return UNKNOWN if leader is None else lag_time_ms(slowest(quorum.voters), leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """One feature of a cluster (KIP-584)."""

    name: str
    supported: tuple[int, int] | None
    """The levels that the node which was asked supports; None if it does not know the feature."""
    level: int
    """The level in force; 0 is "not at all"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesDescription:
    """The features of a cluster, as of the offset `epoch` of its metadata."""

    epoch: int
    features: Sequence[FeatureInfo]

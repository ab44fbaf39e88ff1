"""What may be asked about partitions that exist. Values only, never behaviour."""

from enum import Enum
from uuid import UUID

from msgspec import Struct

from statemachine.errors import Error
from statemachine.vocabulary import (
    NO_EPOCH,
    NO_LEADER,
    NO_MOVE,
    RECOVERED,
    BrokerId,
    MoveId,
    Replicas,
)


class IsrMember(Struct, frozen=True, gc=False):
    """A replica proposed for the ISR, with the broker epoch that it fetched with (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: int = NO_EPOCH


class IsrProposal(Struct, frozen=True, kw_only=True, gc=False):
    """What the leader of one partition wants its ISR to be."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    recovery: int = RECOVERED


class AlterPartition(Struct, frozen=True, kw_only=True, gc=False):
    """A broker wants the ISR of partitions that it leads changed (api 56)."""

    broker_id: BrokerId
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]


class Reassignment(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas that a partition is to have; None cancels what is under way."""

    topic: str
    partition: int
    replicas: Replicas | None


class AlterReassignments(Struct, frozen=True, kw_only=True, gc=False):
    """Begin, change or cancel reassignments (api 45, KIP-455)."""

    reassignments: tuple[Reassignment, ...]
    may_change_factor: bool = True
    """Whether a partition may end with another number of replicas than it has (KIP-860)."""
    who: str = ""
    """Who asks: what is begun is a move of theirs."""
    name: str = ""
    priority: int = 0
    """Moves with a higher one step before others."""
    dry_run: bool = False
    """Only answer what would become of it."""
    throttle_bytes_per_s: int = 0
    """Of the move that this begins; 0 is "as fast as they can"."""


class ElectionType(Enum):
    """Which leader an operator asks for (KIP-183, KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectLeaders(Struct, frozen=True, kw_only=True, gc=False):
    """Elect leaders for these partitions, or with None wherever one is needed (api 43)."""

    election: ElectionType
    partitions: tuple[tuple[str, int], ...] | None


class PartitionAltered(Struct, frozen=True, kw_only=True, gc=False):
    """One proposal of AlterPartition; without an error, what the partition is now."""

    topic_id: UUID
    partition: int
    error: Error = Error.NONE
    message: str = ""
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    isr: Replicas = ()
    recovery: int = RECOVERED
    partition_epoch: int = -1


class PartitionsAltered(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; none if the sender is refused."""

    error: Error = Error.NONE
    message: str = ""
    partitions: tuple[PartitionAltered, ...] = ()


class ReassignmentAltered(Struct, frozen=True, kw_only=True, gc=False):
    """One part of AlterReassignments; `replicas` are those that the partition now has."""

    topic: str
    partition: int
    error: Error = Error.NONE
    message: str = ""
    replicas: Replicas = ()
    steps: tuple[Replicas, ...] = ()
    """Of a dry run what the replicas would be after each step; told of the first partitions."""


class ReassignmentsAltered(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for."""

    partitions: tuple[ReassignmentAltered, ...]
    move_id: MoveId = NO_MOVE
    """The move that was begun; where nothing had to change, one that brings it already."""
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class LeaderElected(Struct, frozen=True, kw_only=True, gc=False):
    """One partition of ElectLeaders."""

    topic: str
    partition: int
    error: Error = Error.NONE
    message: str = ""


class LeadersElected(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; when all were asked, those alone that needed a leader."""

    partitions: tuple[LeaderElected, ...]

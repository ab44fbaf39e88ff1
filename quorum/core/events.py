"""The events that a node receives. An event is a fact from outside."""

from dataclasses import dataclass
from typing import NewType, TypeAlias

from quorum.core.messages import Request, Response, TransferRequest, VoterRequest
from quorum.core.vocabulary import OffsetAndEpoch, ReplicaId, ReplicaKey, Snapshot
from quorum.core.voter_set import Endpoint, VoterAssignment

Asker = NewType("Asker", int)
"""The number that the driver gives to a received request, to answer it."""

Correlation = NewType("Correlation", int)
"""The id of a request of this node, to match its response."""

ReadToken = NewType("ReadToken", int)
"""The id of a read: a number the driver gives to each."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; nothing else happened."""

    def __str__(self) -> str:
        return "tick"


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """Another replica sent a request to this node."""

    asker: Asker
    request: Request

    def __str__(self) -> str:
        return f"asked: {self.request}"


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """`peer` answered the request that this node sent under `correlation`."""

    peer: ReplicaId
    correlation: Correlation
    response: Response

    def __str__(self) -> str:
        return f"{self.peer} answered: {self.response}"


@dataclass(frozen=True, slots=True)
class RequestTimedOut:
    """The request gets no answer: it timed out, or the connection was closed or refused."""

    peer: ReplicaId
    correlation: Correlation

    def __str__(self) -> str:
        return f"{self.peer} did not answer"


@dataclass(frozen=True, slots=True)
class LeaderUnreachable:
    """The leader closed its connection, and a new one is refused.

    This is a hint, no proof: the leader's process has most often ended. A hung leader gives none.
    """

    leader: ReplicaId

    def __str__(self) -> str:
        return f"leader {self.leader} cannot be reached"


@dataclass(frozen=True, slots=True)
class Proposed:
    """The state machine of the active controller proposes `count` records as one batch."""

    count: int

    def __str__(self) -> str:
        return f"proposed {self.count} records"


@dataclass(frozen=True, slots=True)
class ReadIndex:
    """A client of this node requests a linearizable read."""

    token: ReadToken

    def __str__(self) -> str:
        return f"read {self.token}"


@dataclass(frozen=True, slots=True)
class Flushed:
    """The log below `durable` is on disk and has not been truncated since."""

    durable: OffsetAndEpoch

    def __str__(self) -> str:
        return f"flushed up to {self.durable}"


@dataclass(frozen=True, slots=True)
class ChangeRequested:
    """A client of this node requests other voters or another leader."""

    asker: Asker
    request: VoterRequest | TransferRequest

    def __str__(self) -> str:
        return f"wanted: {self.request}"


@dataclass(frozen=True, slots=True)
class EndpointsUpdated:
    """A replica's endpoints are known; a directory id of zero stands for any directory."""

    replica: ReplicaKey
    endpoints: tuple[Endpoint, ...]

    def __str__(self) -> str:
        where = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in self.endpoints)
        return f"{self.replica} listens at {where}"


@dataclass(frozen=True, slots=True)
class DiscoveryDone:
    """All bootstrap servers have answered or failed, or one of them knows a quorum (`found`)."""

    found: bool

    def __str__(self) -> str:
        return "a quorum was found" if self.found else "no quorum was found"


@dataclass(frozen=True, slots=True)
class DiskSpaceChanged:
    """This node's disk has become full, or has space again."""

    exists: bool

    def __str__(self) -> str:
        return "there is room on the disk again" if self.exists else "the disk is full"


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A snapshot is durable. Only `kept`, the oldest first, and the log after them are needed."""

    kept: tuple[Snapshot, ...]

    def __str__(self) -> str:
        return f"snapshots kept: {', '.join(str(each.id) for each in self.kept)}"


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """The snapshot of an `InstallSnapshot` has durably replaced the log and is loaded."""

    snapshot: Snapshot
    voters: VoterAssignment | None
    """The voters at its end; None if the log does not record voters."""

    def __str__(self) -> str:
        return f"installed {self.snapshot}"


@dataclass(frozen=True, slots=True)
class SnapshotRefused:
    """The bytes received for an `InstallSnapshot` are not that snapshot; they are deleted."""

    id: OffsetAndEpoch
    reason: str

    def __str__(self) -> str:
        return f"snapshot {self.id} is refused: {self.reason}"


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process is shutting down: a leader resigns first."""

    def __str__(self) -> str:
        return "stopping"


Event: TypeAlias = (
    Tick
    | RequestReceived
    | ResponseReceived
    | RequestTimedOut
    | LeaderUnreachable
    | Proposed
    | ReadIndex
    | Flushed
    | DiskSpaceChanged
    | ChangeRequested
    | EndpointsUpdated
    | DiscoveryDone
    | SnapshotTaken
    | SnapshotInstalled
    | SnapshotRefused
    | Stopping
)

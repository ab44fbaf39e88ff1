"""The events that a node receives. An event is a fact from outside."""

from dataclasses import dataclass
from typing import NewType, TypeAlias

from quorum.core.messages import Request, Response, TransferRequest, VoterRequest
from quorum.core.vocabulary import OffsetAndEpoch, ReplicaId, ReplicaKey, Snapshot
from quorum.core.voter_set import Endpoint, VoterAssignment

Asker = NewType("Asker", int)
"""The sender of a request: a number the driver gives to every request it hands in."""

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
    """Another replica asks something of this node."""

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
    """The request will get no answer: it timed out, or the connection is gone or refused."""

    peer: ReplicaId
    correlation: Correlation

    def __str__(self) -> str:
        return f"{self.peer} did not answer"


@dataclass(frozen=True, slots=True)
class LeaderUnreachable:
    """The connection to `leader` was closed by the other side, and a new one is refused.

    A hint, no proof: its process is most often gone. A leader that is merely silent gives none.
    """

    leader: ReplicaId

    def __str__(self) -> str:
        return f"leader {self.leader} cannot be reached"


@dataclass(frozen=True, slots=True)
class Proposed:
    """The state machine of the active controller wants `count` records appended as one batch."""

    count: int

    def __str__(self) -> str:
        return f"proposed {self.count} records"


@dataclass(frozen=True, slots=True)
class ReadIndex:
    """Somebody wants to read what is committed, and nothing older (a linearizable read)."""

    token: ReadToken

    def __str__(self) -> str:
        return f"read {self.token}"


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything below `durable` is on disk, and still part of this node's log."""

    durable: OffsetAndEpoch

    def __str__(self) -> str:
        return f"flushed up to {self.durable}"


@dataclass(frozen=True, slots=True)
class ChangeRequested:
    """A client of this node asks for other voters or another leader."""

    asker: Asker
    request: VoterRequest | TransferRequest

    def __str__(self) -> str:
        return f"wanted: {self.request}"


@dataclass(frozen=True, slots=True)
class EndpointsUpdated:
    """A replica says where it listens; a directory id of zero stands for any of its id."""

    replica: ReplicaKey
    endpoints: tuple[Endpoint, ...]

    def __str__(self) -> str:
        where = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in self.endpoints)
        return f"{self.replica} listens at {where}"


@dataclass(frozen=True, slots=True)
class DiscoveryDone:
    """All bootstrap servers have been asked, or one of them knows of a quorum: `found`."""

    found: bool

    def __str__(self) -> str:
        return "a quorum was found" if self.found else "no quorum was found"


@dataclass(frozen=True, slots=True)
class DiskSpaceChanged:
    """There is no room on this node's disk for what is to be written, or there is again."""

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
    """The snapshot of an `InstallSnapshot` is all that this node has, durably, and is loaded."""

    snapshot: Snapshot
    voters: VoterAssignment | None
    """The voters at its end; None if the log does not name any."""

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
    """The process will end soon and in good order: a leader gives its lead away first."""

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

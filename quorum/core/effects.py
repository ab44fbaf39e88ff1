"""The effects that the core asks its driver to perform.

The driver performs effects strictly in the order of the list, and a persist effect is on disk
before the next one starts. This makes votes durable: the answer comes later in the list than the
`PersistElection` that it depends on. Records have another contract: an append need not be durable
when the next effect starts, but the driver must report `Flushed` as soon as it is, and the core
sends nothing that depends on the records before that.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from quorum.core.events import Asker, Correlation, ReadToken
from quorum.core.messages import Batch, ChangeResponse, Request, Response
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.core.voter_set import VoterAssignment


class ReadRefusal(StrEnum):
    """The reason why a read was refused; the client may always repeat it."""

    NOT_LEADER = "this node does not lead the quorum"
    TOO_MANY = "too many reads wait already"
    NOT_PROVED = "no majority of the voters confirmed in time that this node still leads"


@dataclass(frozen=True, slots=True)
class PersistElection:
    election: ElectionState

    def __str__(self) -> str:
        return f"persist {self.election}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendLeaderChange:
    """Append the control record that opens an epoch: the leader and the voters that elected it.

    In an empty log that records its voters, two more records follow: KRaftVersion and the
    assignment of `batch`.
    """

    batch: Batch
    leader: ReplicaId
    voters: tuple[ReplicaId, ...]
    granting: tuple[ReplicaId, ...]

    def __str__(self) -> str:
        assignment = self.batch.assignment
        founding = "" if assignment is None else f"; {assignment}"
        return f"append leader change {self.batch}, leader {self.leader}{founding}"


@dataclass(frozen=True, slots=True)
class AppendAssignment:
    """Append the control record with the new voter assignment."""

    batch: Batch
    assignment: VoterAssignment

    def __str__(self) -> str:
        return f"append {self.batch}: {self.assignment}"


@dataclass(frozen=True, slots=True)
class AppendProposed:
    """Append the proposed records, stamped with this base offset and epoch."""

    batch: Batch

    def __str__(self) -> str:
        return f"append proposed {self.batch}"


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append the bytes of these batches, unchanged, from the response to `correlation`."""

    correlation: Correlation
    batches: tuple[Batch, ...]

    def __str__(self) -> str:
        return f"append fetched {' '.join(map(str, self.batches))}"


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Remove every record at or after `end`, durably, before the next effect."""

    end: Offset

    def __str__(self) -> str:
        return f"truncate to {self.end}"


@dataclass(frozen=True, slots=True)
class AdvanceLogStart:
    """Drop the log below `start`: a snapshot that ends there is durable."""

    start: Offset

    def __str__(self) -> str:
        return f"begin the log at {self.start}"


@dataclass(frozen=True, slots=True)
class StoreChunk:
    """Keep the snapshot bytes from the response to `correlation`, for `InstallSnapshot`.

    They may be lost with the power: `InstallSnapshot` checks the complete snapshot.
    """

    correlation: Correlation
    snapshot: OffsetAndEpoch
    position: int
    length: int

    def __str__(self) -> str:
        end = self.position + self.length
        return f"store bytes [{self.position}, {end}) of snapshot {self.snapshot}"


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Replace the log by the received snapshot, durably, if that is complete and valid.

    `SnapshotInstalled` or `SnapshotRefused` is the next event, before any that waits.
    `is_mixed` says that parts of it may come from more than one replica.
    """

    snapshot: OffsetAndEpoch
    is_mixed: bool

    def __str__(self) -> str:
        return f"install snapshot {self.snapshot}{', if it is one' if self.is_mixed else ''}"


@dataclass(frozen=True, slots=True)
class Send:
    """Send `request` to `to` and report `ResponseReceived` or `RequestTimedOut`."""

    to: ReplicaId
    correlation: Correlation
    request: Request

    def __str__(self) -> str:
        return f"send to {self.to}: {self.request}"


@dataclass(frozen=True, slots=True)
class Answer:
    asker: Asker
    response: Response

    def __str__(self) -> str:
        return f"answer: {self.response}"


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """Answer a `ChangeRequested` of this node."""

    asker: Asker
    response: ChangeResponse

    def __str__(self) -> str:
        return f"answer: {self.response}"


@dataclass(frozen=True, slots=True)
class Commit:
    """The high watermark has risen: everything below it is committed."""

    high_watermark: Offset

    def __str__(self) -> str:
        return f"commit up to {self.high_watermark}"


@dataclass(frozen=True, slots=True)
class Lead:
    """This node won the epoch: its proposals are accepted from here on."""

    epoch: Epoch

    def __str__(self) -> str:
        return f"lead epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class StopLeading:
    """This node no longer leads `epoch`: its uncommitted proposals may or may not survive."""

    epoch: Epoch

    def __str__(self) -> str:
        return f"stop leading epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class AnswerReads:
    """Answer these reads from a state that includes everything below the offset, or refuse them."""

    tokens: tuple[ReadToken, ...]
    outcome: Offset | ReadRefusal

    def __str__(self) -> str:
        reads = f"{'read' if len(self.tokens) == 1 else 'reads'} {', '.join(map(str, self.tokens))}"
        if isinstance(self.outcome, ReadRefusal):
            return f"refuse {reads}: {self.outcome}"
        return f"answer {reads} as of offset {self.outcome}"


@dataclass(frozen=True, slots=True)
class Warn:
    """Log a fault of another node for the operator; nothing in the core depends on it."""

    text: str

    def __str__(self) -> str:
        return f"warn: {self.text}"


Durable: TypeAlias = PersistElection | TruncateTo | StoreChunk | InstallSnapshot
"""Effects that are on disk before the next effect starts."""

Prompt: TypeAlias = (
    AppendLeaderChange
    | AppendAssignment
    | AppendProposed
    | AppendFetched
    | AdvanceLogStart
    | Send
    | Answer
    | AnswerChange
    | Commit
    | Lead
    | StopLeading
    | AnswerReads
    | Warn
)
"""Effects that wait for no disk."""

Effect: TypeAlias = Durable | Prompt

"""The effects that the core asks its driver to perform.

The driver performs effects strictly in the order of the list, and a persist effect is on disk
before the next one starts. That sentence is the durability contract of a vote: the answer comes
later in the list than the `PersistElection` it rests on. Records have a second sentence: an
append need not be durable when the next effect starts, but the driver must report `Flushed` as
soon as it is, and the core says nothing that rests on the records before that.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from quorum.core.events import Asker, Correlation, ReadToken
from quorum.core.messages import Batch, ChangeResponse, Request, Response
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.core.voter_set import VoterAssignment


class ReadRefusal(StrEnum):
    """The reason why a read was refused; it may always be repeated."""

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
    """Append the control record that opens an epoch: who leads, and whose votes made it so.

    In an empty log that is to name its voters it is followed by two more, KRaftVersion and the
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
    """Append the control record that says who votes from here on."""

    batch: Batch
    assignment: VoterAssignment

    def __str__(self) -> str:
        return f"append {self.batch}: {self.assignment}"


@dataclass(frozen=True, slots=True)
class AppendProposed:
    """Append the records that were proposed, stamped with this base offset and epoch."""

    batch: Batch

    def __str__(self) -> str:
        return f"append proposed {self.batch}"


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append, as they are, the bytes of these batches that the answer `correlation` brought."""

    correlation: Correlation
    batches: tuple[Batch, ...]

    def __str__(self) -> str:
        return f"append fetched {' '.join(map(str, self.batches))}"


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Forget every record at or after `end`, durably, before the next effect."""

    end: Offset

    def __str__(self) -> str:
        return f"truncate to {self.end}"


@dataclass(frozen=True, slots=True)
class AdvanceLogStart:
    """Hold nothing below `start` any more: a snapshot that ends there is durable."""

    start: Offset

    def __str__(self) -> str:
        return f"begin the log at {self.start}"


@dataclass(frozen=True, slots=True)
class StoreChunk:
    """Keep the bytes of a snapshot that the answer `correlation` brought, for `InstallSnapshot`.

    They may be lost with the power: what is put together in the end is checked as a whole.
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
    """Let the received snapshot take the place of the log, durably, if it is whole and sound.

    `SnapshotInstalled` or `SnapshotRefused` is the next event, whatever else has come meanwhile.
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
    """The high watermark has risen: what lies below it will never change."""

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
    """This node led `epoch` and does no longer: what it proposed may or may not survive."""

    epoch: Epoch

    def __str__(self) -> str:
        return f"stop leading epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class AnswerReads:
    """Answer these reads from a state that has applied all below the offset, or refuse them."""

    tokens: tuple[ReadToken, ...]
    outcome: Offset | ReadRefusal

    def __str__(self) -> str:
        reads = f"{'read' if len(self.tokens) == 1 else 'reads'} {', '.join(map(str, self.tokens))}"
        if isinstance(self.outcome, ReadRefusal):
            return f"refuse {reads}: {self.outcome}"
        return f"answer {reads} as of offset {self.outcome}"


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the operator of something that another node did wrong; nothing here depends on it."""

    text: str

    def __str__(self) -> str:
        return f"warn: {self.text}"


Durable: TypeAlias = PersistElection | TruncateTo | StoreChunk | InstallSnapshot
"""Done, and on disk, before the next effect starts."""

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
"""Done at once: the next effect waits for no disk."""

Effect: TypeAlias = Durable | Prompt

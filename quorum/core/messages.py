"""The flat messages between replicas; `quorum/protocol` has Kafka's topic and partition nesting.

Every response names the epoch of its sender, and the leader if the sender knows it, so that the
asker can turn to the leader (KIP-595). No message holds record bytes: a fetch response names a span
of the log, and the driver reads it.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Voter, VoterAssignment


class Error(IntEnum):
    """The errors that replicas give each other, with Kafka's codes."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    INCONSISTENT_VOTER_SET = 94
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHeader:
    """The common part of all responses: the error, and the sender's epoch and leader."""

    error: Error = Error.NONE
    epoch: Epoch
    leader: ReplicaId | None = None

    def __str__(self) -> str:
        name = type(self).__name__.removesuffix("Response")
        if not self.error:
            return f"{name} {self._outcome()} (epoch {self.epoch})"
        known = "" if self.leader is None else f", leader {self.leader}"
        return f"{name} refused: {self.error} (epoch {self.epoch}{known})"

    def _outcome(self) -> str:
        """Return the text of a response without an error."""
        return "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """A candidate asks for a vote in `epoch`; `log_end` is the end of its own log.

    With `pre_vote` (KIP-996) it only asks whether it would get the vote: `epoch` is then its
    current epoch, and the voter does not have to remember its answer.
    """

    epoch: Epoch
    candidate: ReplicaKey
    log_end: OffsetAndEpoch
    voter: ReplicaKey | None = None
    """The addressed voter; None if the candidate did not name it."""
    pre_vote: bool = False

    def __str__(self) -> str:
        what = "PreVote" if self.pre_vote else "Vote"
        return f"{what}(epoch {self.epoch}, candidate {self.candidate}, log end {self.log_end})"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse(ResponseHeader):
    granted: bool = False

    def _outcome(self) -> str:
        known = "" if self.leader is None else f", leader {self.leader}"
        return f"{'granted' if self.granted else 'refused'}{known}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """A new leader announces itself, again and again until the voter has fetched from it."""

    epoch: Epoch
    leader: ReplicaId
    voter: ReplicaKey | None = None
    """The addressed voter; None if the leader did not name it."""

    def __str__(self) -> str:
        return f"BeginQuorumEpoch(epoch {self.epoch}, leader {self.leader})"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse(ResponseHeader):
    """The voter accepts the leader, or names the leader that it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """A leader resigns; the successors stand in the order given, the first one at once."""

    epoch: Epoch
    leader: ReplicaId
    preferred_successors: tuple[ReplicaId, ...]
    voter: ReplicaKey | None = None
    """The addressed voter, one of the successors; None if the leader did not name it."""

    def __str__(self) -> str:
        order = ", ".join(map(str, self.preferred_successors))
        return f"EndQuorumEpoch(epoch {self.epoch}, leader {self.leader}, successors [{order}])"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse(ResponseHeader):
    """The voter accepts that the leader resigns, or names the leader that it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A replica asks for the records that follow the end of its log.

    `log_end` acknowledges everything below its offset: everything below it is durable at the
    sender. Its epoch lets the leader find where the two logs diverge. `epoch` is the current epoch
    of the sender. The leader may hold the answer back for `max_wait_ms`.
    """

    replica: ReplicaKey
    epoch: Epoch
    log_end: OffsetAndEpoch
    max_wait_ms: int
    max_bytes: int
    round: int = 0
    """The last read round in a response of this leader (`read_index`); 0 for none."""

    def __str__(self) -> str:
        echo = f", round {self.round}" if self.round else ""
        return f"Fetch(epoch {self.epoch}, replica {self.replica}, from {self.log_end}{echo})"


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """The outline of one record batch: the offsets [base, end), all of one epoch.

    `assignment` is the voter assignment in the batch, if it has one. It is the only content of
    records that the core needs; the reader of the bytes fills it in.
    """

    base: Offset
    end: Offset
    epoch: Epoch
    assignment: VoterAssignment | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"[{self.base}, {self.end})@{self.epoch}"


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets [start, end) of the sender's log; the bytes sent end with a batch, at `max_bytes`."""

    start: Offset
    end: Offset
    max_bytes: int

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(ResponseHeader):
    """The answer to a fetch: records, a diverging epoch, a snapshot id, or an error.

    At the leader, the records are a `span`, which is read from its log when the answer is
    written. At the follower, they are `batches`: the outlines of complete and checked batches,
    whose bytes the driver keeps.
    """

    high_watermark: Offset | None = None
    log_start: Offset = Offset(0)
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    """The snapshot to fetch instead: the leader's log no longer reaches back to the asker's end."""
    span: Span | None = None
    batches: tuple[Batch, ...] = ()
    round: int = 0
    """The read round that the next fetch is to echo; 0 for none."""

    def carrying(self, batches: tuple[Batch, ...]) -> "FetchResponse":
        """Return a copy with these batches; `replace` takes three times as long."""
        return FetchResponse(
            error=self.error,
            epoch=self.epoch,
            leader=self.leader,
            high_watermark=self.high_watermark,
            log_start=self.log_start,
            diverging=self.diverging,
            snapshot=self.snapshot,
            span=self.span,
            batches=batches,
            round=self.round,
        )

    def _outcome(self) -> str:
        if self.diverging is not None:
            return f"diverging at {self.diverging}"
        if self.snapshot is not None:
            return f"snapshot {self.snapshot} instead"
        what = self.span or " ".join(map(str, self.batches)) or "nothing"
        known = self.high_watermark
        committed = "no high watermark yet" if known is None else f"high watermark {known}"
        return f"{what}, {committed}{f', round {self.round}' if self.round else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuorumRequest:
    """Set the target voters (KIP-595); None cancels the change that is under way."""

    target: tuple[ReplicaKey, ...] | None
    timeout_ms: int

    def __str__(self) -> str:
        if self.target is None:
            return "AlterQuorum(no target)"
        return f"AlterQuorum(target [{', '.join(each.text for each in self.target)}])"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoterRequest:
    """Make this replica a voter once it has caught up (KIP-853)."""

    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True
    """False: answer as soon as the voter is appended, before the commit."""

    def __str__(self) -> str:
        return f"AddRaftVoter({self.voter.key.text})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoterRequest:
    """Remove this voter (KIP-853)."""

    voter: ReplicaKey
    timeout_ms: int

    def __str__(self) -> str:
        return f"RemoveRaftVoter({self.voter.text})"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """A voter names its listeners and the levels of kraft.version that it supports (KIP-853)."""

    epoch: Epoch
    voter: Voter
    timeout_ms: int

    def __str__(self) -> str:
        return f"UpdateRaftVoter(epoch {self.epoch}, {self.voter.key.text})"


VoterRequest: TypeAlias = (
    AlterQuorumRequest | AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
)


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """Transfer the lead to the voter `to`, or to the most advanced one if `to` is None."""

    to: ReplicaId | None

    def __str__(self) -> str:
        return f"Transfer(to {'any voter' if self.to is None else self.to})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResponse(ResponseHeader):
    """The response to a request for other voters or another leader; `text` explains an error.

    Without an error, a change of the voters is committed, or a leader of `epoch` has resigned for a
    transfer and everything proposed to it is committed.
    """

    text: str = ""
    successor: ReplicaId | None = None
    """After a transfer, the voter that stands first; the voters decide if it wins."""

    def __str__(self) -> str:
        return f"{ResponseHeader.__str__(self)}{f': {self.text}' if self.text else ''}"

    def _outcome(self) -> str:
        return "accepted" if self.successor is None else f"accepted, voter {self.successor} stands"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    """A replica that is too far behind asks for a part of a snapshot (KIP-630)."""

    replica: ReplicaKey
    epoch: Epoch
    snapshot: OffsetAndEpoch
    position: int
    """The byte to start at; the asker has everything before it."""
    max_bytes: int

    def __str__(self) -> str:
        return (
            f"FetchSnapshot(epoch {self.epoch}, replica {self.replica}, snapshot {self.snapshot}"
            f" from byte {self.position})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse(ResponseHeader):
    """A part of a snapshot: `length` bytes from `position` on, of `size_bytes` in all.

    The leader's driver reads the bytes when it writes the answer; the follower's driver keeps them.
    They are checked only when the snapshot is complete.
    """

    snapshot: OffsetAndEpoch
    size_bytes: int = 0
    position: int = 0
    length: int = 0

    def _outcome(self) -> str:
        end = self.position + self.length
        return f"{self.snapshot}, bytes [{self.position}, {end}) of {self.size_bytes}"


Request: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
)
Response: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
)
"""The responses between replicas."""

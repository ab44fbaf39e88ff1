"""The basic types of the quorum: values without behaviour.

An *epoch* numbers a leadership: it only grows, and each has at most one leader. An *offset* is
the position of one record. A log is the half-open range [log start offset, log end offset):
the log end offset is the offset that the next record will get, so an empty log ends at 0.
"""

from base64 import b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final, NewType, TypeAlias
from uuid import UUID

ReplicaId = NewType("ReplicaId", int)
"""The id of a node that holds a copy of the log; 0 is valid, NO_REPLICA is not."""

HostPort: TypeAlias = tuple[str, int]
"""The address of a listener."""

Epoch = NewType("Epoch", int)
Offset = NewType("Offset", int)

NO_REPLICA: Final = ReplicaId(-1)
NO_DIRECTORY: Final = UUID(int=0)
UUID_CHARACTERS: Final = 22
NOT_DONE: Final = "not done"
"""The first words of the answer to a voter change that the leader gives up."""


def uuid_to_text(uuid: UUID) -> str:
    """Return `uuid` as Kafka's files and tools show it: 22 characters of base64url."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> UUID:
    """Parse a uuid in Kafka's text form; raises `ValueError`."""
    if len(text) != UUID_CHARACTERS:
        raise ValueError(f"{text!r} has {len(text)} characters, a uuid has {UUID_CHARACTERS}")
    try:
        uuid = UUID(bytes=b64decode(text + "==", altchars=b"-_"))
    except ValueError as error:
        raise ValueError(f"{text!r} is not base64url, as a uuid is") from error
    if uuid_to_text(uuid) != text:  # Foreign characters are skipped, unused bits ignored.
        raise ValueError(f"{text!r} is not base64url of a uuid, that would be {uuid_to_text(uuid)}")
    return uuid


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One copy of the log: the node's id and the id of the directory that holds the copy.

    A wiped disk comes back with the same id but another directory (KIP-853) and counts as another
    replica, because its votes are lost.
    """

    id: ReplicaId
    directory_id: UUID = NO_DIRECTORY

    def __hash__(self) -> int:
        # Every fetch hashes a key: a UUID takes longer, and two directories of one id are rare.
        return hash(self.id)

    def __str__(self) -> str:
        if self.directory_id == NO_DIRECTORY:
            return str(self.id)
        return f"{self.id}/{str(self.directory_id)[:8]}"

    @property
    def text(self) -> str:
        """The form for operators: `4:DIRECTORY_ID`, or `4` if the directory is not known."""
        if self.directory_id == NO_DIRECTORY:
            return str(self.id)
        return f"{self.id}:{uuid_to_text(self.directory_id)}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetAndEpoch:
    """A position in the log: the epoch of the last record, then the end offset.

    The order of the fields is Raft's order of "at least as up-to-date" (§5.4.1): the epoch
    decides and the offset breaks the tie, so `candidate_end >= own_end` *is* the rule of the vote.
    """

    epoch: Epoch
    offset: Offset

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot, which replaces the log below its end: its id and its size."""

    id: OffsetAndEpoch
    """The offset at which it ends, exclusive, and the epoch of the last record before (KIP-630)."""
    size_bytes: int

    @property
    def end(self) -> Offset:
        return self.id.offset

    def __str__(self) -> str:
        return f"snapshot {self.id}"


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The durable state of elections (Raft, figure 2), and the leader it last followed.

    The leader is kept for two reasons: a leader that restarts must know that it led, so that it
    never leads the same epoch again; a follower finds its leader without asking around.
    """

    epoch: Epoch = Epoch(0)
    voted_for: ReplicaKey | None = None
    leader: ReplicaId | None = None

    def __str__(self) -> str:
        vote = "no vote" if self.voted_for is None else f"vote for {self.voted_for}"
        leader = "" if self.leader is None else f", leader {self.leader}"
        return f"epoch {self.epoch}, {vote}{leader}"

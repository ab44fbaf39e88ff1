"""The voter set: a value in the log, in force as soon as it is appended (KIP-853, Raft §4.1).

A voter is one copy of the log, an id together with a directory id: a disk that was wiped has
forgotten its votes, so what comes back with it is not the same voter. `reconfiguration` decides
how the leader gets from one set to the next.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from quorum.core.vocabulary import NO_DIRECTORY, Offset, ReplicaId, ReplicaKey


class WaitReason(StrEnum):
    """The reason why a change of the voters does not go on now."""

    NO_COMMIT_IN_EPOCH = "the leader has not committed a record of its own epoch yet"
    UNCOMMITTED = "the last change of the voters is not committed yet"
    TRANSFER = "the lead is being handed over"
    CATCHING_UP = "they have not caught up with the leader's log yet"
    ADDRESS_UNKNOWN = "it is not known where they listen"
    NOT_SEEN = "they do not fetch from the leader"
    NO_MAJORITY = "without them, no majority of the voters that would result fetches"
    NOT_HEARD = (
        "they have not fetched since this step was due and may be dead; without them, no majority "
        "of the voters that would result fetches"
    )


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason for which a change waits, and the replicas it waits for."""

    reason: WaitReason
    replicas: tuple[ReplicaId, ...] = ()

    def __str__(self) -> str:
        if not self.replicas:
            return str(self.reason)
        return f"{', '.join(map(str, self.replicas))}: {self.reason}"


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """The address of a listener, with its name."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, order=True)
class Voter:
    """One voter. A directory id of zero is not known yet, and stands for any."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_min: int = 0
    kraft_version_max: int = 1
    """The levels of kraft.version that its program understands."""

    @property
    def id(self) -> ReplicaId:
        return self.key.id

    @property
    def directory_id_is_known(self) -> bool:
        return self.key.directory_id != NO_DIRECTORY

    def is_(self, replica: ReplicaKey) -> bool:
        """Return True if `replica` has the id of this voter and its directory, if that is known."""
        return self.key.id == replica.id and (
            not self.directory_id_is_known or self.key.directory_id == replica.directory_id
        )


def is_meant(addressed: ReplicaKey | None, me: ReplicaKey) -> bool:
    """Return True if what is said to the voter `addressed` is meant for this replica (KIP-853).

    Another replica may listen where its namesake once did: without this, its vote would be
    counted as the other's. Who does not say whom he means, means whoever is there.
    """
    return addressed is None or Voter(addressed).is_(me)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of the quorum, by rising id. Any two majorities of them share a voter.

    An observer that has just been born may not know of any: then the set is empty.
    """

    voters: tuple[Voter, ...] = ()
    ids: frozenset[ReplicaId] = field(init=False, repr=False, compare=False)
    _rising: tuple[ReplicaId, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "voters", tuple(sorted(self.voters)))
        object.__setattr__(self, "_rising", tuple(each.key.id for each in self.voters))
        object.__setattr__(self, "ids", frozenset(self._rising))
        assert len(self.ids) == len(self.voters), f"two voters of one id: {self.voters}"

    @classmethod
    def of(cls, *ids: int) -> "VoterSet":
        """Voters of whom nothing is known but their ids."""
        return cls(tuple(Voter(ReplicaKey(ReplicaId(each))) for each in ids))

    def __contains__(self, replica: ReplicaId) -> bool:
        return replica in self.ids

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    def __str__(self) -> str:
        return f"[{', '.join(str(each.key) for each in self.voters)}]"

    @property
    def text(self) -> str:
        """As operators read it, each with its directory if that is known."""
        return f"[{', '.join(each.key.text for each in self.voters)}]"

    @property
    def majority(self) -> int:
        """The least number of voters that any other such number must overlap."""
        assert self.voters, "nobody votes, as far as this node knows"
        return len(self.voters) // 2 + 1

    def get(self, replica: ReplicaId) -> Voter | None:
        return next((each for each in self.voters if each.key.id == replica), None)

    def has(self, replica: ReplicaKey) -> bool:
        """Return True if this copy of the log, with its id and directory, is a voter."""
        voter = self.get(replica.id)
        return voter is not None and voter.is_(replica)

    def sorted(self) -> tuple[ReplicaId, ...]:
        """In rising order: what a node does must not depend on the order of a set."""
        return self._rising

    def others(self, me: ReplicaId) -> tuple[ReplicaId, ...]:
        return tuple([each for each in self._rising if each != me])

    def with_(self, voter: Voter) -> "VoterSet":
        """This set with `voter` added, or in the place of the one that has its id."""
        return VoterSet((*(each for each in self.voters if each.id != voter.id), voter))

    def without(self, replica: ReplicaId) -> "VoterSet":
        return VoterSet(tuple(each for each in self.voters if each.id != replica))


@dataclass(frozen=True, slots=True)
class VoterAssignment:
    """The current voters and the target voters (KIP-595, VoterAssignment).

    A target is a replica's id; one that names a directory is that copy of the log alone. Without
    a target no change is under way.
    """

    current: VoterSet
    target: tuple[ReplicaKey, ...] | None = None

    def __post_init__(self) -> None:
        if self.target is not None:
            assert self.target, "a quorum has at least one voter"
            object.__setattr__(self, "target", tuple(sorted(self.target)))
            assert len({each.id for each in self.target}) == len(self.target)

    def __str__(self) -> str:
        if self.target is None:
            return f"voters {self.current}"
        return f"voters {self.current}, target [{', '.join(map(str, self.target))}]"


class VoterSetHistory:
    """Invariant: the offsets rise strictly."""

    __slots__ = ("_base", "_entries")

    def __init__(
        self,
        entries: Iterable[tuple[Offset, VoterAssignment]] = (),
        *,
        base: VoterAssignment | None = None,
    ) -> None:
        """`entries` are those of the log, `base` that of the snapshot before it, if it has one."""
        self._base = base
        self._entries: list[tuple[Offset, VoterAssignment]] = []
        for end, assignment in entries:
            self.append(end, assignment)

    @property
    def last(self) -> VoterAssignment | None:
        """The assignment in force; None where the log does not say who votes."""
        return self._entries[-1][1] if self._entries else self._base

    @property
    def before_last(self) -> VoterAssignment | None:
        """The assignment that the last one replaced, as far as the log says."""
        return self._entries[-2][1] if len(self._entries) > 1 else self._base

    @property
    def last_end(self) -> Offset:
        """The end of the batch with the last assignment: it is committed from there on."""
        return self._entries[-1][0] if self._entries else Offset(0)

    def append(self, end: Offset, assignment: VoterAssignment) -> None:
        """Note the assignment of a batch that ends at `end`."""
        assert not self._entries or end > self._entries[-1][0]
        self._entries.append((end, assignment))

    def truncate(self, end: Offset) -> None:
        """Take back what batches beyond `end` had assigned."""
        while self._entries and self._entries[-1][0] > end:
            self._entries.pop()

    def forget_below(self, start: Offset) -> None:
        """The log now begins at `start`: what was assigned before is what it goes on from."""
        while self._entries and self._entries[0][0] <= start:
            self._base = self._entries.pop(0)[1]

    def at(self, end: Offset) -> VoterAssignment | None:
        """The assignment in force in a log that ends at `end`, for a snapshot of it."""
        known = [assignment for offset, assignment in self._entries if offset <= end]
        return known[-1] if known else self._base

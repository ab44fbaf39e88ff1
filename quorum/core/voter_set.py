"""The voter set: a value in the log, in force as soon as it is appended (KIP-853, Raft §4.1).

A voter is one copy of the log: an id with a directory id. A wiped disk has lost its votes, so its
node comes back as another replica. `reconfiguration` decides how the leader gets from one set to
the next.
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
    """The reason why a change waits, and the replicas that it waits for."""

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
    """One voter. A directory id of zero means not known yet, and stands for any directory."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_min: int = 0
    kraft_version_max: int = 1
    """The highest level of kraft.version that its program supports."""

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
    """Return True if a message to the voter `addressed` is meant for this replica (KIP-853).

    Another replica of the same id may listen at the address: its vote must not count as the
    voter's. A message without an addressee is meant for any replica.
    """
    return addressed is None or Voter(addressed).is_(me)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of the quorum, by ascending id. Any two majorities of them share a voter.

    The set is empty on a new observer that does not know the voters yet.
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
        """Return voters of which only the ids are known."""
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
        """The form for operators, each voter with its directory if that is known."""
        return f"[{', '.join(each.key.text for each in self.voters)}]"

    @property
    def majority(self) -> int:
        """The number of voters in a majority: more than half."""
        assert self.voters, "nobody votes, as far as this node knows"
        return len(self.voters) // 2 + 1

    def get(self, replica: ReplicaId) -> Voter | None:
        return next((each for each in self.voters if each.key.id == replica), None)

    def has(self, replica: ReplicaKey) -> bool:
        """Return True if this copy of the log, with its id and directory, is a voter."""
        voter = self.get(replica.id)
        return voter is not None and voter.is_(replica)

    def sorted(self) -> tuple[ReplicaId, ...]:
        """The ids in ascending order: a node must not depend on the order of a set."""
        return self._rising

    def others(self, me: ReplicaId) -> tuple[ReplicaId, ...]:
        return tuple([each for each in self._rising if each != me])

    def with_(self, voter: Voter) -> "VoterSet":
        """Return this set with `voter` added, or in place of the voter with its id."""
        return VoterSet((*(each for each in self.voters if each.id != voter.id), voter))

    def without(self, replica: ReplicaId) -> "VoterSet":
        return VoterSet(tuple(each for each in self.voters if each.id != replica))


@dataclass(frozen=True, slots=True)
class VoterAssignment:
    """The current voters and the target voters (KIP-595, VoterAssignment).

    A target is a replica's id, with or without the directory of one copy of the log. Without
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
    """The voter assignments in the log, by strictly ascending end offset of their batches."""

    __slots__ = ("_base", "_entries")

    def __init__(
        self,
        entries: Iterable[tuple[Offset, VoterAssignment]] = (),
        *,
        base: VoterAssignment | None = None,
    ) -> None:
        """`entries` are in the log; `base` is the assignment in the snapshot before it, if any."""
        self._base = base
        self._entries: list[tuple[Offset, VoterAssignment]] = []
        for end, assignment in entries:
            self.append(end, assignment)

    @property
    def last(self) -> VoterAssignment | None:
        """The assignment in force; None if the log does not record voters."""
        return self._entries[-1][1] if self._entries else self._base

    @property
    def before_last(self) -> VoterAssignment | None:
        """The assignment before the last one, if the log or its snapshot has it."""
        return self._entries[-2][1] if len(self._entries) > 1 else self._base

    def named(self) -> Iterator[Voter]:
        """Yield all voters and targets of these assignments; one may come several times."""
        for assignment in (self._base, *(each for _, each in self._entries)):
            if assignment is not None:
                yield from assignment.current
                yield from map(Voter, assignment.target or ())

    @property
    def last_end(self) -> Offset:
        """The end of the batch with the last assignment: it is committed from there on."""
        return self._entries[-1][0] if self._entries else Offset(0)

    def append(self, end: Offset, assignment: VoterAssignment) -> None:
        """Note the assignment of a batch that ends at `end`."""
        assert not self._entries or end > self._entries[-1][0]
        self._entries.append((end, assignment))

    def truncate(self, end: Offset) -> None:
        """Remove the assignments of batches that end after `end`."""
        while self._entries and self._entries[-1][0] > end:
            self._entries.pop()

    def forget_below(self, start: Offset) -> None:
        """Keep of the assignments up to `start`, the new log start, only the last one as base."""
        while self._entries and self._entries[0][0] <= start:
            self._base = self._entries.pop(0)[1]

    def at(self, end: Offset) -> VoterAssignment | None:
        """Return the assignment in force at `end`, for a snapshot that ends there."""
        known = [assignment for offset, assignment in self._entries if offset <= end]
        return known[-1] if known else self._base

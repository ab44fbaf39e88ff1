"""Who votes. The voters are fixed by configuration (`quorum.voters`) when a cluster is founded."""

from dataclasses import dataclass

from quorum.core.vocabulary import ReplicaId


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of the quorum. Any two majorities of them share a voter."""

    ids: frozenset[ReplicaId]
    recorded: bool = False
    """Whether the first leader of an empty log writes down who they are (kraft.version 1)."""

    def __post_init__(self) -> None:
        assert self.ids, "a quorum has at least one voter"

    @classmethod
    def of(cls, *ids: int, recorded: bool = False) -> "VoterSet":
        return cls(frozenset(ReplicaId(each) for each in ids), recorded)

    def __contains__(self, replica: ReplicaId) -> bool:
        return replica in self.ids

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        return str(list(self.sorted()))

    @property
    def majority(self) -> int:
        """The least number of voters that any other such number must overlap."""
        return len(self.ids) // 2 + 1

    def sorted(self) -> tuple[ReplicaId, ...]:
        """In rising order: what a node does must not depend on the order of a set."""
        return tuple(sorted(self.ids))

    def others(self, me: ReplicaId) -> tuple[ReplicaId, ...]:
        return tuple(each for each in self.sorted() if each != me)

"""What a node knows of the others before it has a log: what `founding` goes by."""

from dataclasses import dataclass

from quorum.core.vocabulary import ReplicaId


@dataclass(slots=True, kw_only=True)
class Beginning:
    """By default everything that a node must know to found a cluster: where all voters are."""

    unlocated: frozenset[ReplicaId] = frozenset()
    """Founders of whom no address is known."""
    bootstrap: tuple[ReplicaId, ...] = ()
    """Pseudo ids of the servers to ask first."""
    has_surveyed: bool = True
    """Whether all of these have been asked for a quorum."""
    has_found: bool = False
    """Whether one of them knows of a quorum."""

"""The id of the cluster that a node belongs to: configured, remembered, learned, or made by the
first leader.

It is known from the moment it is kept on disk, and never changes after that. Who has another one
is of another cluster: nothing is learned from it. Nothing here touches a disk.
"""

from collections.abc import Callable
from typing import TypeAlias

from quorum.core.vocabulary import Offset
from quorum.ports import Log
from quorum.records.control import cluster_id_in

Keep: TypeAlias = Callable[[str, Callable[[], None]], None]
"""Keeps an id durably, and calls back when it has."""


class ClusterIdentity:
    """The id of the cluster, as far as it is known by now."""

    def __init__(self, cluster_id: str | None, *, keep: Keep, make: Callable[[], str]) -> None:
        """`make` gives an id for a cluster that is founded by a node which knows of none."""
        self._id = cluster_id
        self._keep = keep
        self._make = make
        self.on_known: list[Callable[[str], None]] = []
        """Told once, when the id is known that was not before."""
        self._made: str | None = None
        self._learning: str | None = None
        self._has_looked = False

    @property
    def id(self) -> str | None:
        """None until it is known."""
        return self._id

    def id_to_found_with(self) -> str:
        """The id that the first record of a log is to carry.

        One that is made here is the cluster's only when that record is committed: until then it is
        told to nobody, because another leader may found the cluster instead.
        """
        if self._id is not None:
            return self._id
        if self._made is None:
            self._made = self._make()
        return self._made

    def learn(self, cluster_id: str) -> None:
        """This is the cluster, as its log or one of its nodes says; the first word counts."""
        if self._id is not None or self._learning is not None:
            return
        self._learning = cluster_id
        self._keep(cluster_id, self._known)

    def on_commit(self, log: Log, high_watermark: Offset) -> None:
        """The log is committed up to there: take the id that its founder wrote down.

        In the log it is kept already, by a majority, and so it is known at once.
        """
        if self._id is not None or self._has_looked or log.start > 0:
            return
        self._has_looked = True
        cluster_id = cluster_id_in(log.read(log.start, high_watermark, 1))
        if cluster_id is not None:
            self._keep(cluster_id, lambda: None)
            self._learning = cluster_id
            self._known()

    def agrees(self, other: str | None) -> bool:
        """Return True if a node that names this cluster, or none, knows as much of it as this one.

        Of the places of others only such two tell each other: one that knows of no cluster yet may
        belong to any.
        """
        return other == (self._id or self._learning)

    def refusal(self, other: str | None) -> str | None:
        """Return the reason why a node of cluster `other` is refused; an unknown id is none."""
        if other is None or self._id is None or other == self._id:
            return None
        return f"the sender is of cluster {other}, this node of {self._id}"

    def _known(self) -> None:
        assert self._learning is not None
        if self._id is not None:
            return
        self._id = self._learning
        for each in self.on_known:
            each(self._id)

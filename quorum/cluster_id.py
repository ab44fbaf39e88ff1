"""The cluster id of a node: configured, stored, learned from others, or made by the first leader.

The id is known once it is on disk, and never changes after that. A node learns nothing from nodes
with another id.
"""

from collections.abc import Callable
from typing import TypeAlias

from quorum.core.vocabulary import Offset
from quorum.ports import Log
from quorum.records.control import cluster_id_in

Keep: TypeAlias = Callable[[str, Callable[[], None]], None]
"""Stores an id durably, then calls back."""


class ClusterIdentity:
    """The id of the cluster, once it is known."""

    def __init__(self, cluster_id: str | None, *, keep: Keep, make: Callable[[], str]) -> None:
        """`make` returns an id for a new cluster, if this node founds it and no id is known."""
        self._id = cluster_id
        self._keep = keep
        self._make = make
        self.on_known: list[Callable[[str], None]] = []
        """Called once, when the id becomes known."""
        self._made: str | None = None
        self._learning: str | None = None
        self._has_looked = False

    @property
    def id(self) -> str | None:
        """The cluster id; None until it is known."""
        return self._id

    def id_to_found_with(self) -> str:
        """Return the id for the first record of a log.

        An id that is made here counts only once that record is committed: until then it stays
        private, because another leader may found the cluster instead.
        """
        if self._id is not None:
            return self._id
        if self._made is None:
            self._made = self._make()
        return self._made

    def learn(self, cluster_id: str) -> None:
        """Take the id from the log or from another node; the first one counts."""
        if self._id is not None or self._learning is not None:
            return
        self._learning = cluster_id
        self._keep(cluster_id, self._known)

    def on_commit(self, log: Log, high_watermark: Offset) -> None:
        """Take the id that the founder wrote into the log, once that record is committed.

        A majority has stored the record, so the id is known at once.
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
        """Return True if both nodes name the same cluster, or both name none.

        Only such nodes exchange addresses: a node without a cluster id may belong to any cluster.
        """
        return other == (self._id or self._learning)

    def refusal(self, other: str | None) -> str | None:
        """Return the reason to refuse a node of cluster `other`, or None; an unknown id passes."""
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

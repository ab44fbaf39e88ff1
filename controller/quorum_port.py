"""What a controller asks of the quorum below it.

`quorum.driver.Quorum` in production, and `quorum.replica.Replica` itself where nothing waits: in
the simulation. Nothing here says how records get to a majority.
"""

from collections.abc import Sequence
from typing import Protocol

from quorum.core.events import Located
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Offset
from quorum.local_askers import ReadDone


class Proposing(Protocol):
    """One replica of the quorum, as the state machine above it sees it."""

    @property
    def node(self) -> QuorumNode:
        """What the replica knows: where its log ends, its voters, to whom it hands over."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether there is room on the disk of this node, as far as it has tried."""
        ...

    def accepts(self, count: int, *, after: int = 0) -> bool:
        """Whether `propose` would take `count` records now, or once it has taken `after` others."""
        ...

    def propose(self, values: Sequence[bytes]) -> Offset:
        """Append these records, together in one batch; return the offset of the first one.

        They are committed when `StateMachine.on_commit` passes them, and lost if
        `on_stop_leading` comes before. The caller has asked `accepts`.
        """
        ...

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        ...

    def read_index(self, done: ReadDone) -> None:
        """Call `done`, later, with the offset that a read is now good for, or why it is not."""
        ...

    def heard(self, news: Located) -> None:
        """It is known where a replica listens."""
        ...

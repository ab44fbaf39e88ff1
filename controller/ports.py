"""What a controller asks of the quorum below it.

`quorum.driver.Quorum` in production, and `quorum.replica.Replica` itself where nothing waits: in
the simulation. Nothing here says how records get to a majority.
"""

from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from quorum.applier import ReadDone
from quorum.core.effects import ReadRefusal
from quorum.core.events import EndpointsUpdated
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Offset


class RaftClient(Protocol):
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

    def heard(self, news: EndpointsUpdated) -> None:
        """It is known where a replica listens."""
        ...


class Unavailable(StrEnum):
    """Why a command was not carried out. Unless it is too large, it may be asked again, of the
    active controller.
    """

    NOT_ACTIVE = "this node is not the active controller"
    NOT_READY = "this node has just started and has not read yet all that is committed"
    LEAD_LOST = "this node ceased to be the active controller; whether it was done is unknown"
    HANDING_OVER = "the lead is being handed over to another controller; ask again in a moment"
    OVERLOADED = "the controller has too much uncommitted work; ask again later"
    DISK_FULL = "the disk of the active controller is full, and no other could take over yet"
    NOT_PROVED = (
        "no majority of the controllers confirmed in time that this node is still the active one"
    )
    TOO_LARGE = "it takes more, or larger, records than one request may; ask for less at once"

    @property
    def may_be_done(self) -> bool:
        """Whether the command may take effect all the same, so that it must not be repeated."""
        return self is Unavailable.LEAD_LOST


UNPROVED: Final = MappingProxyType(
    {
        ReadRefusal.NOT_LEADER: Unavailable.NOT_ACTIVE,
        ReadRefusal.TOO_MANY: Unavailable.OVERLOADED,
        ReadRefusal.NOT_PROVED: Unavailable.NOT_PROVED,
    }
)
"""What it means for a query that the quorum refuses a read."""

"""The interface between the controller and the quorum, and the reasons to give no answer."""

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
    """One replica of the quorum, for its state machine.

    `quorum.replica.Replica` in production; the simulation adds checks.
    """

    @property
    def node(self) -> QuorumNode:
        """The state of the replica: its log end, its voters, its successor."""
        ...

    @property
    def has_room(self) -> bool:
        """False while this node's disk is full."""
        ...

    def accepts(self, count: int, *, after: int = 0) -> bool:
        """Return True if `propose` would take `count` records, now or after `after` others."""
        ...

    def propose(self, values: Sequence[bytes]) -> Offset:
        """Append these records, together in one batch; return the offset of the first one.

        They are committed when `StateMachine.on_commit` passes them, and lost if
        `on_stop_leading` comes before. The caller has asked `accepts`.
        """
        ...

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Read whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        ...

    def read_index(self, done: ReadDone) -> None:
        """Call `done` later with the offset for a linearizable read, or a refusal."""
        ...

    def heard(self, news: EndpointsUpdated) -> None:
        """Tell the replica the endpoints of another one."""
        ...


class Unavailable(StrEnum):
    """The reason why a command was not carried out. Unless it is too large, the client may repeat
    it on the active controller.
    """

    NOT_ACTIVE = "this node is not the active controller"
    NOT_READY = "this node has just started and is still reading committed records"
    LEAD_LOST = "this node is no longer the active controller; the outcome is unknown"
    HANDING_OVER = "the lead is being transferred to another controller; retry in a moment"
    OVERLOADED = "the controller has too much uncommitted work; retry later"
    DISK_FULL = "the disk of the active controller is full, and no other could take over yet"
    NOT_PROVED = (
        "no majority of the controllers confirmed in time that this node is still the active one"
    )
    TOO_LARGE = "it needs more, or larger, records than one request may; split the request"

    @property
    def may_be_done(self) -> bool:
        """True if the command may take effect all the same, so that it must not be repeated."""
        return self is Unavailable.LEAD_LOST


UNPROVED: Final = MappingProxyType(
    {
        ReadRefusal.NOT_LEADER: Unavailable.NOT_ACTIVE,
        ReadRefusal.TOO_MANY: Unavailable.OVERLOADED,
        ReadRefusal.NOT_PROVED: Unavailable.NOT_PROVED,
    }
)
"""The reason for a refused query, by the refusal of the quorum."""

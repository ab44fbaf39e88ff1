"""Why a controller did not carry out a command or answer a query. Reasons, and no decisions."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from quorum.core.reads import ReadRefusal


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

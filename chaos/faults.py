"""What can strike in a run, and one strike of it; what comes when is drawn in `chaos.profile`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """What can strike, each at a moment and somebody; the value says it in the story of a run."""

    SPLIT = "the network falls into two parts"
    ISOLATE = "hears and reaches nobody"
    DEAF = "hears nobody"
    MUTE = "is heard by nobody"
    FLOOD = "whoever leads is asked for far more than fits"
    RING = "each hears and reaches only its neighbours in a ring"
    CLOG = "what it is sent and sends is held back, then comes in a burst"
    RESET = "its connections break"
    MISLEAD = "takes its leader for gone, most often wrongly"
    OUST = "the leader is cut off, and all others take it for gone at once"
    DEPART = "whoever stands next is cut off, and a voter no more when it comes back"
    HEAL = "the network is whole again"
    KILL = "its process dies"
    POWER = "it loses power"
    BLACKOUT = "power fails everywhere at once"
    DIES_IN_TURN = "dies between two effects"
    DIES_IN_WRITING = "dies or loses power between two operations of its disk"
    DIES_IN_RECOVERY = "loses power, and again while it starts"
    PAUSE = "stands still and wakes"
    STOP = "is stopped in good order"
    ROLL = "all are stopped and started, one after the other"
    UPGRADE = "all are stopped and started, one after the other, with a newer release"
    LOST_DISK = "its whole disk is lost"
    OLD_COPY = "comes back with an older copy of its disk"
    PAST = "comes back with an older copy of its disk, a clock that is behind, and often elsewhere"
    MISDIRECTED = "loses power, and its last write went to a wrong place in its log as well"
    EXCHANGED = "it and another one come back with each other's disks"
    ROT_SNAPSHOT = "a bit of its newest snapshot turns over, and then perhaps it loses power"
    SLOW_DISK = "its disk takes seconds"
    FULL_DISK = "its disk is full"
    FSYNC_FAILS = "its disk fails to keep what it was given"
    ROT = "loses power, and a bit of its log turns over"
    MOVE = "loses power, and comes back at another address"
    ALTER = "other voters are wanted"
    ADD = "is wanted as a voter, beside the others"
    REMOVE = "is wanted as a voter no more"
    TRANSFER = "is wanted as the leader"
    CLOCK_JUMP = "its time of day jumps"
    CUT_CALL = "a connection is reset in the middle of what it says"
    GARBLED = "what it says arrives as garbage"
    OVERSIZED = "what it says is longer than anything may be"
    FLIPPED = "a bit of the records that it sends turns over on the way"
    ASTRAY = "what it asks gets to another cluster"
    ROT_AT_END = "loses power, and a bit of the last batch of its log turns over"
    STRAY_INTO_VOTE = "loses power, and its last write went into its vote as well"
    STRAY_INTO_SNAPSHOT = "its last write went into a snapshot as well"
    STRAY_INTO_TIMES = "its last write went into its append times as well"
    ASKED_FROM_ABROAD = "somebody of another cluster asks it what only replicas ask"


ALWAYS: Final = (Fault.HEAL,)
ON_THE_WIRE: Final = (
    Fault.CUT_CALL,
    Fault.GARBLED,
    Fault.OVERSIZED,
    Fault.FLIPPED,
    Fault.ASTRAY,
    Fault.ASKED_FROM_ABROAD,
)
ON_DISK: Final = (
    Fault.ROT_AT_END,
    Fault.STRAY_INTO_VOTE,
    Fault.STRAY_INTO_SNAPSHOT,
    Fault.STRAY_INTO_TIMES,
)
APART: Final = (
    Fault.OUST,
    Fault.DEPART,
    Fault.OLD_COPY,
    Fault.PAST,
    Fault.FLOOD,
    Fault.UPGRADE,
    *ON_THE_WIRE,
    *ON_DISK,
)
"""Drawn by themselves."""
SOMETIMES: Final = tuple(each for each in Fault if each not in (*ALWAYS, *APART))
WISHES: Final = frozenset({Fault.ALTER, Fault.ADD, Fault.REMOVE, Fault.TRANSFER})
"""Those that wait until somebody leads."""
EVERYWHERE: Final = frozenset(
    {
        Fault.HEAL,
        Fault.RING,
        Fault.BLACKOUT,
        Fault.ROLL,
        Fault.UPGRADE,
        Fault.ALTER,
        Fault.OUST,
        Fault.DEPART,
        Fault.FLOOD,
    }
)
"""Those that have no victim."""

BETWEEN_TWO: Final = frozenset(
    {
        Fault.SPLIT,
        Fault.ISOLATE,
        Fault.DEAF,
        Fault.MUTE,
        Fault.CLOG,
        Fault.RESET,
        Fault.MISLEAD,
        Fault.EXCHANGED,
    }
)
"""Those that mean nothing where there is one replica only; of two, both may come to vote."""
NEEDS: Final = {
    Fault.OUST: 3,
    Fault.DEPART: 3,
    Fault.RING: 4,
    Fault.LOST_DISK: 3,
    Fault.OLD_COPY: 3,
    Fault.PAST: 3,
    Fault.CUT_CALL: 2,
    Fault.GARBLED: 2,
    Fault.OVERSIZED: 2,
    Fault.FLIPPED: 2,
    Fault.ASTRAY: 2,
    Fault.ASKED_FROM_ABROAD: 2,
    Fault.ROT_AT_END: 3,
}
"""How many voters it takes for a fault to mean anything."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault of one run."""

    at_ms: int
    """After the beginning of the disturbed part of the run."""
    fault: Fault
    victim: int | None
    """The place of a replica in the list of all; None means whoever leads then."""
    size: int
    """Between 0 and 999: how long or how hard, as each fault understands it."""

    def __str__(self) -> str:
        who = "" if self.fault in EVERYWHERE else f"{_who(self.victim)} "
        return f"{self.at_ms} ms: {who}{self.fault} ({self.size})"


def _who(victim: int | None) -> str:
    return "the leader" if victim is None else f"replica at place {victim}"

"""Why a partition that is being reassigned is not further. Words for people and programs.

The texts are part of what is shown and kept: they are never changed, only added to.
"""

from enum import Enum


class Reason(Enum):
    """In the order in which they are looked for: the first that holds is the one that is told."""

    NO_LEADER = "no-leader"
    """Nobody leads the partition, so nobody can say who is in sync."""
    NO_LIVE_TARGET = "no-live-target"
    """None of the brokers that are to get a replica is alive."""

"""Why a partition that is being reassigned is not further. Words for people and programs.

The texts are part of what is shown and kept: they are never changed, only added to.
"""

from enum import Enum


class Reason(Enum):
    """In the order in which they are looked for: the first that holds is the one that is told."""

    ALL_PAUSED = "all-paused"
    """Somebody has paused all moves."""
    MOVE_PAUSED = "move-paused"
    """Somebody has paused its move."""
    HURT = "hurt"
    """A partition of its move lacks replicas that it may not lack; the move rests meanwhile."""
    NO_LEADER = "no-leader"
    """Nobody leads the partition, so nobody can say who is in sync."""
    NO_LIVE_TARGET = "no-live-target"
    """None of the brokers that are to get a replica is alive."""
    NOT_REGISTERED = "not-registered"
    """Brokers that are to get a replica are not known to the cluster any more."""
    LIMIT_PARTITIONS = "limit-partitions"
    """As many partitions as may have a step under way have one."""
    LIMIT_LEADER_MOVEMENTS = "limit-leader-movements"
    """As many steps as may move a leader are under way."""
    LIMIT_REPLICA_MOVEMENTS = "limit-replica-movements"
    """As many replicas as may be added are being added."""
    FALLING_BEHIND = "falling-behind"
    """More is written to it than is copied: like this it is never in sync."""
    CATCHING_UP = "catching-up"
    """Replicas that are being added are not in sync yet."""
    MIN_ISR = "min-isr"
    """Fewer than min ISR would be in sync without those that are removed."""
    ALL_TARGET = "all-target"
    """Replicas that stay are not in sync, and the rule wants all of them to be."""
    TURN = "turn"
    """Others go first."""

"""How far each replica has come, as its leader sees it."""

from dataclasses import dataclass

from quorum.core.vocabulary import Offset, ReplicaKey
from quorum.core.voters import Voter


@dataclass(slots=True)
class ReplicaProgress:
    """What the leader knows of one other replica; times are the leader's monotonic clock."""

    replica: ReplicaKey
    """As it names itself in its fetches."""
    voter: Voter | None = None
    """As whom it votes; None for an observer."""
    directory: int | None = None
    """The directory id that it has to have to be this voter; None where it is not known. A number,
    for it is compared at every fetch."""
    log_end: Offset | None = None
    """What its last fetch acknowledged as durable; None until it has fetched in this epoch."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    known_high_watermark: Offset | None = None
    """The high watermark that the last answer to it carried."""
    round: int = 0
    """The last round of reads that it has echoed."""
    round_told: int = 0
    """The round that the last answer to it carried."""
    _goal_of_last_fetch: Offset = Offset(0)

    def fetched(self, replica: ReplicaKey, log_end: Offset, goal: Offset, now_ms: int) -> None:
        """Note a fetch that acknowledges everything below `log_end`, when `goal` was the end.

        A replica has caught up now if it has reached today's goal, and had caught up at its last
        fetch if it has reached what was the goal then (Kafka's definition of the lag in time).
        """
        if log_end >= goal:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and log_end >= self._goal_of_last_fetch:
            self.last_caught_up_ms = self.last_fetch_ms
        self.replica = replica
        self.log_end = log_end
        self.last_fetch_ms = now_ms
        self._goal_of_last_fetch = goal

    def seen(self, goal: Offset, now_ms: int) -> None:
        """Note a fetch that acknowledges nothing, because the two logs have parted."""
        self.last_fetch_ms = now_ms
        self._goal_of_last_fetch = goal


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """One line of DescribeQuorum; times are monotonic ms of the leader, None while unknown."""

    replica: ReplicaKey
    log_end: Offset | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    is_voter: bool
    is_leader: bool

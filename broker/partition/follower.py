"""The follower's state of a partition, and where its log diverges from the leader's. Pure."""

from dataclasses import dataclass

from broker.partition.assignment import Assignment
from quorum.core.raft_log import LeaderEpochCache
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.protocol.errors import ErrorCode
from statemachine.vocabulary import NO_EPOCH, BrokerId


def epoch_refusal(asked: int, current: int) -> ErrorCode | None:
    """The reason to refuse a request for leader epoch `asked` in epoch `current` (KIP-320), or
    None. With NO_EPOCH the sender does not know it or skips the check."""
    if asked in (NO_EPOCH, current):
        return None
    return ErrorCode.FENCED_LEADER_EPOCH if asked < current else ErrorCode.UNKNOWN_LEADER_EPOCH


@dataclass(slots=True)
class FollowerState:
    """The follower's state: its leader and its high watermark.

    The high watermark only rises within one leader epoch.
    """

    assignment: Assignment
    high_watermark: int
    lag: int | None = None
    """Offsets missing below the leader's high watermark at the last response; None before the first
    one of this leader epoch."""

    def learn(self, leader_high_watermark: int, log_end: int) -> None:
        """Apply the leader's high watermark, as far as this log reaches."""
        self.high_watermark = max(self.high_watermark, min(leader_high_watermark, log_end))
        self.lag = max(0, leader_high_watermark - log_end)

    def is_in_sync(self, me: BrokerId) -> bool:
        """Return whether `me` is in the ISR or has caught up and is about to join."""
        return self.lag == 0 or me in self.assignment.isr

    def truncated(self, end: int) -> None:
        """Lower the high watermark after a truncation: an unclean election may cut below it."""
        self.high_watermark = min(self.high_watermark, end)


def divergence(
    history: LeaderEpochCache, log_end: int, *, last_fetched_epoch: int, fetch_offset: int
) -> OffsetAndEpoch | None:
    """The point where a follower's log diverges from the leader's, or None if it is a prefix.

    A follower that names no epoch (-1) has an empty log or is too old to say; then only its offset
    is checked, by the caller.
    """
    if last_fetched_epoch < 0:
        return None
    here = history.end_of(Epoch(last_fetched_epoch), Offset(log_end))
    if here.epoch == last_fetched_epoch and here.offset >= fetch_offset:
        return None
    return here

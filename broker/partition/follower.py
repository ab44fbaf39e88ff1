"""The follower's state of a partition, and where its log diverges from the leader's. Pure."""

from dataclasses import dataclass
from typing import Final

from broker.partition.assignment import Assignment, Refusal
from quorum.core.epoch_history import EpochHistory, truncation_point
from quorum.core.vocabulary import Epoch, LogEnd, Offset
from statemachine.vocabulary import BrokerId

NO_LEADER_EPOCH: Final = -1
"""The leader epoch of a request whose sender does not know it, or does not care."""


def epoch_refusal(asked: int, current: int) -> Refusal | None:
    """Why a request that names leader epoch `asked` is refused in epoch `current` (KIP-320)."""
    if asked in (NO_LEADER_EPOCH, current):
        return None
    return Refusal.FENCED_LEADER_EPOCH if asked < current else Refusal.UNKNOWN_LEADER_EPOCH


@dataclass(slots=True)
class FollowerState:
    """A follower's side: whom it copies, and what it knows to be committed.

    The high watermark only rises while one leader epoch lasts.
    """

    assignment: Assignment
    high_watermark: int
    lag: int | None = None
    """How much of what was committed was missing here at the last answer; None before there was
    one of this leader epoch."""

    @property
    def leader(self) -> BrokerId:
        return self.assignment.leader

    @property
    def leader_epoch(self) -> int:
        return self.assignment.leader_epoch

    def learn(self, leader_high_watermark: int, log_end: int) -> None:
        """Take in the leader's high watermark; only what is here counts as committed here."""
        self.high_watermark = max(self.high_watermark, min(leader_high_watermark, log_end))
        self.lag = max(0, leader_high_watermark - log_end)

    def is_in_sync(self, me: BrokerId) -> bool:
        """Whether `me` is in the ISR, or has caught up and is about to join it."""
        return self.lag == 0 or me in self.assignment.isr

    def truncated(self, end: int) -> None:
        """The log was cut: after an unclean election even below what was thought committed."""
        self.high_watermark = min(self.high_watermark, end)


def truncation_offset(
    history: EpochHistory, log_end: int, diverging_epoch: int, end_offset: int
) -> int:
    """Where a follower cuts its log when the leader says that the two logs part.

    `end_offset` is where the leader's log ends `diverging_epoch`, its largest epoch that is not
    above the one asked about (KIP-320, `DivergingEpoch` of Fetch).
    """
    diverging = LogEnd(Epoch(diverging_epoch), Offset(end_offset))
    return truncation_point(history, Offset(log_end), diverging)


def divergence(
    history: EpochHistory, log_end: int, *, last_fetched_epoch: int, fetch_offset: int
) -> LogEnd | None:
    """Where the log of a follower parts from the leader's, or None if it is a prefix of it.

    A follower that names no epoch (-1) has an empty log, or is too old to say: only its offset is
    looked at then, elsewhere.
    """
    if last_fetched_epoch < 0:
        return None
    here = history.end_of(Epoch(last_fetched_epoch), Offset(log_end))
    if here.epoch == last_fetched_epoch and here.offset >= fetch_offset:
        return None
    return here

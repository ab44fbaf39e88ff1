"""One partition as the replicas that hold it see it: the assignment, and the follower's side.

Pure: no asyncio, clock, file, socket or log. Offsets, epochs and times come in as numbers, and
what is to be done comes out as values. The leader's side, with the in-sync replicas and the high
watermark, is in `broker.leading`; here is what both sides share and what a follower has to know.
The simulation runs these very classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from quorum.core.epoch_history import EpochHistory, truncation_point
from quorum.core.vocabulary import Epoch, LogEnd, Offset
from statemachine.vocabulary import NO_LEADER, RECOVERED, BrokerId, Replicas

LiveEpochs: TypeAlias = Mapping[BrokerId, int]
"""Broker epoch of each broker that the metadata shows as neither fenced nor stopping."""

NO_LEADER_EPOCH: Final = -1
"""The leader epoch of a request whose sender does not know it, or does not care."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the metadata says of one partition, as far as its replicas care.

    Invariant: the leader is in the ISR or there is none, and the ISR is part of the replicas.
    """

    replicas: Replicas
    isr: Replicas
    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    min_isr: int = 1
    """Effective: never more than the replicas that the partition is meant to have."""
    recovery: int = RECOVERED
    """RECOVERING from an unclean election until the leader says that it has (KIP-704)."""

    def __post_init__(self) -> None:
        assert self.leader == NO_LEADER or self.leader in self.isr, f"{self}"
        assert set(self.isr) <= set(self.replicas), f"{self}"
        assert self.min_isr >= 1, f"{self}"

    def __str__(self) -> str:
        who = "no leader" if self.leader == NO_LEADER else f"leader {self.leader}"
        return (
            f"replicas {list(self.replicas)}, ISR {list(self.isr)}, {who}, leader epoch "
            f"{self.leader_epoch}, partition epoch {self.partition_epoch}"
        )


class Refusal(Enum):
    """Why a replica does not do what it is asked, with Kafka's error code."""

    code: int
    meaning: str

    OFFSET_OUT_OF_RANGE = 1, "the offset is not within the log"
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker holds no such partition"
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead the partition"
    REQUEST_TIMED_OUT = 7, "the followers did not confirm in time"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas asks for"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "fewer replicas than asked for were left in sync"
    KAFKA_STORAGE_ERROR = 56, "the log cannot be read or written"
    FENCED_LEADER_EPOCH = 74, "the leader epoch of the request is over"
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch of the request is not known here yet"
    STALE_BROKER_EPOCH = 77, "a newer incarnation of this follower is registered"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know yet what is committed"
    INCONSISTENT_TOPIC_ID = 103, "the partition belongs to a topic of another id"

    def __init__(self, code: int, meaning: str) -> None:
        self.code = code
        self.meaning = meaning


def epoch_refusal(asked: int, current: int) -> Refusal | None:
    """Why a request that names leader epoch `asked` is refused in epoch `current` (KIP-320)."""
    if asked in (NO_LEADER_EPOCH, current):
        return None
    return Refusal.FENCED_LEADER_EPOCH if asked < current else Refusal.UNKNOWN_LEADER_EPOCH


@dataclass(slots=True)
class Following:
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


def cut_for(history: EpochHistory, log_end: int, diverging_epoch: int, end_offset: int) -> int:
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

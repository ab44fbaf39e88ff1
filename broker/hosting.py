"""What a partition says and is told, as types: its key, its settings, its host. Values only."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from broker.leading import Proposal
from broker.replica import LiveEpochs, Refusal
from broker.throttling import NOTHING, Throttled
from quorum.core.vocabulary import LogEnd
from statemachine.vocabulary import BrokerId

if TYPE_CHECKING:
    from broker.partition import Partition

Waiter: TypeAlias = Callable[[Refusal | None], None]
"""Told once: None, or why what it waits for will not be confirmed."""


class PartitionKey(NamedTuple):
    """A partition as the metadata log names it."""

    topic_id: UUID
    number: int


class TopicSettings(NamedTuple):
    """What the configuration of a topic means for the partitions of a broker."""

    message_bytes_max: int
    is_append_time: bool = False
    """Whether the leader's clock, not the producer's, stamps the records."""
    leader_throttled: Throttled = NOTHING
    """The partitions that this broker, where it leads them, gives followers at a limited rate."""
    follower_throttled: Throttled = NOTHING
    """The partitions that this broker, where it follows, copies at a limited rate."""


class Appended(NamedTuple):
    """Where a producer's batch lies."""

    base_offset: int
    end_offset: int
    append_time_ms: int = -1


class Fetched(NamedTuple):
    """What a leader says to a follower's fetch: go on, or where the two logs part."""

    diverging: LogEnd | None


class Host(Protocol):
    """The broker around a partition."""

    broker_id: BrokerId
    replica_lag_time_max_ms: int

    @property
    def broker_epoch(self) -> int | None:
        """Of the registration in force; None before there is one."""
        ...

    @property
    def live(self) -> LiveEpochs: ...

    def now_ms(self) -> int: ...

    def grew(self, partition: "Partition") -> None:
        """There is more to write, and more for followers to fetch."""
        ...

    def committed(self, partition: "Partition") -> None:
        """The high watermark rose: there is more for consumers to read."""
        ...

    def proposed(self, partition: "Partition", proposal: Proposal) -> None:
        """The controller is to be asked for this ISR."""
        ...

    def moved(self, partition: "Partition") -> None:
        """The part it plays has changed: whoever waits for it must look again."""
        ...

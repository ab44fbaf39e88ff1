"""The bounds and time-outs of the quorum, and the constraints between them.

Names and defaults of the time-outs are Kafka's (`quorum.*`), see KIP-595 "Configurations".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FETCH_WAIT_MS_MAX: Final = 500
"""The longest time that a leader parks a fetch without records."""

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of records in one answer; a larger batch is sent alone."""

SNAPSHOT_CHUNK_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a snapshot in one answer (Kafka's quorum.fetch.snapshot.max.bytes)."""

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
BATCH_RECORDS_MAX: Final = 10_000
"""Kafka's limit of records in one atomic append of the controller."""

OBSERVERS_MAX: Final = 4_096
"""Observers that a leader remembers."""

UNCOMMITTED_RECORDS_MAX: Final = 400_000

VOTERS_MAX: Final = 100
"""Voters that a request may name. Kafka has no limit; more than seven are seldom wise."""

LOCATED_MAX: Final = OBSERVERS_MAX
"""Replicas whose endpoints a node remembers; beyond this it forgets the oldest entry."""

FAILOVER_WAIT_MS_MAX: Final = 100
"""The upper bound of the random wait before a voter without a leader asks for pre-votes, and the
time for which it gives way to another voter that asks first."""

EPOCH_MAX: Final = 2**31 - 1
"""The last epoch: the wire and `quorum-state` have 31 bits for it. Nobody stands in a later one."""

EPOCH_LEAP_MAX: Final = 1 << 24
"""Epochs that other voters may add to this node's in one go. A voter that stands once a second,
unheard, takes half a year to get there."""

EPOCH_LEAP_REFILL_MS: Final = 5
"""The time after which voters may add one epoch more, once they have used up `EPOCH_LEAP_MAX`:
to use up all epochs takes 128 days."""

STRANGER_EPOCH_LEAP_MAX: Final = 1 << 20
"""The same for replicas that the log does not name as voters."""

STRANGER_EPOCH_LEAP_REFILL_MS: Final = 100

SEGMENT_BYTES_MAX: Final = 1024 * 1024 * 1024
PORT_MAX: Final = 65_535

# A batch, and an answer full of records, must fit in a frame with room for their headers.
assert BATCH_BYTES_MAX + 64 * 1024 <= FRAME_BYTES_MAX
assert SNAPSHOT_CHUNK_BYTES_MAX + 64 * 1024 <= FRAME_BYTES_MAX
assert FETCH_BYTES_MAX + 64 * 1024 <= FRAME_BYTES_MAX


def require_positive(limits: object, names: Iterable[str], unit: str = "") -> None:
    """Raise `ValueError` if one of these fields is below 1."""
    for name in names:
        if getattr(limits, name) < 1:
            raise ValueError(f"{name} must be at least 1{unit}, not {getattr(limits, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds on what one replica queues or remembers for clients."""

    uncommitted_records: int = UNCOMMITTED_RECORDS_MAX
    """Records a leader appends beyond its high watermark before it refuses further proposals."""

    uncommitted_bytes: int = 128 * 1024 * 1024
    """The same in bytes; the last accepted batch may exceed it."""

    parked_fetches: int = 2_048
    """Fetches a leader keeps waiting; a further one is answered at once, without records."""

    observers: int = OBSERVERS_MAX
    """Observers a leader remembers for DescribeQuorum; it forgets the longest silent first."""

    reads: int = 100_000
    """Linearizable reads that wait at one replica; a further one is refused."""

    voter_requests: int = 100
    """Requests for other voters that wait at a leader; a further one is refused."""

    transfer_askers: int = 100
    """Requests that wait for one transfer of the lead; a further one is refused."""

    def __post_init__(self) -> None:
        require_positive(self, self.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The times of one quorum, in milliseconds; every voter should have the same."""

    election_timeout_ms: int = 1_000
    """A voter without a leader stands after a random time in [t, 2t)."""

    election_backoff_ms_max: int = 1_000
    """The random wait after a lost election; its range doubles from 1/16 of this up to this."""

    fetch_timeout_ms: int = 2_000
    """A follower whose fetches fail for this long stands; a leader expects fetches of a majority
    within it."""

    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    retry_backoff_ms_max: int = 1_000

    fetch_wait_ms: int = FETCH_WAIT_MS_MAX

    observer_linger_ms: int = 25
    """The longest pause between two answers to observers that follow the log closely."""

    def __post_init__(self) -> None:
        positive = [each for each in self.__slots__ if each != "observer_linger_ms"]
        require_positive(self, positive, " ms")
        if not 0 <= self.observer_linger_ms <= FETCH_WAIT_MS_MAX:
            raise ValueError(
                f"observer_linger_ms must be from 0 to {FETCH_WAIT_MS_MAX} ms, "
                f"not {self.observer_linger_ms}"
            )
        # A follower must get several chances to fetch before it gives up on the leader.
        if 3 * self.fetch_wait_ms > self.fetch_timeout_ms:
            raise ValueError(
                f"fetch_timeout_ms ({self.fetch_timeout_ms}) must be at least three times "
                f"fetch_wait_ms ({self.fetch_wait_ms}), or idle followers would stand"
            )
        # A fetch that the leader parks must not look like a lost one.
        if self.fetch_wait_ms >= self.request_timeout_ms:
            raise ValueError(
                f"request_timeout_ms ({self.request_timeout_ms}) must be above "
                f"fetch_wait_ms ({self.fetch_wait_ms}), or parked fetches would be given up"
            )

    @property
    def check_quorum_ms(self) -> int:
        """The time without fetches from a majority after which a leader resigns (KIP-595)."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def doubt_interval_ms(self) -> int:
        """The interval at which a leader in doubt asks other nodes for a newer epoch."""
        return max(1, self.fetch_timeout_ms // 16)

    @property
    def search_pause_ms_max(self) -> int:
        """The longest pause in the search for a leader if voters are known.

        It is as short as an election: a voter may know the new leader at any moment.
        """
        patience_ms = max(self.retry_backoff_ms, self.election_timeout_ms // 8)
        return min(self.retry_backoff_ms_max, patience_ms)

    @property
    def search_patience_ms(self) -> int:
        """The time to wait for an answer in that search before the next node is asked too."""
        return max(1, self.election_timeout_ms // 4)

    @property
    def fetch_jitter_ms_max(self) -> int:
        """The upper bound of the random part of the fetch time-out, so that two followers of one
        dead leader do not stand in the same instant and split the votes."""
        return self.fetch_timeout_ms // 4

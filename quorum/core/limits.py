"""Every bound and time-out of the quorum with its unit, and how they depend on each other.

Names and defaults of the time-outs are Kafka's (`quorum.*`), see KIP-595 "Configurations".
"""

from dataclasses import dataclass
from typing import Final

FETCH_WAIT_MS_MAX: Final = 500
"""The longest time that a leader parks a fetch that finds no records."""

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of records in one answer; one batch that is larger goes out alone."""

SNAPSHOT_CHUNK_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a snapshot in one answer (Kafka's quorum.fetch.snapshot.max.bytes)."""

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
BATCH_RECORDS_MAX: Final = 10_000
"""Kafka's limit of records in one atomic append of its controller."""

OBSERVERS_MAX: Final = 4_096
"""Observers that are remembered."""

UNCOMMITTED_RECORDS_MAX: Final = 400_000

VOTERS_MAX: Final = 100
"""Voters that a request may name. Kafka has no limit; more than seven are seldom wise."""

LOCATED_MAX: Final = OBSERVERS_MAX
"""Replicas of which a node remembers where they listen; beyond it the first is forgotten."""

FAILOVER_WAIT_MS_MAX: Final = 100
"""The upper bound of the random wait before a voter that has lost its leader asks for pre-votes,
and the time for which it gives way to another one that asks first."""

SEGMENT_BYTES_MAX: Final = 1024 * 1024 * 1024

# A batch, and an answer full of records, must fit in a frame with room for their headers.
assert BATCH_BYTES_MAX + 64 * 1024 <= FRAME_BYTES_MAX
assert SNAPSHOT_CHUNK_BYTES_MAX + 64 * 1024 <= FRAME_BYTES_MAX
assert FETCH_BYTES_MAX + 64 * 1024 <= FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds on what one replica queues or remembers for clients."""

    uncommitted_records: int = UNCOMMITTED_RECORDS_MAX
    """Records a leader appends beyond its high watermark before it refuses further proposals."""

    uncommitted_bytes: int = 128 * 1024 * 1024
    """Bytes of such records after which it refuses them, however few they are; the last batch that
    it takes may go beyond."""

    parked_fetches: int = 2_048
    """Fetches a leader keeps waiting; a further one is answered at once, without records."""

    observers: int = OBSERVERS_MAX
    """Observers a leader remembers for DescribeQuorum; then the longest silent is forgotten."""

    reads: int = 100_000
    """Linearizable reads that wait at one replica; a further one is refused."""

    voter_requests: int = 100
    """Requests for other voters that wait at a leader; a further one is refused."""

    transfer_askers: int = 100
    """Requests for the same transfer of the lead that wait for it; a further one is refused."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The times of one quorum, in milliseconds; every voter should have the same."""

    election_timeout_ms: int = 1_000
    """A voter without a leader stands after a random time in [t, 2t)."""

    election_backoff_ms_max: int = 1_000
    """After a lost election: a random wait, doubling from 1/16 of this up to this."""

    fetch_timeout_ms: int = 2_000
    """A follower without a good fetch stands; a leader checks that a majority fetches."""

    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    retry_backoff_ms_max: int = 1_000

    fetch_wait_ms: int = FETCH_WAIT_MS_MAX

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1 ms, not {getattr(self, name)}")
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
        """A leader that a majority has not fetched from for this long resigns (KIP-595)."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def doubt_interval_ms(self) -> int:
        """The interval at which a leader in doubt asks other nodes for a newer epoch."""
        return max(1, self.fetch_timeout_ms // 16)

    @property
    def search_pause_ms_max(self) -> int:
        """The longest pause of a node that looks for a leader and knows voters to ask.

        As short as elections are: a voter may know of one at any moment, and what waits for that
        node waits too.
        """
        patience_ms = max(self.retry_backoff_ms, self.election_timeout_ms // 8)
        return min(self.retry_backoff_ms_max, patience_ms)

    @property
    def search_patience_ms(self) -> int:
        """The time that such a node waits for one answer before it asks the next one as well."""
        return max(1, self.election_timeout_ms // 4)

    @property
    def fetch_jitter_ms_max(self) -> int:
        """Added at random to the fetch time-out, so that two followers of one dead leader,
        woken by the same last answer, do not stand in the same instant and split the vote."""
        return self.fetch_timeout_ms // 4

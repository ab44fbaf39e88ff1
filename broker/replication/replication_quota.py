"""Replication quotas (KIP-73): the bytes that throttled partitions may copy now.

A leader limits what it sends, a follower what it requests; each side has one token bucket for all
its throttled partitions. In-sync replicas neither wait nor count, so a throttle never shrinks an
ISR. Pure: times come in as milliseconds of one monotonic clock.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from statemachine.configs.definitions import WHOLE_NUMBER, parts
from statemachine.reassignment.throttle import ALL_REPLICAS, FOLLOWER_RATE, LEADER_RATE
from statemachine.vocabulary import BrokerId

BURST_MS: Final = 1_000
"""A bucket that was left alone holds what its rate gives in this time."""
WAIT_MS_MAX: Final = 1_000
"""After this at the latest one looks again; a rate of 0 gives nothing, however long one waits."""

_MS_PER_S: Final = 1_000


class TokenBucket:
    """Lets bytes pass at a rate, with a burst of `BURST_MS` after a quiet time.

    Whoever finds it not empty may take more than is in it: a batch is never cut, and an answer is
    known only when it has come. The debt is paid before anything else passes. So up to any time no
    more has passed than rate x time, one burst, and what was last taken.
    """

    __slots__ = ("_left", "_since_ms", "rate_bytes_per_s")

    def __init__(self) -> None:
        self.rate_bytes_per_s: int | None = None
        """None: everything passes."""
        self._left = 0
        """In thousandths of a byte, so that whole numbers are exact."""
        self._since_ms = 0

    def limit(self, rate_bytes_per_s: int | None, now_ms: int) -> bool:
        """From now on this rate; returns whether it is another one. A debt is forgotten with it."""
        if rate_bytes_per_s == self.rate_bytes_per_s:
            return False
        self.rate_bytes_per_s = rate_bytes_per_s
        self._left = (rate_bytes_per_s or 0) * BURST_MS
        self._since_ms = now_ms
        return True

    def take(self, size_bytes: int, now_ms: int) -> None:
        """So many bytes have passed."""
        if self.rate_bytes_per_s is not None:
            self._fill(self.rate_bytes_per_s, now_ms)
            self._left -= size_bytes * _MS_PER_S

    def room_bytes(self, now_ms: int) -> int | None:
        """How many bytes it holds, at least 0; None if there is no limit."""
        if self.rate_bytes_per_s is None:
            return None
        self._fill(self.rate_bytes_per_s, now_ms)
        return max(0, -(-self._left // _MS_PER_S))

    def wait_ms(self, now_ms: int) -> int:
        """0 if something may pass now, else after how long to ask again, in ms."""
        rate = self.rate_bytes_per_s
        if rate is None:
            return 0
        self._fill(rate, now_ms)
        if self._left > 0:
            return 0
        return min(WAIT_MS_MAX, 1 - self._left // rate) if rate else WAIT_MS_MAX

    def _fill(self, rate: int, now_ms: int) -> None:
        full = rate * BURST_MS
        self._left = min(full, self._left + rate * (now_ms - self._since_ms))
        self._since_ms = now_ms


class ThrottledPartitions(NamedTuple):
    """The partitions of one topic that one broker throttles on one side."""

    is_all: bool
    numbers: frozenset[int]

    def __contains__(self, number: object) -> bool:
        return self.is_all or number in self.numbers


NOTHING: Final = ThrottledPartitions(is_all=False, numbers=frozenset())
_EVERYTHING: Final = ThrottledPartitions(is_all=True, numbers=frozenset())


@lru_cache(maxsize=64)
def throttled_partitions(value: str, broker_id: BrokerId) -> ThrottledPartitions:
    """What `*.replication.throttled.replicas` of a topic says to this broker.

    `*`, or partition:broker pairs; a pair that cannot be read says nothing.
    """
    found = parts(value)
    if found == [ALL_REPLICAS]:
        return _EVERYTHING
    suffix = f":{broker_id}"
    mine = (each.removesuffix(suffix) for each in found if each.endswith(suffix))
    numbers = frozenset(int(each) for each in mine if each.isdecimal())
    return ThrottledPartitions(is_all=False, numbers=numbers) if numbers else NOTHING


def rate_of(name: str, configs: Iterable[Mapping[str, str]]) -> int | None:
    """The rate in bytes a second, from the first of these that sets it; None: no limit.

    What does not parse counts as not set.
    """
    for each in configs:
        value = each.get(name, "").strip()
        if WHOLE_NUMBER.fullmatch(value) and int(value) >= 0:
            return int(value)
    return None


class ReplicationQuotas:
    """The two buckets of one broker."""

    __slots__ = ("follower", "leader")

    def __init__(self) -> None:
        self.leader = TokenBucket()
        self.follower = TokenBucket()

    def configure(self, own: Mapping[str, str], shared: Mapping[str, str], now_ms: int) -> None:
        """Take the rates of the broker's own configurations, else of those of all brokers."""
        self.leader.limit(rate_of(LEADER_RATE, (own, shared)), now_ms)
        self.follower.limit(rate_of(FOLLOWER_RATE, (own, shared)), now_ms)

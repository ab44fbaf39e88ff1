"""Replication quotas (KIP-73): the bytes that throttled partitions may copy now.

A leader limits what it sends, a follower what it requests; each side has one token bucket for all
its throttled partitions. In-sync replicas neither wait nor count, so a throttle never shrinks an
ISR. Pure: times come in as milliseconds of one monotonic clock.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from statemachine.configs.definitions import WHOLE_NUMBER
from statemachine.reassignment.throttle import FOLLOWER_RATE, LEADER_RATE

BURST_MS: Final = 1_000
"""The burst of an idle bucket: what its rate yields in this time."""
WAIT_MS_MAX: Final = 1_000
"""The longest wait before looking again; a rate of 0 yields nothing."""

_MS_PER_S: Final = 1_000


class TokenBucket:
    """A token bucket with a burst of `BURST_MS`.

    If the bucket is not empty, a caller may take more than it holds, because a batch is never cut
    and the size of a response is known only on arrival. The debt is paid before anything else
    passes. Up to any time, the bytes that passed are at most rate x time, one burst, and the last
    take.
    """

    __slots__ = ("_left", "_since_ms", "rate_bytes_per_s")

    def __init__(self) -> None:
        self.rate_bytes_per_s: int | None = None
        """None: no limit."""
        self._left = 0
        """In thousandths of a byte, to stay exact with integers."""
        self._since_ms = 0

    def limit(self, rate_bytes_per_s: int | None, now_ms: int) -> bool:
        """Set the rate; return whether it changed. A change forgets the debt."""
        if rate_bytes_per_s == self.rate_bytes_per_s:
            return False
        self.rate_bytes_per_s = rate_bytes_per_s
        self._left = (rate_bytes_per_s or 0) * BURST_MS
        self._since_ms = now_ms
        return True

    @property
    def burst_bytes(self) -> int | None:
        """The bytes of a full bucket; None if there is no limit."""
        rate = self.rate_bytes_per_s
        return None if rate is None else rate * BURST_MS // _MS_PER_S

    def take(self, size_bytes: int, now_ms: int) -> None:
        """Take bytes from the bucket."""
        if self.rate_bytes_per_s is not None:
            self._fill(self.rate_bytes_per_s, now_ms)
            self._left -= size_bytes * _MS_PER_S

    def available_bytes(self, now_ms: int) -> int | None:
        """The available bytes, at least 0; None if there is no limit."""
        if self.rate_bytes_per_s is None:
            return None
        self._fill(self.rate_bytes_per_s, now_ms)
        return max(0, -(-self._left // _MS_PER_S))

    def wait_ms(self, now_ms: int) -> int:
        """0 if bytes may pass now, else the ms to wait."""
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


def rate_of(name: str, configs: Iterable[Mapping[str, str]]) -> int | None:
    """The rate in bytes per second from the first mapping that sets it; None means no limit.

    An invalid value counts as not set.
    """
    for each in configs:
        value = each.get(name, "").strip()
        if WHOLE_NUMBER.fullmatch(value) and int(value) >= 0:
            return int(value)
    return None


class ReplicationQuotas:
    """The two token buckets of one broker."""

    __slots__ = ("follower", "leader")

    def __init__(self) -> None:
        self.leader = TokenBucket()
        self.follower = TokenBucket()

    def configure(self, own: Mapping[str, str], shared: Mapping[str, str], now_ms: int) -> None:
        """Set the rates from the broker's own configuration, else from the cluster default."""
        self.leader.limit(rate_of(LEADER_RATE, (own, shared)), now_ms)
        self.follower.limit(rate_of(FOLLOWER_RATE, (own, shared)), now_ms)

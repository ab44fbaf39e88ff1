"""The limits of the HTTP listener, and the accounts that keep them.

A stranger can reach the listener, so everything that a client may take has a bound: connections,
time, and the memory of requests that are not finished. No account does I/O.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from quorum.core.limits import require_positive

PLAN_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size of a plan, in a file or in a body."""
SMALL_BYTES: Final = 64 * 1024
"""The part of a body or a response that is not charged to a budget: the limit of connections bounds
it. So large plans, as many as there are, never get a small request refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one HTTP listener."""

    connections_max: int = 256
    """Connections in total, TLS handshakes included; a further one is closed at once."""

    connections_max_per_ip: int = 64

    streams_max: int = 2_000
    """Event streams, which are not among those connections: a stream lasts as long as a page is
    open. Each takes a file descriptor and some 60 KB."""

    streams_max_per_ip: int = 200

    handshake_ms: int = 10_000
    """The time for a TLS handshake."""

    idle_ms: int = 15_000
    """The time for the request line and the headers, from the end of the request before."""

    body_ms: int = 30_000
    """The time for a body to arrive, from the end of the headers."""

    response_ms: int = 30_000
    """The time for a client to read a response, besides the time that its size allows for."""

    response_bytes_per_s_min: int = 256 * 1024
    """The rate at which a client has to read a long response."""

    headers_max: int = 64
    header_bytes_max: int = 8_190

    body_bytes_max: int = 1024 * 1024
    """The size of a body that lists no partitions."""

    plan_bytes_max: int = PLAN_BYTES_MAX
    """The size of a body that lists partitions."""

    elements_max: int = 8_000_000
    """Commas and opening brackets in a body. Three bytes can be a list of 56 in memory, and the
    process stands while they are decoded; a plan of the largest size has one in eight bytes."""

    held_bytes_max_per_ip: int = PLAN_BYTES_MAX
    """The bodies of one address that are not finished: a plan of the largest size alone."""

    held_bytes_max: int = 2 * PLAN_BYTES_MAX
    """All bodies that are not finished; so one address leaves as much to the others. The same
    holds for all responses that are not read."""

    def __post_init__(self) -> None:
        require_positive(self, self.__slots__)


class Account:
    """Units of something that clients hold, bounded in total and for each address."""

    def __init__(self, maximum: int, maximum_per_ip: int) -> None:
        self._maximum = maximum
        self._maximum_per_ip = maximum_per_ip
        self._held: Counter[str] = Counter()
        self.total = 0

    def take(self, network: str, units: int, *, alone: bool = False) -> bool:
        """Take units if the limits allow it. With `alone`, the only holder is never refused."""
        if not units:
            return True
        held = self._held[network]
        if not (alone and held == 0) and held + units > self._maximum_per_ip:
            return False
        if not (alone and self.total == 0) and self.total + units > self._maximum:
            return False
        self._held[network] = held + units
        self.total += units
        return True

    def give_back(self, network: str, units: int) -> None:
        """Give back units that were taken."""
        if not units:
            return
        assert 0 <= units <= self._held[network]
        self.total -= units
        self._held[network] -= units
        if not self._held[network]:
            del self._held[network]


class Share:
    """The bytes that one request holds of an account, above those that are not charged."""

    def __init__(self, account: Account, network: str) -> None:
        self._account = account
        self._network = network
        self._bytes = 0
        self._charged = 0

    def grow(self, size_bytes: int, *, alone: bool = False) -> bool:
        """Hold further bytes; False if there is no room for them."""
        charged = max(0, self._bytes + size_bytes - SMALL_BYTES)
        if not self._account.take(self._network, charged - self._charged, alone=alone):
            return False
        self._bytes += size_bytes
        self._charged = charged
        return True

    def release(self) -> None:
        """Hold nothing any more."""
        self._account.give_back(self._network, self._charged)
        self._bytes = self._charged = 0

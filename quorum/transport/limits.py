"""The limits of listeners and channels; those of the quorum are in `quorum.core.limits`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from quorum.core.limits import FRAME_BYTES_MAX, require_positive
from quorum.protocol.request_limits import limits_of

LARGE_REQUEST_BYTES: Final = 16 * 1024
"""A request above this size needs room among all large requests of its listener before it is
read. All smaller ones together are bounded by the number of connections."""

READ_BYTES: Final = LARGE_REQUEST_BYTES
"""The bytes that one read takes from a connection, beyond those of a request that has its room: so
many are held outside of any room while the connection waits, unread."""
READ_BYTES_MAX: Final = 64 * 1024
"""The same of a large request that has room."""

SMALL_REQUESTS_BYTES_MAX: Final = 128 * 1024
"""Unanswered requests of one connection up to `LARGE_REQUEST_BYTES` each; beyond it, reading
pauses."""
REQUEST_OVERHEAD_BYTES: Final = 256
"""Counted for each of them beside its bytes."""

REPLACEABLE_SECONDS: Final = 10.0
"""A connection that has sent no request for this long gives way where there is no room for another
one; one that has never sent any, at once."""

CONNECTIONS_PER_ADDRESS_MAX: Final = 2_048
"""The default: half of what a listener takes, so that no address keeps all others out."""

TURN_NS: Final = 5_000_000
"""The time for which a listener hands on requests in one turn of the event loop."""
TURN_REQUESTS_MAX: Final = 128
"""The same in requests: what they cost may come later in the turn."""
TURN_REQUESTS_OF_CONNECTION_MAX: Final = 4
"""Requests of one connection in one turn, if others wait for theirs. A single request waits for so
many of each connection of a flood."""
TURN_REQUESTS_OF_FIRST_MAX: Final = 16
"""The same of a connection that is served first, which needs no turn for them."""

TLS_WRITE_BYTES: Final = 64 * 1024
"""The bytes that are encrypted at once for a peer; the next ones follow when they have left."""

UNREAD_MS_MAX: Final = 1_000
"""The longest time that a peer may leave much unread while the responses of all connections have no
more room."""
UNREAD_CHECK_MS: Final = 50
"""The time after which they are counted again."""

DESCRIPTORS_RESERVED: Final = 256
"""Of a node whose listener is its only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of one listener and of each of its connections."""

    connections_max: int = 4_096
    """Connections of one listener. A further one replaces an idle one of the address that has the
    most (`REPLACEABLE_SECONDS`), or is closed at once if there is none."""

    connections_per_address_max: int = CONNECTIONS_PER_ADDRESS_MAX
    """The same of one address (`max.connections.per.ip`)."""

    descriptors_reserved: int = DESCRIPTORS_RESERVED
    """File descriptors of the process that connections leave free, for files, for connections to
    others, and for other listeners; at most half of the limit of the process."""

    frame_bytes_max: int = FRAME_BYTES_MAX

    large_requests_bytes_max: int = 64 * 1024 * 1024
    """Bytes of all requests above `LARGE_REQUEST_BYTES` that have begun to come and are not
    answered; a connection with a further one is read again when there is room. One address gets
    half of it. Connections that are served first have as much again."""

    large_request_ms_max: int = 60_000
    """The time in which such a request must be whole."""

    requests_in_flight_max: int = 512
    """Unanswered requests of one connection; at this number reading pauses."""

    outgoing_bytes_pause: int = 1024 * 1024
    """Response bytes that wait for the peer to read them, above which reading pauses."""

    outgoing_bytes_max: int = 64 * 1024 * 1024
    """Response bytes that wait for the peer, above which a further response closes the connection.
    A single response may be larger."""

    unread_bytes_max: int = 256 * 1024 * 1024
    """Response bytes of all connections that wait for their peers. At this sum further requests
    wait, and peers that have left `outgoing_bytes_pause` unread for `UNREAD_MS_MAX` are closed, the
    longest first. At twice the sum, where requests were under way, a further response closes its
    connection. Connections that are served first have as much again, and do not wait."""

    stall_ms: int = 30_000
    """The longest time that a peer may leave more than `outgoing_bytes_pause` unread."""

    idle_ms: int = 10 * 60 * 1_000
    """The lifetime of an idle connection (`connections.max.idle.ms`)."""

    request_bytes_of: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Limits of single APIs, where those of this listener differ from `REQUEST_LIMITS`."""

    def __post_init__(self) -> None:
        numbers = [each for each in self.__slots__ if each != "request_bytes_of"]
        require_positive(self, numbers)
        # One address, and one request alone, must always find room in the end.
        if self.large_requests_bytes_max < 2 * self.frame_bytes_max:
            raise ValueError(
                f"large_requests_bytes_max ({self.large_requests_bytes_max}) must be at least "
                f"twice frame_bytes_max ({self.frame_bytes_max})"
            )
        if self.outgoing_bytes_pause > self.outgoing_bytes_max:
            raise ValueError(
                f"outgoing_bytes_pause ({self.outgoing_bytes_pause}) must not be above "
                f"outgoing_bytes_max ({self.outgoing_bytes_max}), or no peer is ever paused"
            )

    def bytes_max_of(self, api_key: int) -> int:
        """The limit of a request of this API, in bytes."""
        bytes_max = self.request_bytes_of.get(api_key)
        return limits_of(api_key).bytes_max if bytes_max is None else bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLimits:
    """The limits of one channel to another node, and its retry back-off."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    requests_in_flight_max: int = 1_024
    """Unanswered requests, sent or not; a further one fails."""

    outgoing_bytes_max: int = 32 * 1024 * 1024
    """Unsent bytes of requests; a request beyond them fails."""

    retry_backoff_ms: int = 20
    """The pause after a failed attempt to connect; doubles with each further failure (KIP-580)."""

    retry_backoff_ms_max: int = 1_000

    def __post_init__(self) -> None:
        require_positive(self, self.__slots__)
        if self.retry_backoff_ms > self.retry_backoff_ms_max:
            raise ValueError(
                f"retry_backoff_ms ({self.retry_backoff_ms}) must not be above "
                f"retry_backoff_ms_max ({self.retry_backoff_ms_max})"
            )

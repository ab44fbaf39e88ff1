"""The limits of listeners and channels; those of the quorum are in `quorum.core.limits`."""

from dataclasses import dataclass

from quorum.core.limits import FRAME_BYTES_MAX, require_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of one listener and of each of its connections."""

    connections_max: int = 4_096
    """Connections of one listener; a further one is closed at once."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    requests_in_flight_max: int = 512
    """Unanswered requests of one connection; at this number reading pauses."""

    outgoing_bytes_pause: int = 1024 * 1024
    """Response bytes that wait for the peer to read them, above which reading pauses."""

    outgoing_bytes_max: int = 64 * 1024 * 1024
    """Response bytes that wait for the peer, above which a further response closes the connection.
    A single response may be larger."""

    stall_ms: int = 30_000
    """The longest time that a peer may leave more than `outgoing_bytes_pause` unread."""

    idle_ms: int = 10 * 60 * 1_000
    """The lifetime of an idle connection (`connections.max.idle.ms`)."""

    def __post_init__(self) -> None:
        require_positive(self, self.__slots__)
        if self.outgoing_bytes_pause > self.outgoing_bytes_max:
            raise ValueError(
                f"outgoing_bytes_pause ({self.outgoing_bytes_pause}) must not be above "
                f"outgoing_bytes_max ({self.outgoing_bytes_max}), or no peer is ever paused"
            )


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

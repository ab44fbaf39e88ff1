"""The listener before the broker is ready: requests wait here until it is unfenced.

A broker must be reachable before it says where it listens, and has nothing to answer with before
it knows the metadata. What comes in between is kept in order, and handed on when the gate opens.
"""

from collections import deque

from broker.limits import HELD_REQUESTS_MAX
from quorum.transport.server import Handler, InboundRequest


class Gate:
    """A `Handler` that holds requests back until `open`, and from then on is not there."""

    def __init__(self) -> None:
        self._held: deque[InboundRequest] = deque()
        self._handler: Handler | None = None

    def __call__(self, request: InboundRequest) -> None:
        if self._handler is not None:
            self._handler(request)
        elif len(self._held) >= HELD_REQUESTS_MAX:
            request.reject(f"{HELD_REQUESTS_MAX} requests wait for this broker to start")
        else:
            self._held.append(request)

    def open(self, handler: Handler) -> None:
        """Hand on what has come, and everything from now on."""
        self._handler = handler
        while self._held:
            request = self._held.popleft()
            if not request.is_gone:
                handler(request)

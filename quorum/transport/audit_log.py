"""The audit log: one JSON object a line for each change, and for each request that is refused.

A line has the time, the requester (principal, address, listener, door), the request, the resource,
the outcome and the offset up to which the log contains the effect. Callers leave out secrets. Lines
about refusals are limited, because a stranger can cause them.
"""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from quorum.protocol.apis import api_name
from quorum.protocol.extension import Origin
from quorum.transport.inbound import InboundRequest

logger = logging.getLogger("audit")

QUIET_MS: Final = 10_000
"""The time for which a refusal of the same requester for the same reason is only counted."""
REFUSALS_MAX: Final = 256
"""Different refusals within that time; further ones share one line."""


@dataclass(frozen=True, slots=True)
class Requester:
    """The sender of a request: the original one, if a node forwarded it."""

    principal: str
    host: str = ""
    listener: str = ""
    door: Origin | None = None
    """None for the node itself."""
    request: str = ""
    """The name of the request."""


def requester_of(inbound: InboundRequest) -> Requester:
    """Return the sender of a request that has come to a Kafka listener."""
    return Requester(
        str(inbound.principal),
        inbound.client_host,
        inbound.listener,
        Origin.KAFKA,
        api_name(inbound.api_key),
    )


REQUESTER: Final[ContextVar[Requester | None]] = ContextVar("requester", default=None)
"""The requester on whose behalf the current task works."""


class Explained(Protocol):
    """A decision that can explain itself."""

    @property
    def reason(self) -> str: ...


_OTHERS: Final = ("", "", "", "")


class AuditLog:
    """Writes the lines of one node."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` returns milliseconds since 1970."""
        self._wall_clock = wall_clock
        # The time of each line, and the number of refusals since.
        self._said: dict[tuple[str, str, str, str], tuple[int, int]] = {}

    def carried_out(self, who: str, request: str, outcome: str, offset: int | None) -> None:
        """Note the outcome of a request of `who`, described in words."""
        requester = REQUESTER.get()
        if requester is None or requester.principal != who:
            requester = Requester(who)
        self._write(requester, request, None, outcome, offset, 0)

    def denied(self, requester: Requester, right: object, name: str, decision: Explained) -> None:
        """Note that a request is refused for want of a right on a resource."""
        now_ms = self._wall_clock()
        key = (requester.principal, requester.host, requester.request, str(right))
        if key not in self._said and not self._has_room(now_ms):
            key = _OTHERS
        said_ms, held_back = self._said.get(key, (now_ms - QUIET_MS, 0))
        if 0 <= now_ms - said_ms < QUIET_MS:
            self._said[key] = (said_ms, held_back + 1)
            return
        self._said[key] = (now_ms, 0)
        resource = f"{str(right).rpartition(' ')[2]} {name}"
        outcome = f"denied: {right} is needed; {decision.reason}"
        self._write(requester, requester.request, resource, outcome, None, held_back)

    def _has_room(self, now_ms: int) -> bool:
        if len(self._said) >= REFUSALS_MAX:
            self._said = {
                key: said for key, said in self._said.items() if now_ms - said[0] < QUIET_MS
            }
        return len(self._said) < REFUSALS_MAX

    def _write(
        self,
        requester: Requester,
        request: str,
        resource: str | None,
        outcome: str,
        offset: int | None,
        repeated: int,
    ) -> None:
        time = datetime.fromtimestamp(self._wall_clock() / 1_000, UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "principal": requester.principal,
            "host": requester.host,
            "listener": requester.listener,
            "door": requester.door or "",
            "request": request,
            "resource": resource,
            "outcome": outcome,
            "offset": offset,
        }
        if repeated:
            line["repeated"] = repeated
        logger.info("%s", msgspec.json.encode(line).decode())

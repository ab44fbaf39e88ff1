"""The audit log: one JSON object a line for each change, and for each request that is refused.

A line has the time, the requester (principal, address, listener, door), the request, the resource,
the outcome and the offset up to which the log contains the effect. Callers leave out secrets. What
takes effect always has a line; the lines about the rest are bounded, because a stranger can cause
them. Requests that only read have none.
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
from quorum.transport.refusal_log import Repetitions

logger = logging.getLogger("audit")

WITHOUT_EFFECT_MAX: Final = 10
"""Lines about requests of one kind without effect that a requester gets in `QUIET_MS`."""


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


def _requester(who: str) -> Requester:
    """Return the requester of the current task, if it works for `who`."""
    found = REQUESTER.get()
    return found if found is not None and found.principal == who else Requester(who)


class Explained(Protocol):
    """A decision that can explain itself."""

    @property
    def reason(self) -> str: ...


class AuditLog:
    """Writes the lines of one node."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` returns milliseconds since 1970."""
        self._wall_clock = wall_clock
        self._repetitions = Repetitions(wall_clock)

    def carried_out(self, who: str, request: str, outcome: str, offset: int | None) -> None:
        """Note a request of `who` that has, or may have, taken effect, and its outcome in words.

        The effect is in the log below `offset`, if that is known.
        """
        self._write(_requester(who), request, None, outcome, offset, 0)

    def without_effect(self, who: str, kind: str, request: str, outcome: str) -> None:
        """Note a request of `who` that has changed nothing; `kind` is what it is called."""
        requester = _requester(who)
        line = self._repetitions.line((who, requester.host, kind), WITHOUT_EFFECT_MAX)
        if line is not None:
            self._write(requester, request, None, outcome, None, line.repeated)

    def denied(self, requester: Requester, right: object, name: str, decision: Explained) -> None:
        """Note that a request is refused for want of a right on a resource."""
        key = (requester.principal, requester.host, requester.request, str(right))
        line = self._repetitions.line(key)
        if line is not None:
            resource = f"{str(right).rpartition(' ')[2]} {name}"
            outcome = f"denied: {right} is needed; {decision.reason}"
            self._write(requester, requester.request, resource, outcome, None, line.repeated)

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

"""The audit log: one JSON object a line for each change, and for each request that is refused.

A line has the time, the requester (principal, address, listener, door), the request, its actions
(operation and resource), the outcome as Kafka's error and the offset of the change. Callers leave
out secrets. What takes effect always has a line; the lines about the rest are bounded, because a
stranger can cause them. Requests that only read have none.
"""

import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self

import msgspec

from quorum.protocol.apis import api_name
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import Origin
from quorum.transport.inbound import InboundRequest
from quorum.transport.refusal_log import Repetitions

logger = logging.getLogger("audit")
# A level of its own: that of `root`, which may change, does not silence it.
logger.setLevel(logging.INFO)

ACTIONS_MAX: Final = 20
"""Actions in a line; further ones are counted in `more`."""
CHARACTERS_MAX: Final = 300
"""Characters of a resource, of a detail and of a reason; what goes beyond is cut off."""

WITHOUT_EFFECT_MAX: Final = 10
"""Lines about requests of one kind without effect that a requester gets in `QUIET_MS`."""


class Requester(msgspec.Struct, frozen=True):
    """The sender of a request: the original one, if a node forwarded it."""

    principal: str
    host: str = ""
    listener: str = ""
    door: Origin | None = None
    """None for the node itself."""
    request: str = ""
    """The name of the request."""
    detail: Callable[[str], str] | None = None
    """Returns what the request wants of a resource, for a line about its refusal."""


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


def _requester(who: str, kind: str) -> Requester:
    """Return the requester of the current task, or if it does not work for `who` one without an
    address, whose request is called `kind`."""
    found = REQUESTER.get()
    return found if found is not None and found.principal == who else Requester(who, request=kind)


class Explained(Protocol):
    """A decision that can explain itself."""

    @property
    def reason(self) -> str: ...


class Named(Protocol):
    """A constant with a name of Kafka's."""

    @property
    def name(self) -> str: ...


class AuditedRight(Protocol):
    """An operation on a type of resource."""

    @property
    def operation(self) -> Named: ...

    @property
    def error(self) -> Named: ...

    def resource(self, name: str) -> str:
        """Return the resource of this name with its type, like Topic:orders."""
        ...


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operation on a resource, by Kafka's names, like ALTER on Topic:orders."""

    operation: str
    resource: str
    detail: str = ""
    """What the resource does not say, such as the names of configurations or an ACL."""

    @classmethod
    def of(cls, right: AuditedRight, name: str, detail: str = "") -> Self:
        """Return the action that needs `right` on the resource of this name."""
        return cls(right.operation.name, _cut(right.resource(name)), _cut(detail))


class AuditLog:
    """Writes the lines of one node."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` returns milliseconds since 1970."""
        self._wall_clock = wall_clock
        self._repetitions = Repetitions(wall_clock)

    def carried_out(
        self,
        who: str,
        kind: str,
        actions: Sequence[Action],
        outcome: str,
        offset: int | None,
        *,
        reason: str = "",
        more: int = 0,
    ) -> None:
        """Note actions of `who` that have, or may have, taken effect, with one outcome.

        `kind` names the request unless the current task knows its name. `offset` is that of the
        last record of the change, if it is known. `more` counts actions that are not listed.
        """
        self._write(_requester(who, kind), actions, outcome, reason, offset, more=more)

    def without_effect(
        self,
        who: str,
        kind: str,
        actions: Sequence[Action],
        outcome: str,
        *,
        reason: str = "",
        more: int = 0,
    ) -> None:
        """Note actions of `who` that have changed nothing."""
        requester = _requester(who, kind)
        line = self._repetitions.line((who, requester.host, kind), WITHOUT_EFFECT_MAX)
        if line is not None:
            self._write(
                requester, actions, outcome, reason, None, more=more, repeated=line.repeated
            )

    def denied(
        self, requester: Requester, right: AuditedRight, name: str, decision: Explained
    ) -> None:
        """Note that a request is refused for want of a right on a resource."""
        key = (requester.principal, requester.host, requester.request, str(right))
        line = self._repetitions.line(key)
        if line is not None:
            wanted = requester.detail
            detail = "" if wanted is None else wanted(right.resource(name))
            action, outcome = Action.of(right, name, detail), right.error.name
            self._write(requester, [action], outcome, decision.reason, None, repeated=line.repeated)

    def unauthenticated(self, requester: Requester, reason: str) -> None:
        """Note that a request is refused because nobody has authenticated.

        An address gets one line in `QUIET_MS`, whatever it asks for.
        """
        line = self._repetitions.line(requester.host)
        if line is not None:
            error = ErrorCode.SASL_AUTHENTICATION_FAILED.name
            self._write(requester, [], error, reason, None, repeated=line.repeated)

    def _write(
        self,
        requester: Requester,
        actions: Sequence[Action],
        outcome: str,
        reason: str,
        offset: int | None,
        *,
        more: int = 0,
        repeated: int = 0,
    ) -> None:
        time = datetime.fromtimestamp(self._wall_clock() / 1_000, UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "principal": requester.principal,
            "host": requester.host,
            "listener": requester.listener,
            "door": requester.door or "",
            "request": requester.request,
            "actions": actions,
            "outcome": outcome,
            "offset": offset,
        }
        if reason:
            line["reason"] = _cut(reason)
        if more:
            line["more"] = more
        if repeated:
            line["repeated"] = repeated
        logger.info("%s", msgspec.json.encode(line).decode())


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."

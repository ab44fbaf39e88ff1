"""The caller of an HTTP request: its principal, and the role that limits what it may do."""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from msgspec import Struct

from admin.capabilities.needs import Needs, Role
from quorum.protocol.extension import Origin
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.audit_log import Requester

LISTENER: Final = "http"
"""The listener in the lines of the audit log."""


class NotAllowed(Exception):
    """A caller lacks what a request needs."""


class RoleTooLow(NotAllowed):
    """The role of a caller does not include what a request needs."""

    def __init__(self, caller: "Caller", requester: Requester, needs: Needs) -> None:
        self.requester = requester
        self.needs = needs
        has = f"token {caller.token} has the role {caller.role}"
        self.reason = f"{has}, and needs {needs.role}"
        super().__init__(f"{has}; {requester.request} needs the role {needs.role} ({needs})")


class Caller(Struct, frozen=True):
    """The sender of a request."""

    principal: KafkaPrincipal
    host: str = ""
    """The address that it comes from."""
    token: str = ""
    """The name of the bearer token; empty if the caller is known in another way."""
    role: Role | None = None
    """The role of the token; None is not limited by a role."""

    def requester(self, what: str, detail: Callable[[str], str] | None = None) -> Requester:
        """Return the caller as the sender of a request of this name."""
        return Requester(str(self.principal), self.host, LISTENER, Origin.HTTP, what, detail)

    def check(self, what: str, needs: Needs, detail: Callable[[str], str] | None = None) -> None:
        """Raise `RoleTooLow` unless the role includes what is needed."""
        if self.role is not None and not self.role.includes(needs.role):
            raise RoleTooLow(self, self.requester(what, detail), needs)


CALLER: Final = web.RequestKey("caller", Caller)
"""Set before a request is handled; a request without it is not answered."""

"""The caller of an HTTP request: its principal, and the role that limits what it may do."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from admin.capabilities.needs import Needs, Role
from quorum.protocol.principal import KafkaPrincipal


class NotAllowed(Exception):
    """The role of a caller does not include what a request needs."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    principal: KafkaPrincipal
    host: str = ""
    """The address that it comes from."""
    token: str = ""
    """The name of the bearer token; empty if the caller is known in another way."""
    role: Role | None = None
    """The role of the token; None is not limited by a role."""

    def check(self, what: str, needs: Needs) -> None:
        """Raise `NotAllowed` unless the role includes what is needed."""
        if self.role is not None and not self.role.includes(needs.role):
            raise NotAllowed(
                f"token {self.token} has the role {self.role}; {what} needs the role "
                f"{needs.role} ({needs})"
            )


CALLER: Final = web.RequestKey("caller", Caller)
"""Set before a request is handled; a request without it is not answered."""

"""Authorization on one node: its settings, the access of each requester, and remembered decisions.

A node without an authorizer has an `Authorization` that allows everything.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from statemachine.security.authorizer import CLUSTER_NAME, Authorizer, Decision, HasAcls, Rule
from statemachine.security.rights import CLUSTER_ACTION, UNLIMITED, Access, Right

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The authorizer of this project, by the name of Kafka's class with the same rules."""

CONNECTIONS_REMEMBERED_MAX: Final = 4_096
"""Connections whose right to CLUSTER_ACTION is remembered; beyond it all are decided again."""


class AuthorizerConfig(Struct, frozen=True, kw_only=True, gc=False):
    """The settings of a node's authorizer."""

    super_users: frozenset[str] = frozenset()
    """Principals like User:admin."""
    allow_if_no_acl: bool = False
    """`allow.everyone.if.no.acl.found`."""

    def authorizer(self, image: HasAcls, is_ready: Callable[[], bool]) -> Authorizer:
        """Return the authorizer over an image."""
        return Authorizer(
            image,
            super_users=self.super_users,
            allow_if_no_acl=self.allow_if_no_acl,
            is_ready=is_ready,
        )


class Asking(Protocol):
    """The requester, as far as the authorizer knows it."""

    @property
    def principal(self) -> str: ...

    @property
    def host(self) -> str: ...


R = TypeVar("R", bound=Asking)


class Authorization(Generic[R]):
    """The rights of all requesters of a node."""

    def __init__(
        self, authorizer: Authorizer | None, denied: Callable[[R, Right, str, Decision], None]
    ) -> None:
        """`denied` hears of each refusal: for the audit log."""
        self._authorizer = authorizer
        self._denied = denied
        self._acting: dict[int, object] = {}
        """The principals of connections that have CLUSTER_ACTION."""
        self._version: tuple[Any, int] | None = None

    @property
    def is_limited(self) -> bool:
        """True unless everybody may do everything."""
        return self._authorizer is not None

    @property
    def is_loaded(self) -> bool:
        """True once the ACLs are known; before that, only super users may do anything."""
        return self._authorizer is None or self._authorizer.is_ready

    def access(self, requester: R) -> Access:
        """Return the access of a requester."""
        if self._authorizer is None:
            return UNLIMITED
        denied = partial(self._denied, requester)
        return Access(self._authorizer, requester.principal, requester.host, denied)

    def may_act(
        self, connection_id: int, principal: object, requester: Callable[[], R]
    ) -> Rule | None:
        """Return None if this connection has CLUSTER_ACTION, or the rule that refuses it.

        Nodes ask all the time, so a grant is remembered until an ACL changes, or the connection
        proves another identity.
        """
        authorizer = self._authorizer
        if authorizer is None:
            return None
        index, version = authorizer.version
        if self._version is None or self._version[0] is not index or self._version[1] != version:
            self._version = index, version
            self._acting.clear()
        if self._acting.get(connection_id) is principal:
            return None
        asking = requester()
        operation, resource_type = CLUSTER_ACTION
        decision = authorizer.authorize(
            asking.principal, asking.host, operation, resource_type, CLUSTER_NAME
        )
        if not decision.allowed:
            self._denied(asking, CLUSTER_ACTION, CLUSTER_NAME, decision)
            return decision.rule
        if len(self._acting) >= CONNECTIONS_REMEMBERED_MAX:
            self._acting.clear()
        self._acting[connection_id] = principal
        return None

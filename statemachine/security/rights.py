"""The rights that requests need, and the check of a principal's rights.

A right is an operation on a type of resource, as in Kafka's ACLs. Each table of APIs, the
controllers' and the brokers', says with `Needs` what a request needs; the listener checks what the
whole request needs before its handler runs, and the handler checks the rest with `Access`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from statemachine import vocabulary
from statemachine.errors import Error
from statemachine.security.authorizer import (
    CLUSTER_NAME,
    OPERATIONS,
    Authorizer,
    Decision,
    Operation,
    ResourceType,
    Rule,
)


class Right(NamedTuple):
    """An operation on one resource of a type; on the cluster if none is named."""

    operation: Operation
    resource_type: ResourceType = ResourceType.CLUSTER

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.resource_type.name}"

    def resource(self, name: str) -> str:
        """Return the resource of this name with its type, as Kafka writes it: Topic:orders.

        The name of a user is a principal in ACLs and tokens, and has its type already.
        """
        if self.resource_type is ResourceType.USER and name.startswith("User:"):
            return name
        words = self.resource_type.name.split("_")
        return f"{''.join(map(str.capitalize, words))}:{name}"

    @property
    def error(self) -> Error:
        """The error of a request without this right."""
        return _ERRORS[self.resource_type]

    def refusal(self, principal: str, name: str) -> str:
        """Return the error message for a principal without this right on a resource."""
        return f"{_SENTENCES[self.resource_type]}: {principal} needs {self} {name}"


_ERRORS: Final = {
    ResourceType.TOPIC: Error.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Error.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Error.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

_SENTENCES: Final = {
    ResourceType.TOPIC: "Topic authorization failed",
    ResourceType.GROUP: "Group authorization failed",
    ResourceType.CLUSTER: "Cluster authorization failed",
    ResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed",
    ResourceType.DELEGATION_TOKEN: "Delegation Token authorization failed",
    ResourceType.USER: "Delegation Token authorization failed",
}
"""The beginning of the message, as Kafka words it."""

CLUSTER_ACTION: Final = Right(Operation.CLUSTER_ACTION)
ALTER_CLUSTER: Final = Right(Operation.ALTER)
DESCRIBE_CLUSTER: Final = Right(Operation.DESCRIBE)
CREATE_CLUSTER: Final = Right(Operation.CREATE)
DELETE_CLUSTER: Final = Right(Operation.DELETE)
ALTER_CLUSTER_CONFIGS: Final = Right(Operation.ALTER_CONFIGS)
DESCRIBE_CLUSTER_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS)
IDEMPOTENT_WRITE: Final = Right(Operation.IDEMPOTENT_WRITE)
READ_TOPIC: Final = Right(Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = Right(Operation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC: Final = Right(Operation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC: Final = Right(Operation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC: Final = Right(Operation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC)
ALTER_TOPIC_CONFIGS: Final = Right(Operation.ALTER_CONFIGS, ResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_GROUP_CONFIGS: Final = Right(Operation.ALTER_CONFIGS, ResourceType.GROUP)
DESCRIBE_GROUP_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP)
DESCRIBE_GROUP: Final = Right(Operation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_TRANSACTION: Final = Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
WRITE_TRANSACTION: Final = Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TOKEN: Final = Right(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
CREATE_TOKENS: Final = Right(Operation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS: Final = Right(Operation.DESCRIBE_TOKENS, ResourceType.USER)


def config_right(resource_type: int, name: str, *, alters: bool) -> tuple[Right, str]:
    """Return the right on the configurations of a resource, and the name of what it is on.

    `resource_type` is that of configurations. Kafka guards the configurations of brokers and client
    metrics by the cluster.
    """
    match resource_type:
        case vocabulary.TOPIC_RESOURCE:
            return (ALTER_TOPIC_CONFIGS if alters else DESCRIBE_TOPIC_CONFIGS), name
        case vocabulary.GROUP_RESOURCE:
            return (ALTER_GROUP_CONFIGS if alters else DESCRIBE_GROUP_CONFIGS), name
        case _:
            return (ALTER_CLUSTER_CONFIGS if alters else DESCRIBE_CLUSTER_CONFIGS), CLUSTER_NAME


@dataclass(frozen=True, slots=True)
class Needs:
    """The rights that the requests of one API need: one for the whole, or some for parts."""

    whole: Right | None = None
    """For any part of the request; it is checked before the handler runs."""
    parts: tuple[tuple[Right, str], ...] = ()
    """What the handler checks, and where it is needed."""

    def __str__(self) -> str:
        if self.whole is not None:
            return str(self.whole)
        said = "; ".join(f"{right} {where}" for right, where in self.parts)
        return said.replace("or; ", "or ") or "nothing"


NOTHING: Final = Needs()

Denied = Callable[[Right, str, Decision], None]
"""Takes a right that was refused, the name of the resource, and the decision."""


class Access:
    """The rights of one principal at one host."""

    __slots__ = ("_authorizer", "_denied", "_host", "principal")

    def __init__(
        self, authorizer: Authorizer | None, principal: str, host: str, denied: Denied
    ) -> None:
        """Without an authorizer everybody may do everything. `denied` hears of refusals."""
        self._authorizer = authorizer
        self.principal = principal
        self._host = host
        self._denied = denied

    def decide(self, right: Right, name: str = CLUSTER_NAME) -> Decision:
        """Return the decision about a resource, and tell nobody."""
        if self._authorizer is None:
            return _UNLIMITED
        operation, resource_type = right
        return self._authorizer.authorize(
            self.principal, self._host, operation, resource_type, name
        )

    def may(self, right: Right, name: str = CLUSTER_NAME, *, is_told: bool = True) -> bool:
        """Return True if the principal has the right. A refusal is reported unless `is_told` is
        False: where another right will do, or the answer just leaves something out."""
        decision = self.decide(right, name)
        if not decision.allowed and is_told:
            self._denied(right, name, decision)
        return decision.allowed

    def may_any(self, right: Right) -> bool:
        """Return True if the principal has the right on at least one resource of the type."""
        if self._authorizer is None:
            return True
        operation, resource_type = right
        decision = self._authorizer.authorize_by_resource_type(
            self.principal, self._host, operation, resource_type
        )
        return decision.allowed

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that the principal may do on a resource, as a sum of powers of two:
        the `authorized_operations` of a response (KIP-430). Nobody is told."""
        return sum(
            1 << each
            for each in OPERATIONS[resource_type]
            if self.decide(Right(each, resource_type), name).allowed
        )

    def cluster_operations(self) -> int:
        """Return the operations on the cluster for whoever may describe it, and 0 for others."""
        return self.operations(ResourceType.CLUSTER) if self.may(DESCRIBE_CLUSTER) else 0

    def allowed(
        self, right: Right, names: Iterable[str], *, is_told: bool = True
    ) -> frozenset[str]:
        """Return the names of the resources on which the principal has the right."""
        wanted = frozenset(names)
        if self._authorizer is None:
            return wanted
        return frozenset(name for name in sorted(wanted) if self.may(right, name, is_told=is_told))

    def refusal(self, right: Right, name: str = CLUSTER_NAME) -> str:
        """Return the error message for the right on a resource."""
        return right.refusal(self.principal, name)


_UNLIMITED: Final = Decision(True, Rule.NO_AUTHORIZER)


def _untold(_right: Right, _name: str, _decision: Decision) -> None:
    """Nothing is ever refused."""


UNLIMITED: Final = Access(None, "", "", _untold)
"""The access of everybody where there is no authorizer."""

"""The rights that capabilities need, in Kafka's terms, and the roles that have them.

A listener that knows roles derives them from the right; an authorizer takes the right itself.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final


class Operation(IntEnum):
    """An operation of Kafka's ACLs, with Kafka's number."""

    ALTER = 7
    DESCRIBE = 8


class ResourceType(IntEnum):
    """A resource of Kafka's ACLs, with Kafka's number."""

    CLUSTER = 4


class Role(StrEnum):
    """A role. Each one may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """True if this role may do everything that the other one may."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Needs:
    """The right that a request needs."""

    operation: Operation
    resource: ResourceType = ResourceType.CLUSTER
    changes_voters: bool = False
    """True if it changes the voters. Kafka has one operation for moves and for this, and a role
    tells them apart."""

    @property
    def role(self) -> Role:
        """The lowest role that may do it."""
        if self.changes_voters:
            return Role.ADMIN
        return Role.VIEWER if self.operation is Operation.DESCRIBE else Role.OPERATOR

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.resource.name}"


DESCRIBE_CLUSTER: Final = Needs(Operation.DESCRIBE)
ALTER_CLUSTER: Final = Needs(Operation.ALTER)
"""Moves, the leader of the quorum, and the maintenance of brokers: Kafka authorizes them all as
AlterPartitionReassignments and UnregisterBroker are authorized."""
ALTER_VOTERS: Final = Needs(Operation.ALTER, changes_voters=True)

"""The rights that capabilities need, in Kafka's terms, and the roles that have them.

A listener that knows roles derives them from the right; an authorizer takes the right itself.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from statemachine.security import rights
from statemachine.security.authorizer import Operation
from statemachine.security.rights import Right


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

    right: Right
    changes_voters: bool = False
    """True if it changes the voters. Kafka has one operation for moves and for this, and a role
    tells them apart."""

    @property
    def role(self) -> Role:
        """The lowest role that may do it."""
        if self.changes_voters:
            return Role.ADMIN
        return Role.VIEWER if self.right.operation is Operation.DESCRIBE else Role.OPERATOR

    def __str__(self) -> str:
        return str(self.right)


DESCRIBE_CLUSTER: Final = Needs(rights.DESCRIBE_CLUSTER)
ALTER_CLUSTER: Final = Needs(rights.ALTER_CLUSTER)
"""Moves, the leader of the quorum, and the maintenance of brokers: Kafka authorizes them all as
AlterPartitionReassignments and UnregisterBroker are authorized."""
ALTER_VOTERS: Final = Needs(rights.ALTER_CLUSTER, changes_voters=True)

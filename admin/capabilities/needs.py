"""The rights that capabilities need, in Kafka's terms, and the roles that have them.

A listener that knows roles derives them from the right; an authorizer takes the right itself.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from statemachine.security import rights
from statemachine.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from statemachine.security.rights import Access, Right


class Role(StrEnum):
    """A role. Each one may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """True if this role may do everything that the other one may."""
        return self.rank >= other.rank

    @property
    def rank(self) -> int:
        """The place of the role among all, from 0 on."""
        return tuple(Role).index(self)


@dataclass(frozen=True, slots=True)
class Needs:
    """The right that a request needs."""

    right: Right
    resource: str = CLUSTER_NAME
    """The name of what the right is needed on."""
    on_cluster: Right | None = None
    """The right on the cluster that stands for the one on every resource, as in Kafka."""
    only_admins: bool = False
    """True if it changes the voters, or who may do what. Kafka has one operation for moves and for
    these, and a role tells them apart."""

    @property
    def role(self) -> Role:
        """The lowest role that may do it."""
        if self.only_admins:
            return Role.ADMIN
        reads = self.right.operation in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
        return Role.VIEWER if reads else Role.OPERATOR

    @property
    def is_on_cluster(self) -> bool:
        """True if it is a right on the cluster, which no part of a request names."""
        return self.right.resource_type is ResourceType.CLUSTER

    def on(self, resource: str) -> "Needs":
        """The same right on the resource of this name."""
        return replace(self, resource=resource)

    def are_met(self, access: Access) -> bool:
        """True if a principal may do it; nobody is told."""
        if self.on_cluster is not None and access.decide(self.on_cluster).allowed:
            return True
        return access.decide(self.right, self.resource).allowed

    def refusal(self, access: Access) -> str | None:
        """Return why a principal may not do it, or None."""
        if self.on_cluster is not None and access.may(self.on_cluster, is_told=False):
            return None
        if access.may(self.right, self.resource):
            return None
        return access.refusal(self.right, self.resource)

    def __str__(self) -> str:
        return str(self.right)


DESCRIBE_CLUSTER: Final = Needs(rights.DESCRIBE_CLUSTER)
ALTER_CLUSTER: Final = Needs(rights.ALTER_CLUSTER)
"""Moves, the leader of the quorum, and the maintenance of brokers: Kafka authorizes them all as
AlterPartitionReassignments and UnregisterBroker are authorized."""
ALTER_VOTERS: Final = Needs(rights.ALTER_CLUSTER, only_admins=True)
ALTER_SECURITY: Final = Needs(rights.ALTER_CLUSTER, only_admins=True)
"""ACLs and the passwords of users."""
CREATE_TOPIC: Final = Needs(rights.CREATE_TOPIC, on_cluster=rights.CREATE_CLUSTER)
DELETE_TOPIC: Final = Needs(rights.DELETE_TOPIC, on_cluster=rights.DELETE_CLUSTER)
ALTER_TOPIC: Final = Needs(rights.ALTER_TOPIC)
DESCRIBE_TOPIC: Final = Needs(rights.DESCRIBE_TOPIC)
ALTER_TOPIC_CONFIGS: Final = Needs(rights.ALTER_TOPIC_CONFIGS)
DESCRIBE_TOPIC_CONFIGS: Final = Needs(rights.DESCRIBE_TOPIC_CONFIGS)
ALTER_CLUSTER_CONFIGS: Final = Needs(rights.ALTER_CLUSTER_CONFIGS)
"""Configurations of brokers, and client quotas, which Kafka guards by the cluster."""
DESCRIBE_CLUSTER_CONFIGS: Final = Needs(rights.DESCRIBE_CLUSTER_CONFIGS)

"""What brokers say about the log directories of their replicas. Values only, never behaviour."""

from uuid import UUID

from msgspec import Struct

from statemachine.errors import Error
from statemachine.vocabulary import BrokerId


class DirectoryAssignment(Struct, frozen=True, kw_only=True, gc=False):
    """The sender's replica of this partition is in this directory."""

    directory_id: UUID
    topic_id: UUID
    partition: int


class AssignReplicasToDirs(Struct, frozen=True, kw_only=True, gc=False):
    """A broker has put replicas into log directories (api 73, KIP-858)."""

    broker_id: BrokerId
    broker_epoch: int
    assignments: tuple[DirectoryAssignment, ...]


class ReplicaAssigned(Struct, frozen=True, kw_only=True, gc=False):
    """One part of AssignReplicasToDirs."""

    error: Error = Error.NONE
    message: str = ""


class ReplicasAssigned(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; none if the sender is refused."""

    error: Error = Error.NONE
    message: str = ""
    replicas: tuple[ReplicaAssigned, ...] = ()

"""What may be asked of the state machine, and what it answers. Values only, never behaviour.

A command holds what was asked as it was asked: it may be wrong in every way that its types allow.
An answer leaves only after the records of its decision are committed. Where a command has many
parts, each has its own result, and one that is refused leaves no trace.
"""

from typing import TypeAlias

from msgspec import Struct

from statemachine import records
from statemachine.commands.brokers import (
    BrokerHeartbeat,
    BrokerRegistered,
    BrokersFenced,
    FenceBrokers,
    HeartbeatAnswered,
    RegisterBroker,
    UnregisterBroker,
)
from statemachine.commands.cluster import (
    AllocateProducerIds,
    FoundCluster,
    ProducerIdsAllocated,
    RegisterController,
)
from statemachine.commands.done import (
    Done,
)
from statemachine.commands.partitions import (
    AlterPartition,
    AlterReassignments,
    ElectionType,
    ElectLeaders,
    IsrMember,
    IsrProposal,
    LeaderElected,
    LeadersElected,
    PartitionAltered,
    PartitionsAltered,
    Reassignment,
    ReassignmentAltered,
    ReassignmentsAltered,
)
from statemachine.commands.topics import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicCreated,
    TopicDeleted,
    TopicsCreated,
    TopicsDeleted,
)

__all__ = [
    "AllocateProducerIds",
    "AlterPartition",
    "AlterReassignments",
    "Answer",
    "BrokerCommand",
    "BrokerHeartbeat",
    "BrokerRegistered",
    "BrokersFenced",
    "ClusterCommand",
    "Command",
    "CreateTopics",
    "Decision",
    "DeleteTopics",
    "Done",
    "ElectLeaders",
    "ElectionType",
    "FenceBrokers",
    "FoundCluster",
    "HeartbeatAnswered",
    "IsrMember",
    "IsrProposal",
    "LeaderElected",
    "LeadersElected",
    "NewTopic",
    "PartitionAltered",
    "PartitionCommand",
    "PartitionsAltered",
    "ProducerIdsAllocated",
    "Reassignment",
    "ReassignmentAltered",
    "ReassignmentsAltered",
    "RegisterBroker",
    "RegisterController",
    "TopicCommand",
    "TopicCreated",
    "TopicDeleted",
    "TopicsCreated",
    "TopicsDeleted",
    "UnregisterBroker",
]

PartitionCommand: TypeAlias = AlterPartition | AlterReassignments | ElectLeaders
BrokerCommand: TypeAlias = BrokerHeartbeat | RegisterBroker | FenceBrokers | UnregisterBroker
TopicCommand: TypeAlias = CreateTopics | DeleteTopics
ClusterCommand: TypeAlias = FoundCluster | RegisterController | AllocateProducerIds
Command: TypeAlias = PartitionCommand | BrokerCommand | TopicCommand | ClusterCommand


Answer: TypeAlias = (
    PartitionsAltered
    | ReassignmentsAltered
    | LeadersElected
    | BrokerRegistered
    | HeartbeatAnswered
    | BrokersFenced
    | TopicsCreated
    | TopicsDeleted
    | ProducerIdsAllocated
    | Done
)


class Decision(Struct, frozen=True, gc=False):
    """The records to append, in order and in one piece, and the answer once they are committed."""

    records: tuple[records.Record, ...]
    answer: Answer

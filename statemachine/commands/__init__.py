"""What may be asked of the state machine, and what it answers. Values only, never behaviour.

A command holds what was asked as it was asked: it may be wrong in every way that its types allow.
An answer leaves only after the records of its decision are committed. Where a command has many
parts, each has its own result, and one that is refused leaves no trace.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from statemachine import records
from statemachine.commands.brokers import (
    BrokerCordoned,
    BrokerHeartbeat,
    BrokerRegistered,
    BrokersCordoned,
    BrokersFenced,
    CordonBrokers,
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
from statemachine.commands.configs import (
    AlterConfigs,
    ConfigAltered,
    ConfigChange,
    ConfigOp,
    ConfigOperation,
    ConfigReplacement,
    ConfigsAltered,
    IncrementalAlterConfigs,
)
from statemachine.commands.directories import (
    AssignReplicasToDirs,
    DirectoryAssignment,
    ReplicaAssigned,
    ReplicasAssigned,
)
from statemachine.commands.done import (
    Done,
)
from statemachine.commands.features import (
    FeaturesUpdated,
    FeatureUpdate,
    UpdateFeatures,
    UpgradeType,
)
from statemachine.commands.moves import (
    AdvanceMoves,
    AlterMove,
    BeginMove,
    CancelMoves,
    ForgetMoves,
    Keyed,
    KeyedAnswer,
    KeyedCommand,
    MoveAltered,
    MovesAdvanced,
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    PauseMoves,
    ResumeMoves,
    RollBackMove,
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
from statemachine.commands.quotas import (
    AlterClientQuotas,
    ClientQuotasAltered,
    QuotaAltered,
    QuotaChange,
    QuotaOp,
)
from statemachine.commands.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    PartitionsAdded,
    PartitionsCreated,
    TopicCreated,
    TopicDeleted,
    TopicsCreated,
    TopicsDeleted,
)
from statemachine.partition import Partition

__all__ = [
    "AdvanceMoves",
    "AllocateProducerIds",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterMove",
    "AlterPartition",
    "AlterReassignments",
    "Answer",
    "AssignReplicasToDirs",
    "BeginMove",
    "BrokerCommand",
    "BrokerCordoned",
    "BrokerHeartbeat",
    "BrokerRegistered",
    "BrokersCordoned",
    "BrokersFenced",
    "CancelMoves",
    "ClientQuotasAltered",
    "ClusterCommand",
    "Command",
    "ConfigAltered",
    "ConfigChange",
    "ConfigCommand",
    "ConfigOp",
    "ConfigOperation",
    "ConfigReplacement",
    "ConfigsAltered",
    "CordonBrokers",
    "CreatePartitions",
    "CreateTopics",
    "Decision",
    "DeleteTopics",
    "DirectoryAssignment",
    "Done",
    "ElectLeaders",
    "ElectionType",
    "FeatureUpdate",
    "FeaturesUpdated",
    "FenceBrokers",
    "ForgetMoves",
    "FoundCluster",
    "HeartbeatAnswered",
    "IncrementalAlterConfigs",
    "IsrMember",
    "IsrProposal",
    "Keyed",
    "KeyedAnswer",
    "KeyedCommand",
    "LeaderElected",
    "LeadersElected",
    "MorePartitions",
    "MoveAltered",
    "MoveCommand",
    "MoveStarted",
    "MovesAdvanced",
    "MovesAltered",
    "MovesCancelled",
    "NewTopic",
    "PartitionAltered",
    "PartitionCommand",
    "PartitionsAdded",
    "PartitionsAltered",
    "PartitionsCreated",
    "PauseMoves",
    "ProducerIdsAllocated",
    "QuotaAltered",
    "QuotaChange",
    "QuotaOp",
    "Reassignment",
    "ReassignmentAltered",
    "ReassignmentsAltered",
    "RegisterBroker",
    "RegisterController",
    "ReplicaAssigned",
    "ReplicasAssigned",
    "ResumeMoves",
    "RollBackMove",
    "TopicCommand",
    "TopicCreated",
    "TopicDeleted",
    "TopicsCreated",
    "TopicsDeleted",
    "UnregisterBroker",
    "UpdateFeatures",
    "UpgradeType",
]

PartitionCommand: TypeAlias = AlterPartition | ElectLeaders
MoveCommand: TypeAlias = KeyedCommand | Keyed | ForgetMoves | AdvanceMoves
BrokerCommand: TypeAlias = (
    BrokerHeartbeat
    | RegisterBroker
    | FenceBrokers
    | UnregisterBroker
    | CordonBrokers
    | AssignReplicasToDirs
)
TopicCommand: TypeAlias = CreateTopics | CreatePartitions | DeleteTopics
ClusterCommand: TypeAlias = FoundCluster | RegisterController | AllocateProducerIds | UpdateFeatures
ConfigCommand: TypeAlias = IncrementalAlterConfigs | AlterConfigs | AlterClientQuotas
Command: TypeAlias = (
    PartitionCommand | MoveCommand | BrokerCommand | TopicCommand | ClusterCommand | ConfigCommand
)


Answer: TypeAlias = (
    PartitionsAltered
    | ReassignmentsAltered
    | MoveStarted
    | MovesCancelled
    | MovesAltered
    | MovesAdvanced
    | LeadersElected
    | BrokerRegistered
    | HeartbeatAnswered
    | BrokersFenced
    | BrokersCordoned
    | ReplicasAssigned
    | TopicsCreated
    | PartitionsCreated
    | TopicsDeleted
    | ProducerIdsAllocated
    | FeaturesUpdated
    | ConfigsAltered
    | ClientQuotasAltered
    | Done
)


class Decision(Struct, frozen=True, gc=False):
    """The records to append, in order and in one piece, and the answer once they are committed."""

    records: Sequence[records.Record]
    answer: Answer
    is_complete: bool = True
    """Otherwise it is too much for one decision: the same command leads to the rest, decided on
    what these records leave, and the answer is that of the last one.
    """
    decided: Mapping[int, Partition] = {}
    """The partitions that the records change once, as these leave them; for `replay_decided`."""

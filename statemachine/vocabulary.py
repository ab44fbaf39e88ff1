"""The terms of the state machine and their values.

A *replica* is one copy of a partition, named by its broker. The *ISR* are the replicas that have
all acknowledged records. A *leader epoch* numbers the leaderships of one partition, a *partition
epoch* its changes, a *broker epoch* the incarnations of one broker. *min ISR* is
`min.insync.replicas`, but at most the final number of replicas. A *move* is one request for the
reassignment of any number of partitions; a *step* adds and removes replicas of one of them.
"""

from enum import IntEnum
from typing import Final, TypeAlias
from uuid import UUID

BrokerId: TypeAlias = int
MoveId: TypeAlias = int
Replicas: TypeAlias = tuple[BrokerId, ...]
Directories: TypeAlias = tuple[UUID, ...]

NO_LEADER: Final[BrokerId] = -1
"""The leader of a partition that has none."""

NO_EPOCH: Final = -1
"""The broker epoch of a sender that does not know it: AlterPartition below version 3 (KIP-903)."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery state from an unclean election until the leader reports the end (KIP-704)."""

DIRECTORY_MIGRATING: Final = UUID(int=0)
"""The replica has a directory that its broker has not reported yet (KIP-858)."""
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
"""The broker has several directories and chooses one (KIP-858)."""
DIRECTORY_LOST: Final = UUID(int=2)
"""The replica is in an offline directory that its broker cannot name (KIP-858)."""

NO_MOVE: Final[MoveId] = 0
"""The move of a partition that belongs to none. Ids are 1, 2, 3, ..."""


class MoveKind(IntEnum):
    """The kinds of moves."""

    REASSIGN = 0
    DRAIN = 1
    ROLLBACK = 2


class MoveState(IntEnum):
    """The states of a running move: only `RUNNING` begins further steps."""

    RUNNING = 0
    PAUSED = 1
    PAUSED_BY_ITSELF = 2


class MoveOutcome(IntEnum):
    """The outcomes of a move, and of a partition in it."""

    COMPLETED = 0
    CANCELLED = 1
    SUPERSEDED = 2
    """Another move took the partition over, or a controller without moves changed it."""
    GONE = 3
    """Its topic was deleted."""


class Ownership(IntEnum):
    """The owner of a configuration that a move has needed."""

    RELEASED = 0
    """The move has released it, and the users' value is restored."""
    OWNED = 1
    """The move has set it."""
    LEFT_TO_USER = 2
    """A user has set or removed it since, and the move goes on without it."""


METADATA_VERSION: Final = "metadata.version"
"""The feature whose level determines which record versions may be written."""

EMBEDDED_BROKER: Final = "metaquorum.broker"
"""A feature that no level puts in force: a broker that registers with it is an embedded one.

Kafka ignores features that it does not know, and keeps them with the registration.
"""

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
Resource: TypeAlias = tuple[int, str]
"""A resource that has configurations: its type and its name."""
CLUSTER_DEFAULT: Final = ""
"""The resource name of the configurations that all brokers share."""

LEVEL_NO_OP: Final = 5
LEVEL_STOPPING_BROKERS: Final = 7
LEVEL_ZK_MIGRATION: Final = 8
LEVEL_SCRAM: Final = 11
LEVEL_DELEGATION_TOKENS: Final = 14
LEVEL_CONTROLLER_REGISTRATION: Final = 15
LEVEL_DIRECTORIES: Final = 17
LEVEL_KRAFT_VERSION: Final = 21
LEVEL_ELR: Final = 23
LEVEL_CORDONED_DIRECTORIES: Final = 30
"""The lowest levels of `metadata.version` at which these may be written to the log."""

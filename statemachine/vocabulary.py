"""The words of the state machine, each defined once. Values only, never behaviour.

A *replica* is one copy of a partition and is named by the broker that holds it. The *ISR* are the
replicas that have everything acknowledged. A *leader epoch* numbers the leaderships of one
partition, a *partition epoch* the changes made to it, a *broker epoch* the incarnations of one
broker. *min ISR* is how many replicas `min.insync.replicas` asks for, never more than the partition
is meant to have. A *move* is what an operator asked for, of any number of partitions; a *step* is
one growing, catching up and completing of one of them.
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
"""Leader recovery state after an unclean election, until the leader says otherwise (KIP-704)."""

DIRECTORY_MIGRATING: Final = UUID(int=0)
"""The replica has a directory, but the broker has not yet said which (KIP-858)."""
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
"""The broker, which has several directories, is to choose one (KIP-858)."""
DIRECTORY_LOST: Final = UUID(int=2)
"""The replica is in a directory that is offline, and its broker cannot say in which (KIP-858)."""

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
    """Another move took the partition over, or a controller that knows no moves did."""
    GONE = 3
    """Its topic was deleted."""


class Ownership(IntEnum):
    """The owner of a configuration that a move has needed."""

    RELEASED = 0
    """The move has given it up; users have what they had set."""
    OWNED = 1
    """The move has set it."""
    LEFT_TO_USER = 2
    """A user has set it since, or removed it: the move runs without."""


METADATA_VERSION: Final = "metadata.version"
"""The feature whose level says which record versions may be written."""

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
Resource: TypeAlias = tuple[int, str]
"""What has configurations: its type and its name."""
CLUSTER_DEFAULT: Final = ""
"""Resource name of the configuration that all brokers share."""

LEVEL_NO_OP: Final = 5
LEVEL_STOPPING_BROKERS: Final = 7
LEVEL_ZK_MIGRATION: Final = 8
LEVEL_CONTROLLER_REGISTRATION: Final = 15
LEVEL_DIRECTORIES: Final = 17
LEVEL_KRAFT_VERSION: Final = 21
LEVEL_ELR: Final = 23
"""The lowest levels of `metadata.version` at which these may be written to the log."""

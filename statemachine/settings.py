"""The settings of the whole cluster for how reassignments go (KIP-435), and what they say."""

from typing import Final

from msgspec import Struct

from statemachine.config_types import INT_MAX

UNLIMITED: Final = INT_MAX
"""The default of every limit, as in KIP-435: Kafka's behaviour."""


class Limits(Struct, frozen=True, kw_only=True, gc=False):
    """How much may be under way at one time; each is at least 1."""

    parallel_replicas: int = UNLIMITED
    """Replicas that one step of a partition adds, and that it drops."""
    parallel_partitions: int = UNLIMITED
    """Partitions with a step under way."""
    leader_movements: int = UNLIMITED
    """Of those, steps that move the leader."""
    replica_movements: int = UNLIMITED
    """Replicas being added, in total."""

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is limited: every move is one step, begun at once, as Kafka's are."""
        return self == NO_LIMITS


NO_LIMITS: Final = Limits()

"""The changes of an image since they were last taken, for brokers and for the scheduler.

The image writes a delta; its reader takes the changes and empties it.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from msgspec import Struct

from statemachine.configs.effective import MIN_ISR, UNCLEAN_ELECTION
from statemachine.image.partition_table import Topic
from statemachine.reassignment.settings import CLUSTER_CONFIGS, COMPLETION_RULE
from statemachine.vocabulary import BrokerId, MoveId, Resource

_SCHEDULING: Final = (MIN_ISR, *CLUSTER_CONFIGS)
"""The configurations that decide the order and the limits of reassignment steps."""

_ELIGIBILITY: Final = (MIN_ISR, UNCLEAN_ELECTION, COMPLETION_RULE)
"""The configurations that decide which moves may complete and which replicas may lead."""


class MetadataDelta(Struct, gc=False):
    """The keys of everything that changed, in the order of the first change."""

    partitions: dict[tuple[UUID, int], None] = {}
    """Created, changed or, if their topic is among `deleted`, deleted partitions."""
    deleted: dict[UUID, Topic] = {}
    """The deleted topics, with their last partitions."""
    brokers: dict[BrokerId, None] = {}
    configs: dict[Resource, None] = {}

    def add_topic(self, topic: Topic) -> None:
        """Add all partitions of the topic."""
        for number in topic.numbers():
            self.partitions[(topic.topic_id, number)] = None


class SchedulerDelta:
    """The changes that move partitions in the queue of the reassignment scheduler."""

    def __init__(self) -> None:
        self.clear(is_kept=False)
        self.is_lost = False
        """Whether the scheduler must rebuild its queue: the image was rewound or replaced."""
        self.has_eligibility = False
        """Whether configurations changed that may complete moves or elect leaders."""

    def clear(self, *, is_kept: bool) -> None:
        """Remove all changes; `is_kept`: collect further ones, for a queue."""
        self._is_kept = is_kept
        self.partitions: dict[int, None] = {}
        """Index keys of partitions that are or were being reassigned."""
        self.brokers: dict[BrokerId, None] = {}
        """Brokers whose registration changed."""
        self.moves: dict[MoveId, None] = {}
        """Moves whose priority changed."""
        self.has_limits = False
        """Whether configurations changed that affect every partition in the queue."""

    def lose(self) -> None:
        """Note that the changes do not lead to the present image."""
        self.clear(is_kept=False)
        self.is_lost = True

    def add(self, changed: dict[int, None], key: int) -> None:
        """Add an entry to one of the collections of this delta."""
        if self._is_kept:
            changed[key] = None

    def add_configs(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Add a change of the configurations of a topic or of the cluster."""
        if self._is_kept and _differ(before, after, _SCHEDULING):
            self.has_limits = True
        if _differ(before, after, _ELIGIBILITY):
            self.has_eligibility = True


def _differ(before: Mapping[str, str], after: Mapping[str, str], names: tuple[str, ...]) -> bool:
    return any(before.get(name) != after.get(name) for name in names)

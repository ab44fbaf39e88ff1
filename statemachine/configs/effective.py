"""The configurations that the state machine itself uses.

Values in the log are not validated: a value that does not parse counts as not set.
`configs.resources` has the values that may be set.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Protocol

from statemachine.configs.definitions import WHOLE_NUMBER
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, Resource

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

MIN_ISR_DEFAULT: Final = 1

_VALUES_REMEMBERED_MAX: Final = 64
"""Values of `min.insync.replicas`; real clusters have a handful."""

DEFAULTS: Final[Resource] = (BROKER_RESOURCE, CLUSTER_DEFAULT)
"""The configurations that all brokers share."""


class HoldsConfigs(Protocol):
    """An image, or a pending decision on top of one."""

    @property
    def configs(self) -> Mapping[Resource, Mapping[str, str]]:
        """The values that are set, by resource and name; resources without any may be left out."""
        ...


def min_isr(holder: HoldsConfigs, topic_name: str, partition: PartitionRegistration) -> int:
    """Return the min ISR of the partition: at most its number of replicas after the step."""
    return min(configured_min_isr(holder, topic_name), len(partition.aimed))


def configured_min_isr(holder: HoldsConfigs, topic_name: str) -> int:
    """Return `min.insync.replicas` of the topic, else of the cluster, else 1."""
    for resource in ((TOPIC_RESOURCE, topic_name), DEFAULTS):
        configs = holder.configs.get(resource)
        value = None if configs is None else configs.get(MIN_ISR)
        minimum = None if value is None else _minimum(value)
        if minimum is not None:
            return minimum
    return MIN_ISR_DEFAULT


@lru_cache(_VALUES_REMEMBERED_MAX)
def _minimum(value: str) -> int | None:
    """Return the value as a number, at least 1; None if it does not parse."""
    return max(int(value), 1) if WHOLE_NUMBER.fullmatch(value.strip()) else None


def unclean_election_allowed(holder: HoldsConfigs, topic_name: str) -> bool:
    """Return `unclean.leader.election.enable` of the topic, else of the cluster, else False."""
    for resource in ((TOPIC_RESOURCE, topic_name), DEFAULTS):
        value = holder.configs.get(resource, {}).get(UNCLEAN_ELECTION)
        if value is not None:
            return value.strip().lower() == "true"
    return False

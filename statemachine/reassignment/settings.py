"""Cluster settings of reassignment: the limits and the completion rule (KIP-435).

They are dynamic default configurations of the brokers (resource name ""); a single broker cannot
have them. A value in the log that does not parse counts as not set.

"""

from enum import Enum
from typing import Final

from msgspec import Struct

from statemachine.configs.definitions import INT_MAX, integer, one_of, table
from statemachine.configs.effective import DEFAULTS, HoldsConfigs

UNLIMITED: Final = INT_MAX
"""The default of every limit, as in KIP-435: Kafka's behaviour."""

OF_REASSIGNMENTS: Final = "reassignment."
"""The prefix of these settings, and of no others."""

PARALLEL_REPLICAS: Final = "reassignment.parallel.replica.count"
PARALLEL_PARTITIONS: Final = "reassignment.parallel.partition.count"
LEADER_MOVEMENTS: Final = "reassignment.parallel.leader.movements"
REPLICA_MOVEMENTS: Final = "reassignment.max.concurrent.replica.movements"
LIMITS: Final = {
    PARALLEL_REPLICAS: "parallel_replicas",
    PARALLEL_PARTITIONS: "parallel_partitions",
    LEADER_MOVEMENTS: "leader_movements",
    REPLICA_MOVEMENTS: "replica_movements",
}
"""The settings that are limits, with their fields in `Limits`."""
_LIMIT_NAMES: Final = frozenset(LIMITS)
COMPLETION_RULE: Final = "reassignment.completion.rule"


class CompletionRule(Enum):
    """The rules for the completion of a reassignment step."""

    MIN_ISR = "min-isr"
    """Every added replica is in sync, and min ISR is reached without the removed ones."""
    ALL_TARGET = "all-target"
    """Every replica that stays or is added is in sync, as in Kafka; min ISR does not count.

    Before the last step only final replicas count, and a replica that min ISR needs stays. Kafka
    has no such steps.
    """


class Limits(Struct, frozen=True, kw_only=True, gc=False):
    """The limits of concurrent reassignment; each is at least 1."""

    parallel_replicas: int = UNLIMITED
    """Replicas that one step of a partition adds, and replicas that it drops."""
    parallel_partitions: int = UNLIMITED
    """Partitions with a step under way."""
    leader_movements: int = UNLIMITED
    """Partitions with a step under way that moves the leader."""
    replica_movements: int = UNLIMITED
    """Replicas being added, in total."""

    @property
    def is_unlimited(self) -> bool:
        """True without limits: every move is one step that begins at once, as in Kafka."""
        return self == NO_LIMITS


NO_LIMITS: Final = Limits()

CLUSTER_CONFIGS: Final = table(
    integer(
        PARALLEL_REPLICAS,
        UNLIMITED,
        "How many replicas one step of a reassigned partition adds, and drops; with the default"
        " a reassignment is one step.",
        1,
    ),
    integer(
        PARALLEL_PARTITIONS,
        UNLIMITED,
        "How many partitions have a step of their reassignment under way at one time.",
        1,
    ),
    integer(
        LEADER_MOVEMENTS,
        UNLIMITED,
        "How many partitions are in a step that moves their leader at one time.",
        1,
    ),
    integer(
        REPLICA_MOVEMENTS,
        UNLIMITED,
        "How many replicas are being added by reassignments at one time, in total.",
        1,
    ),
    one_of(
        COMPLETION_RULE,
        CompletionRule.MIN_ISR.value,
        "When a step is complete: once min ISR is reached without what it removes (min-isr), or"
        " once all that remain in the end are in sync (all-target).",
        (each.value for each in CompletionRule),
    ),
)
"""The settings by name. Kafka's brokers treat them as settings of a plug-in."""

assert all(name.startswith(OF_REASSIGNMENTS) for name in CLUSTER_CONFIGS)


def limits(holder: HoldsConfigs) -> Limits:
    """Return the limits in force."""
    configs = holder.configs.get(DEFAULTS)
    if not configs or _LIMIT_NAMES.isdisjoint(configs):
        return NO_LIMITS
    return Limits(
        **{
            field: UNLIMITED if (value := _value(holder, name)) is None else int(value)
            for name, field in LIMITS.items()
        }
    )


def completion_rule(holder: HoldsConfigs) -> CompletionRule:
    """Return the rule in force."""
    value = _value(holder, COMPLETION_RULE)
    return CompletionRule.MIN_ISR if value is None else CompletionRule(value)


def _value(holder: HoldsConfigs, name: str) -> str | None:
    """Return the valid value that is set, without blanks; None if the default applies."""
    value = holder.configs.get(DEFAULTS, {}).get(name)
    if value is None or CLUSTER_CONFIGS[name].refusal(value) is not None:
        return None
    return value.strip()

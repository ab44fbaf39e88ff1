"""When a reassignment is complete, and what the partition is then. It records nothing.

Seed 4.2: it completes only if every adding replica is in the ISR, and the ISR without the removed
ones is no smaller than the min ISR. Until then the replicas are the union of what was and what is
asked for. Kafka's own rule can be had instead (`reassignment.completion.rule`).
"""

from typing import assert_never

from msgspec.structs import replace

from statemachine.partition import NO_STAGE, Partition
from statemachine.settings import CompletionRule


def completes(partition: Partition, min_isr: int, rule: CompletionRule) -> bool:
    """Whether the reassignment under way is complete as the partition now stands."""
    isr, removing = partition.isr, partition.removing
    match rule:
        case CompletionRule.MIN_ISR:
            if any(replica not in isr for replica in partition.adding):
                return False
            return sum(replica not in removing for replica in isr) >= min_isr
        case CompletionRule.ALL_TARGET:
            return all(replica in isr for replica in partition.aimed)
        case _:
            assert_never(rule)


def completed(partition: Partition) -> Partition:
    """The partition once its reassignment is complete; who leads it is for an election to say."""
    removing = partition.removing
    return replace(
        partition,
        replicas=partition.aimed,
        isr=tuple(replica for replica in partition.isr if replica not in removing),
        adding=(),
        removing=(),
        target=(),
        original=(),
        stage=NO_STAGE,
    )

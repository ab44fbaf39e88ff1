"""The completion rule: when a reassignment step is complete, and the partition after it.

Seed 4.2: it completes only if every adding replica is in the ISR, and the ISR without the removed
ones is no smaller than the min ISR. Until then the replicas are the union of the old and the new
ones. `reassignment.completion.rule` selects Kafka's own rule instead. The seed has a single step;
of several, those before the last keep replicas that min ISR needs instead of waiting to drop them.
"""

from typing import assert_never

from msgspec.structs import replace

from statemachine.partitions.registration import NO_STAGE, PartitionRegistration, with_base
from statemachine.reassignment.settings import CompletionRule
from statemachine.vocabulary import Replicas


def completes(partition: PartitionRegistration, min_isr: int, rule: CompletionRule) -> bool:
    """Return True if the step under way is complete.

    A step before the last is complete once its added replicas are in sync: replicas that it cannot
    remove yet are left to the next step (`completed`).
    """
    if not partition.moving or partition.waits:
        return False
    match rule:
        case CompletionRule.MIN_ISR:
            if any(replica not in partition.isr for replica in partition.adding):
                return False
        case CompletionRule.ALL_TARGET:
            if missing(partition):
                return False
            if is_last(partition):
                return True
        case _:
            assert_never(rule)
    has_grown = bool(partition.adding) and not is_last(partition)
    return has_grown or staying_in_sync(partition) >= needed(partition, min_isr)


def staying_in_sync(partition: PartitionRegistration) -> int:
    """Return the size of the ISR without the replicas that the step removes."""
    return sum(replica not in partition.removing for replica in partition.isr)


def needed(partition: PartitionRegistration, min_isr: int) -> int:
    """Return how many must stay in sync: min ISR, or the final number of replicas if it is less.

    Otherwise a move in steps to fewer than min ISR could never remove a dead broker.
    """
    return min(min_isr, len(partition.final))


def is_last(partition: PartitionRegistration) -> bool:
    """Return True if the step under way is the last one."""
    return set(partition.aimed) == set(partition.final)


def missing(partition: PartitionRegistration) -> Replicas:
    """Return the replicas that `ALL_TARGET` waits for: final ones that are present but not in sync.

    It does not wait for replicas that a later step removes: one of them may be on a dead broker.
    """
    final = partition.final
    return tuple([each for each in partition.aimed if each in final and each not in partition.isr])


def completed(
    partition: PartitionRegistration, min_isr: int, now_ms: int = 0
) -> PartitionRegistration:
    """Return the partition after its step; an election chooses its leader.

    Before the last step it keeps its target, and waits for the next step from `now_ms` on. It also
    keeps the replicas that the step was to remove if too few would be in sync without them: brokers
    have died since it began, and the next step adds more.
    """
    if not is_last(partition) and staying_in_sync(partition) < needed(partition, min_isr):
        partition = replace(partition, removing=())
    removing = partition.removing
    shrunk = replace(
        partition,
        replicas=partition.aimed,
        isr=tuple(replica for replica in partition.isr if replica not in removing),
        elr=tuple(replica for replica in partition.elr if replica not in removing),
        adding=(),
        removing=(),
    )
    if shrunk.waits:
        # What a redirect has left of an older target is no result of this step.
        wanted = {*shrunk.original, *shrunk.target}
        base = tuple([each for each in shrunk.replicas if each in wanted])
        stage = replace(partition.stage, since_ms=now_ms)
        return replace(shrunk, stage=with_base(stage, shrunk.replicas, base))
    return replace(shrunk, target=(), original=(), stage=NO_STAGE)

"""The completion rule: when a reassignment step is complete, and the partition after it.

Seed 4.2: it completes only if every adding replica is in the ISR, and the ISR without the removed
ones is no smaller than the min ISR. Until then the replicas are the union of what was and what is
asked for. Kafka's own rule can be had instead (`reassignment.completion.rule`). The text has one
step; of several, those before the last drop nobody whom min ISR needs, and wait for nobody to go.
"""

from typing import assert_never

from msgspec.structs import replace

from statemachine.partitions.registration import NO_STAGE, PartitionRegistration
from statemachine.reassignment.settings import CompletionRule
from statemachine.vocabulary import Replicas


def completes(partition: PartitionRegistration, min_isr: int, rule: CompletionRule) -> bool:
    """Return True if the step under way is complete.

    One that has added all it was to add is, before the last one, in any case: what it cannot remove
    yet it leaves to the next step (`completed`). So no move waits for a replica to be removed.
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
    """Return how many must stay in sync: no more than the final number of replicas.

    A move in steps to fewer than min ISR could never leave a dead broker that goes in a later one.
    """
    return min(min_isr, len(partition.final))


def is_last(partition: PartitionRegistration) -> bool:
    """Return True if the step under way is the last one. Kafka knows only one step."""
    return set(partition.aimed) == set(partition.final)


def missing(partition: PartitionRegistration) -> Replicas:
    """Return the replicas that `ALL_TARGET` waits for: final ones that are present but not in sync.

    Not for replicas that a later step removes: a dead broker could never be left.
    """
    final = partition.final
    return tuple([each for each in partition.aimed if each in final and each not in partition.isr])


def completed(
    partition: PartitionRegistration, min_isr: int, now_ms: int = 0
) -> PartitionRegistration:
    """Return the partition after its step; an election decides on its leader.

    Before the last step it keeps its target, and waits for the next one from `now_ms` on. It also
    keeps whom the step was to remove, if too few would be in sync without them: brokers have died
    since it began, and the next step, which is made of what there is by then, adds more.
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
        return replace(shrunk, stage=replace(partition.stage, since_ms=now_ms, base=()))
    return replace(shrunk, target=(), original=(), stage=NO_STAGE)


def takes_over(partition: PartitionRegistration, *, is_limited: bool) -> bool:
    """Return True if the future preferred leader leads once this step is complete.

    It does if the step has added it and there are limits: so the load is moved first (KIP-435).
    With nothing limited the leader stays where it is while it may, as with Kafka.
    """
    if not partition.target or partition.target[0] not in partition.adding:
        return False
    return is_limited or partition.aimed != partition.target

"""Faults in what the controller decides about partitions and brokers: one for each of the P rules.

Seeds of whole clusters show all of them. `tests/chaos/cluster` lets random logs be decided
with each, without any process, and the model must complain.
"""

from dataclasses import replace
from typing import Final

from chaos.mutants.mutant import Mutant

_DECISIONS: Final = (
    Mutant(
        name="replicas stay eligible though enough are in sync",
        module="statemachine.elr",
        old="        return wish if not wish.elr else replace(wish, elr=())",
        new="        return wish",
        caught_by=("P1",),
        directed="moves_elr",
        seed=2,
    ),
    Mutant(
        name="what was before a move is not forgotten when it is over",
        module="statemachine.partition",
        old='"adding", "removing", "target", "original", "directories"):',
        new='"adding", "removing", "target", "directories"):',
        caught_by=("P2",),
        directed="moves_grow_and_complete",
    ),
    Mutant(
        name="a completion begins no leader epoch",
        module="statemachine.change",
        old="finished or leader != before.leader or loses_any(before, wish)",
        new="leader != before.leader",
        caught_by=("P3",),
        directed="moves_completion_rules",
    ),
    Mutant(
        name="a replica goes without a leader epoch",
        module="statemachine.change",
        old=" or loses_any(before, wish)\n",
        new="\n",
        caught_by=("P3",),
        directed="moves_redirect",
        seed=2,
    ),
    Mutant(
        name="a partition grows at the front",
        module="statemachine.reassignment",
        old="        replicas=kept + added,",
        new="        replicas=added + kept,",
        caught_by=("P4",),
        directed="moves_grow_and_complete",
        seed=1,
    ),
    Mutant(
        name="one of several added replicas is enough",
        module="statemachine.completion",
        old="if any(replica not in isr for replica in partition.adding):",
        new="if partition.adding and not set(partition.adding) & set(isr):",
        caught_by=("P5",),
        directed="moves_grow_and_complete",
        seed=2,
    ),
    Mutant(
        name="a move completes without min ISR",
        module="statemachine.completion",
        old="            return sum(replica not in removing for replica in isr) >= min_isr",
        new="            return any(replica not in removing for replica in isr)",
        caught_by=("P5", "P7"),
        directed="moves_min_isr_changes",
        seed=2,
    ),
    Mutant(
        name="the last in the order leads",
        module="statemachine.leadership",
        old="return tuple(replica for replica in aimed if replica in partition.replicas) + rest",
        new="return tuple(each for each in aimed[::-1] if each in partition.replicas) + rest",
        caught_by=("P6",),
        directed="moves_grow_and_complete",
        seed=2,
    ),
    Mutant(
        name="what only removes is never complete",
        module="statemachine.completion",
        old="    isr, removing = partition.isr, partition.removing\n    match rule:",
        new="    isr, removing = partition.isr, partition.removing\n"
        "    if not partition.adding:\n        return False\n    match rule:",
        caught_by=("P7",),
        directed="moves_smaller",
    ),
    Mutant(
        name="a cancel asks for no min ISR",
        module="statemachine.reassignment",
        old="    if len(wish.isr) < needed and not unclean:",
        new="    if not wish.isr and not unclean:",
        caught_by=("P8",),
        directed="moves_cancel",
        seed=2,
    ),
    Mutant(
        name="with one that is eligible all come into the ISR",
        module="statemachine.elr",
        old="    return replace(partition, isr=(leader,), elr=others if min_isr > 1 else ())",
        new="    return replace(partition, isr=(leader, *others), elr=())",
        caught_by=("P9",),
        directed="moves_elr",
        seed=2,
    ),
    Mutant(
        name="a fenced broker comes into the ISR",
        module="statemachine.isr",
        old="        elif broker.fenced:",
        new="        elif broker.fenced and broker.stopping_at is not None:",
        caught_by=("P10",),
        directed="moves_checks",
        seed=5,
    ),
    Mutant(
        name="another incarnation of a broker keeps its epoch",
        module="statemachine.brokers",
        old="broker_epoch=before.epoch if before is not None and same else",
        new="broker_epoch=before.epoch if before is not None else",
        caught_by=("P11",),
        directed="moves_incarnations",
    ),
    Mutant(
        name="a broker that is fenced stays in the ISR",
        module="statemachine.brokers",
        old="        wish = replace(partition, isr=isr_without(draft, partition, leaving))",
        new="        wish = partition",
        caught_by=("P12",),
        directed="moves_fencing",
    ),
    Mutant(
        name="a cancel leaves added replicas",
        module="statemachine.reassignment",
        old="    kept = partition.base\n",
        new="    kept = partition.replicas\n",
        caught_by=("P13",),
        directed="moves_cancel",
        seed=1,
    ),
    Mutant(
        name="limits of partitions are counted per request",
        module="statemachine.room",
        old="self.partitions = len(index.stepping)",
        new="self.partitions = 0",
        caught_by=("P15",),
        directed="moves_limit_partitions",
        seed=2,
    ),
    Mutant(
        name="one step of many replicas passes their limit",
        module="statemachine.room",
        old="self.adding + len(step.adding) <= self.limits.replica_movements",
        new="self.adding < self.limits.replica_movements",
        caught_by=("P15",),
        directed="moves_limit_replicas",
        log_seed=241,
        seed=17,
    ),
    Mutant(
        name="a step forgets the last of those it is to add",
        module="statemachine.reassignment",
        old="    added = tuple(replica for replica in target if replica not in kept)\n",
        new="    added = tuple(replica for replica in target if replica not in kept)\n"
        "    added = added[:-1] or added\n",
        caught_by=("P16",),
        directed="moves_grow_and_complete",
        seed=5,
    ),
    Mutant(
        name="a move to brokers that do not exist begins",
        module="statemachine.reassignment",
        old="    refusal = assignment_refusal(target, draft.image.brokers)\n",
        new="    refusal = None if target else assignment_refusal(target, draft.image.brokers)\n",
        caught_by=("P17",),
        directed="moves_several",
        seed=1,
    ),
    Mutant(
        name="the ISR takes a stale broker epoch",
        module="statemachine.isr",
        old="        elif member.broker_epoch not in (NO_EPOCH, broker.epoch):",
        new="        elif member.broker_epoch > broker.epoch:",
        caught_by=("P10",),
        directed="tests/broker/test_stale_isr.py::"
        "test_nothing_acknowledged_is_lost_with_the_disk_of_a_replica_that_was_about_to_join",
        seed=20,
    ),
    Mutant(
        name="the partition epoch is not checked",
        module="statemachine.isr",
        old="    if proposal.partition_epoch < partition.partition_epoch:\n",
        new="    if proposal.partition_epoch < 0:\n",
        caught_by=("P10",),
        directed="moves_checks",
    ),
    Mutant(
        name="a move that is redirected forgets whom it has brought in",
        module="statemachine.reassignment",
        old="        removing=tuple(replica for replica in kept if replica not in target),",
        new="        removing=tuple(\n"
        "            replica for replica in partition.base if replica not in target\n"
        "        ),",
        caught_by=("P14",),
        directed="moves_redirect",
        seed=7,
    ),
)

PARTITIONS: Final = tuple(replace(each, kind="cluster", is_checked=True) for each in _DECISIONS)
"""The product would notice many of them by itself: it is the judges who are to."""

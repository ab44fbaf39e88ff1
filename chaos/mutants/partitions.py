"""Faults in the controller's decisions about partitions and brokers: one for each P rule.

Seeds of whole clusters show all of them but `RARE`. `tests/chaos/cluster` also decides random logs
with each fault, without any process; the model must report a violation.
"""

from dataclasses import replace
from typing import Final

from chaos.mutants.mutant import Mutant

STEP_WAITS: Final = Mutant(
    name="a step waits for the replicas that it removes",
    module="statemachine.reassignment.completion",
    old="has_grown = bool(partition.adding) and not is_last(partition)",
    new="has_grown = False",
    caught_by=("P5",),
    directed="moves_dead_midway",
    is_checked=True,
)
STEP_DROPS: Final = Mutant(
    name="a step drops replicas that min ISR needs",
    module="statemachine.reassignment.completion",
    old="    if not is_last(partition) and staying_in_sync(partition)",
    new="    if False and staying_in_sync(partition)",
    caught_by=("P5", "P8"),
    directed="moves_dead_midway",
    is_checked=True,
)
CANCEL_KEEPS: Final = Mutant(
    name="a cancel keeps a replica that only the target before a redirect had",
    module="statemachine.reassignment.target",
    old=" if adding else with_base(stage, kept, before),",
    new=" if adding else stage,",
    caught_by=("P13", "P14"),
    directed="moves_cancel_redirected",
    log_seed=127,
    is_checked=True,
)
RARE: Final = (STEP_WAITS, STEP_DROPS, CANCEL_KEEPS)
"""Random logs show these faults, but almost no seed of a cluster does (`directed_only`)."""

_DECISIONS: Final = (
    Mutant(
        name="the ELR is not cleared when enough replicas are in sync",
        module="statemachine.partitions.elr",
        old="        return desired if not desired.elr else replace(desired, elr=())",
        new="        return desired",
        caught_by=("P1",),
        directed="moves_elr",
        seed=2,
    ),
    Mutant(
        name="the original replicas stay recorded after a move",
        module="statemachine.partitions.registration",
        old='"adding", "removing", "target", "original", "directories")',
        new='"adding", "removing", "target", "directories")',
        caught_by=("P2",),
        directed="moves_grow_and_complete",
    ),
    Mutant(
        name="a completion does not raise the leader epoch",
        module="statemachine.partitions.change_builder",
        old="finished or leader != before.leader or loses_any(before, desired)",
        new="leader != before.leader",
        caught_by=("P3",),
        directed="moves_completion_rules",
    ),
    Mutant(
        name="the removal of a replica does not raise the leader epoch",
        module="statemachine.partitions.change_builder",
        old=" or loses_any(before, desired)\n",
        new="\n",
        caught_by=("P3",),
        directed="moves_redirect",
        seed=2,
    ),
    Mutant(
        name="an added replica comes first in the replica list",
        module="statemachine.reassignment.target",
        old="        replicas=kept + added,",
        new="        replicas=added + kept,",
        caught_by=("P4",),
        directed="moves_grow_and_complete",
        seed=1,
    ),
    Mutant(
        name="one of several added replicas is enough",
        module="statemachine.reassignment.completion",
        old="if any(replica not in partition.isr for replica in partition.adding):",
        new="if partition.adding and not set(partition.adding) & set(partition.isr):",
        caught_by=("P5",),
        directed="moves_grow_and_complete",
        seed=9,
    ),
    Mutant(
        name="a move completes without min ISR",
        module="statemachine.reassignment.completion",
        old="return has_grown or staying_in_sync(partition) >= needed(partition, min_isr)",
        new="return has_grown or staying_in_sync(partition) > 0",
        caught_by=("P5", "P7"),
        directed="moves_min_isr_changes",
        seed=2,
    ),
    Mutant(
        name="leaders are elected in reverse replica order",
        module="statemachine.partitions.leader_election",
        old="return tuple(replica for replica in aimed if replica in partition.replicas) + rest",
        new="return tuple(each for each in aimed[::-1] if each in partition.replicas) + rest",
        caught_by=("P6",),
        directed="moves_grow_and_complete",
        seed=2,
    ),
    Mutant(
        name="a move that only removes replicas never completes",
        module="statemachine.reassignment.completion",
        old="    match rule:\n        case CompletionRule.MIN_ISR:",
        new="    if not partition.adding:\n        return False\n"
        "    match rule:\n        case CompletionRule.MIN_ISR:",
        caught_by=("P7",),
        directed="moves_smaller",
    ),
    Mutant(
        name="a cancel does not require min ISR",
        module="statemachine.reassignment.target",
        old="    if len(desired.isr) < needed and not unclean:",
        new="    if not desired.isr and not unclean:",
        caught_by=("P8",),
        directed="moves_cancel",
        seed=2,
    ),
    Mutant(
        name="an election from the ELR takes all its members into the ISR",
        module="statemachine.partitions.elr",
        old="    return replace(partition, isr=(leader,), elr=others if min_isr > 1 else ())",
        new="    return replace(partition, isr=(leader, *others), elr=())",
        caught_by=("P9",),
        directed="moves_elr",
        seed=2,
    ),
    Mutant(
        name="the last known leader leads although an eligible replica is only away",
        module="statemachine.partitions.leader_election",
        old="    if not eligible and len(",
        new="    if not partition.isr and len(",
        caught_by=("P9",),
        directed="moves_last_known",
        seed=3,
    ),
    Mutant(
        name="a fenced broker joins the ISR",
        module="statemachine.partitions.isr",
        old="        elif broker.fenced:",
        new="        elif broker.fenced and broker.stopping_at is not None:",
        caught_by=("P10",),
        directed="moves_checks",
        seed=1,
    ),
    Mutant(
        name="a new incarnation of a broker keeps the broker epoch",
        module="statemachine.brokers.lifecycle",
        old="broker_epoch=next_offset if known is None else known.broker_epoch,",
        new="broker_epoch=next_offset if before is None else before.broker_epoch,",
        caught_by=("P11",),
        directed="moves_incarnations",
    ),
    Mutant(
        name="a broker that is fenced stays in the ISR",
        module="statemachine.brokers.lifecycle",
        old="        lambda each: replace(each, isr=isr_without(pending, each, leaving)),",
        new="        lambda each: each,",
        caught_by=("P12",),
        directed="moves_fencing",
    ),
    Mutant(
        name="a cancel leaves added replicas",
        module="statemachine.reassignment.target",
        old="    kept = partition.base\n",
        new="    kept = partition.replicas\n",
        caught_by=("P13",),
        directed="moves_cancel",
        seed=1,
    ),
    Mutant(
        name="partition limits apply per request only",
        module="statemachine.reassignment.scheduler.advance",
        old="self.partitions = len(index.stepping)",
        new="self.partitions = 0",
        caught_by=("P15",),
        directed="moves_limit_partitions",
        seed=7,
    ),
    Mutant(
        name="one step may exceed the limit of replicas",
        module="statemachine.reassignment.scheduler.advance",
        old="self.adding + len(step.adding) <= self.limits.replica_movements",
        new="self.adding < self.limits.replica_movements",
        caught_by=("P15",),
        directed="moves_limit_replicas",
        log_seed=241,
        seed=39,
    ),
    Mutant(
        name="a step omits the last replica to add",
        module="statemachine.reassignment.target",
        old="    added = tuple(replica for replica in target if replica not in kept)\n",
        new="    added = tuple(replica for replica in target if replica not in kept)\n"
        "    added = added[:-1] or added\n",
        caught_by=("P16",),
        directed="moves_grow_and_complete",
        seed=5,
    ),
    Mutant(
        name="a move to unknown brokers begins",
        module="statemachine.reassignment.target",
        old="    refusal = assignment_refusal(target, pending.image.brokers)\n",
        new="    refusal = None if target else assignment_refusal(target, pending.image.brokers)\n",
        caught_by=("P17",),
        directed="moves_several",
        seed=77,
    ),
    Mutant(
        name="AlterPartition accepts a stale broker epoch",
        module="statemachine.partitions.isr",
        old="        elif member.broker_epoch not in (NO_EPOCH, broker.broker_epoch):",
        new="        elif member.broker_epoch > broker.broker_epoch:",
        caught_by=("P10",),
        directed="tests/controller/test_stale_isr.py::"
        "test_nothing_acknowledged_is_lost_with_the_disk_of_a_replica_that_was_about_to_join",
        seed=28,
    ),
    Mutant(
        name="the partition epoch is not checked",
        module="statemachine.partitions.isr",
        old="    if proposal.partition_epoch < partition.partition_epoch:\n",
        new="    if proposal.partition_epoch < 0:\n",
        caught_by=("P10",),
        directed="moves_checks",
        seed=17,
    ),
    Mutant(
        name="a redirected move does not remove the replicas that it added",
        module="statemachine.reassignment.target",
        old="        removing=tuple(replica for replica in kept if replica not in target),",
        new="        removing=tuple(\n"
        "            replica for replica in partition.base if replica not in target\n"
        "        ),",
        caught_by=("P14",),
        directed="moves_redirect",
        seed=7,
    ),
    Mutant(
        name="the original replicas of a redirected move include those of its first target",
        module="statemachine.reassignment.target",
        old="        original=partition.base,\n",
        new="        original=partition.replicas,\n",
        caught_by=("P14",),
        directed="tests/statemachine/reassignment/test_reassignment.py::"
        "test_a_redirected_move_keeps_its_original_replicas",
        seed=1,
    ),
    Mutant(
        name="a broker that names any earlier epoch of itself counts as stopped cleanly",
        module="statemachine.brokers.lifecycle",
        old="command.previous_epoch != before.broker_epoch",
        new="not 0 <= (command.previous_epoch or -1) <= before.broker_epoch",
        caught_by=("P25",),
        directed="tests/statemachine/partitions/test_elr.py::test_an_unclean_shutdown_ends_it",
        seed=7,
    ),
)

PARTITIONS: Final = tuple(replace(each, kind="cluster", is_checked=True) for each in _DECISIONS)
"""The product detects many of these faults itself. Its checks are off: the invariants must detect
them."""

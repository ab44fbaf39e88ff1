"""Faults in controller and broker processes that simulations of whole clusters must detect.

`chaos.mutants.partitions` has the faults in the controller's decisions about partitions.
"""

from typing import Final

from chaos.mutants.mutant import Mutant

CLUSTERS: Final = (
    Mutant(
        name="a broker deletes replicas that are not in the ISR",
        module="broker.partition.assignment",
        old="found is None or broker_id not in found.replicas:",
        new="found is None or broker_id not in (*found.isr, *found.adding):",
        caught_by=("P21",),
        directed="tests/broker/test_replica_manager_changes.py",
        kind="cluster",
    ),
    Mutant(
        name="a leader counts itself before it has written",
        module="broker.partition.leader",
        old="        reached = self.written\n",
        new="        reached = self.log_end\n",
        caught_by=("P18", "P19"),
        directed="tests/broker/partition/test_partition_leader.py",
        kind="cluster",
        seed=1,
    ),
    Mutant(
        name="a controller that lost the leadership keeps uncommitted changes",
        module="controller.record_appender",
        old="        image.rewind(self._loader.end)\n",
        new="",
        caught_by=("P22",),
        directed=(
            "tests/controller/test_controller_lead.py::"
            "test_losing_the_lead_restores_the_image_that_is_committed"
        ),
        kind="cluster",
        seed=1,
    ),
    Mutant(
        name="responses are sent before their records are committed",
        module="controller.deferred",
        old="        if image_end <= self._loader.end:\n            done(answer)\n",
        new="        if image_end:\n            done(answer)\n",
        caught_by=("L1", "L2", "L5", "L6", "P19"),
        directed="tests/controller/test_controller_without_loop.py",
        kind="cluster",
        seed=1,
    ),
    Mutant(
        name="a retried request is executed again after fail-over",
        module="statemachine.reassignment.idempotency",
        old="    refusal, known = _refusal(command), pending.image.keys.get(command.key)\n",
        new="    refusal, known = _refusal(command), None\n",
        caught_by=("L3",),
        directed=(
            "tests/statemachine/reassignment/test_idempotency_keys.py::"
            "test_the_same_request_is_carried_out_once_and_answered_alike"
        ),
        kind="cluster",
        seed=1,
    ),
    Mutant(
        name="a move does not add the preferred leader first",
        module="statemachine.reassignment.step",
        old="    alone = limits.parallel_replicas != UNLIMITED and target[0] in addable\n",
        new="    alone = limits.parallel_replicas == 0 and target[0] in addable\n",
        caught_by=("P16",),
        directed="tests/statemachine/reassignment/test_reassignment_steps.py",
        kind="cluster",
        seed=1,
    ),
    Mutant(
        name="a pause sets no throttle of rate 0",
        module="statemachine.reassignment.throttle",
        old="NO_COPIES if is_stopped(move, view.all_paused) else rate_of(move) or None",
        new="rate_of(move) or None",
        caught_by=("P24",),
        directed="moves_pause_copying",
        kind="cluster",
        seed=13,
    ),
    Mutant(
        name="a query is answered without confirming the leadership",
        module="controller.deferred",
        old="        quorum.read_index(proved)\n",
        new="        proved(Offset(read_end))\n",
        caught_by=("L1", "L2"),
        directed="tests/admin/test_linearizable_reads.py::"
        "test_a_leader_that_nobody_confirms_answers_no_query",
        kind="cluster",
        seed=8,
    ),
)

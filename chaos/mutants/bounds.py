"""Faults in the limits of queues and of pending requests."""

from typing import Final

from chaos.mutants.mutant import Mutant

BOUNDS: Final = (
    Mutant(
        name="the limit of uncommitted records is not checked",
        module="quorum.core.node",
        old="        return held + waiting + count <= state.bounds.uncommitted_records\n",
        new="        return True\n",
        caught_by=("R24",),
        directed="quorum_bounds",
        seed=5,
    ),
    Mutant(
        name="the limit of uncommitted records is one too high",
        module="quorum.core.node",
        old="held + waiting + count <= state.bounds.uncommitted_records",
        new="held + waiting + count <= state.bounds.uncommitted_records + 1",
        caught_by=("R24",),
        directed="quorum_bounds",
        seed=5,
    ),
    Mutant(
        name="the limit of uncommitted bytes is not checked",
        module="quorum.accumulator",
        old="        return self._held_bytes < node.bounds.uncommitted_bytes\n",
        new="        return True\n",
        caught_by=("R24",),
        directed=(
            "tests/quorum/driver/test_driver_commits.py::"
            "test_a_leader_takes_no_more_when_it_holds_enough_bytes"
        ),
    ),
    Mutant(
        name="the limit of parked fetches is not checked",
        module="quorum.core.replica_progress",
        old="        return count >= self._bounds.parked_fetches\n",
        new="        return False\n",
        caught_by=("R24",),
        directed="quorum_bounds",
        seed=5,
    ),
    Mutant(
        name="the limit of observers is not checked",
        module="quorum.core.replica_progress",
        old="        while len(self._observers) + count > self._bounds.observers:\n",
        new="        while False:\n",
        caught_by=("R24",),
        directed="quorum_bounds",
    ),
    Mutant(
        name="the limit of pending reads is not checked",
        module="quorum.applier",
        old="        if len(self._reads) >= self._node.bounds.reads:\n",
        new="        if False:\n",
        caught_by=("R24",),
        directed=(
            "tests/quorum/driver/test_driver_reads.py::test_a_read_too_many_is_refused_at_once"
        ),
    ),
    Mutant(
        name="the limit of voter requests is not checked",
        module="quorum.core.reconfiguration",
        old="    elif len(leader.changes.requests) >= state.bounds.voter_requests:\n",
        new="    elif False:\n",
        caught_by=("R24",),
        directed="quorum_bounds",
    ),
    Mutant(
        name="the limit of leadership transfer requests is not checked",
        module="quorum.core.leadership_transfer",
        old="    elif len(transfer.askers) >= state.bounds.transfer_askers:\n",
        new="    elif False:\n",
        caught_by=("R24",),
        directed="quorum_bounds",
    ),
)

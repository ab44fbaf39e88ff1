"""Faults in how logs grow together, and in what is taken for committed."""

from typing import Final

from chaos.mutants.mutant import Mutant

LOGS: Final = (
    Mutant(
        name="records of older epochs are committed by counting",
        module="quorum.core.high_watermark",
        old="    if reached <= epoch_start:\n",
        new="    if reached <= 0:\n",
        caught_by=("R8", "R9"),
        directed="quorum_high_watermark_of_a_new_leader",
        seed=4,
    ),
    Mutant(
        name="what half of the disks hold is committed",
        module="quorum.core.high_watermark",
        old="falling[len(falling) // 2]",
        new="falling[(len(falling) - 1) // 2]",
        caught_by=("R8",),
        directed="quorum_two_voters",
        seed=1,
    ),
    Mutant(
        name="what follows from an election does not wait for its file",
        module="quorum.replica",
        old="self._hold_up(step, effect, partial(self._elections.write, election))\n"
        "                    return\n",
        new="self._disk.perform(\n"
        "                        partial(self._elections.write, election), lambda _: None)\n",
        caught_by=("R3", "R4"),
        directed=(
            "tests/quorum/driver/test_driver_durability.py::"
            "test_a_vote_is_remembered_before_it_is_answered"
        ),
    ),
    Mutant(
        name="the leader counts itself before its disk has the records",
        module="quorum.core.leading",
        old="ends.append(state.log.durable)",
        new="ends.append(state.log.end.offset)",
        caught_by=("R8",),
        directed="quorum_leader_counts_itself",
        seed=1,
    ),
    Mutant(
        name="a follower fetches past its durable end",
        module="quorum.core.following",
        old="pending is not None or state.log.durable != state.log.end.offset:\n",
        new="pending is not None:\n",
        caught_by=("R12",),
        directed="quorum_election",
    ),
    Mutant(
        name="a follower whose log has parted does not cut it",
        module="quorum.core.following",
        old="        _truncate(state, response.diverging)\n",
        new="",
        caught_by=("liveness",),
        directed="quorum_divergence",
        seed=3,
    ),
    Mutant(
        name="a follower cuts its log one epoch too late",
        module="quorum.core.epoch_history",
        old="        return min(own.offset, diverging.offset)\n",
        new="        return own.offset\n",
        caught_by=("liveness", "R5"),
        directed="quorum_divergence",
        seed=5,
    ),
    Mutant(
        name="a follower cuts its log at the beginning of the diverging epoch",
        module="quorum.core.epoch_history",
        old="    own = history.end_of(diverging.epoch, log_end)\n",
        new="    own = history.end_of(Epoch(max(0, diverging.epoch - 1)), log_end)\n",
        caught_by=("R10", "R23"),
        directed="quorum_divergence",
        seed=3,
    ),
    Mutant(
        name="the leader compares logs by their length only",
        module="quorum.core.log_view",
        old="        if here.epoch == other_end.epoch and here.offset >= other_end.offset:\n",
        new="        if self.end.offset >= other_end.offset:\n",
        caught_by=("R5", "R8"),
        directed="quorum_divergence",
        seed=3,
    ),
    Mutant(
        name="a new leader shows the high watermark that it knew before",
        module="quorum.core.leading",
        old="    return known if known is not None and known > leader.epoch_start else None",
        new="    return known",
        caught_by=("R9",),
        directed="quorum_high_watermark_of_a_new_leader",
        seed=1,
    ),
    Mutant(
        name="a follower takes the leader's high watermark beyond its own log",
        module="quorum.core.following",
        old="    reached = min(high_watermark, state.log.end.offset)\n",
        new="    reached = high_watermark\n",
        caught_by=("R6", "R23"),
        directed="quorum_high_watermark_beyond_the_log",
    ),
    Mutant(
        name="observers are served what is not committed",
        module="quorum.core.serving",
        old="return Offset(0) if view.high_watermark is None else view.high_watermark",
        new="return view.log_end",
        caught_by=("R8",),
        directed="quorum_long_poll",
        seed=1,
    ),
    Mutant(
        name="an answer to a fetch of an earlier epoch is appended",
        module="quorum.core.following",
        old="    if correlation != state.fetching.pending:\n        return",
        new="    if False:\n        return",
        caught_by=("R5", "R6", "R10", "R12", "R23", "liveness"),
        directed="quorum_fetch_epochs",
        seed=49,
    ),
)

"""Faults in replication, and in what counts as committed."""

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
    ),
    Mutant(
        name="records on half of the disks count as committed",
        module="quorum.core.high_watermark",
        old="falling[len(falling) // 2]",
        new="falling[(len(falling) - 1) // 2]",
        caught_by=("R8",),
        directed="quorum_two_voters",
    ),
    Mutant(
        name="effects after an election change do not wait for quorum-state",
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
        module="quorum.core.leader",
        old="ends.append(state.log.durable)",
        new="ends.append(state.log.end.offset)",
        caught_by=("R8",),
        directed="quorum_leader_counts_itself",
        seed=1,
    ),
    Mutant(
        name="a follower fetches past its durable end",
        module="quorum.core.follower",
        old="pending is not None or state.log.durable != state.log.end.offset:\n",
        new="pending is not None:\n",
        caught_by=("R12",),
        directed="quorum_election",
    ),
    Mutant(
        name="a follower does not truncate a diverging log",
        module="quorum.core.follower",
        old="        _truncate(state, response.diverging)\n",
        new="",
        caught_by=("liveness",),
        directed="quorum_divergence",
    ),
    Mutant(
        name="a follower truncates a diverging log one epoch too late",
        module="quorum.core.raft_log",
        old="        return min(own.offset, diverging.offset)\n",
        new="        return own.offset\n",
        caught_by=("liveness", "R5"),
        directed="quorum_divergence",
    ),
    Mutant(
        name="a follower truncates its log at the start of the diverging epoch",
        module="quorum.core.raft_log",
        old="    own = history.end_of(diverging.epoch, log_end)\n",
        new="    own = history.end_of(Epoch(max(0, diverging.epoch - 1)), log_end)\n",
        caught_by=("R10", "R23"),
        directed="quorum_divergence",
    ),
    Mutant(
        name="the leader compares logs by their length only",
        module="quorum.core.raft_log",
        old="        if here.epoch == other_end.epoch and here.offset >= other_end.offset:\n",
        new="        if self.end.offset >= other_end.offset:\n",
        caught_by=("R5", "R8"),
        directed="quorum_divergence",
        seed=3,
    ),
    Mutant(
        name="a new leader shows the high watermark that it knew before",
        module="quorum.core.leader",
        old="    shown = state.shown_high_watermark(leader)\n",
        new="    shown = state.high_watermark\n",
        caught_by=("R9",),
        directed="quorum_high_watermark_of_a_new_leader",
    ),
    Mutant(
        name="a follower takes the leader's high watermark beyond its own log",
        module="quorum.core.follower",
        old="    reached = min(high_watermark, state.log.end.offset)\n",
        new="    reached = high_watermark\n",
        caught_by=("R6", "R23"),
        directed="quorum_high_watermark_beyond_the_log",
    ),
    Mutant(
        name="a leader does not report a voter that lost acknowledged records",
        module="quorum.core.leader",
        old="    if forgotten is not None:\n",
        new="    if False:\n",
        caught_by=("R12",),
        directed="quorum_old_copy",
    ),
    Mutant(
        name="observers receive uncommitted records",
        module="quorum.core.replica_progress",
        old="return Offset(0) if view.high_watermark is None else view.high_watermark",
        new="return view.log_end",
        caught_by=("R8",),
        directed="quorum_long_poll",
    ),
    Mutant(
        name="a response to a fetch of an earlier epoch is appended",
        module="quorum.core.follower",
        old="    if correlation != state.fetching.pending:\n        return",
        new="    if False:\n        return",
        caught_by=("R5", "R6", "R10", "R12", "R23", "liveness"),
        directed="quorum_fetch_epochs",
        seed=51,
    ),
    Mutant(
        name="a leader commits records below the first one of its epoch",
        module="quorum.core.high_watermark",
        old="    if reached <= epoch_start:\n",
        new="    if reached < epoch_start:\n",
        caught_by=("R9",),
        directed="quorum_announcement",
    ),
    Mutant(
        name="an epoch without records stays in the epoch cache after a truncation",
        module="quorum.core.raft_log",
        old="self._starts[-1] >= end:",
        new="self._starts[-1] > end:",
        caught_by=("R12",),
        directed="quorum_figure_7",
        seed=3,
    ),
    Mutant(
        name="observers count for commits",
        module="quorum.core.leader",
        old="for each in leader.serving.voters.values()]\n    if state.is_voter:",
        new="for each in (*leader.serving.voters.values(), *leader.serving.observers)]\n"
        "    if state.is_voter:",
        caught_by=("R8", "liveness"),
        directed="quorum_observer",
    ),
    Mutant(
        name="a leader hands over the leadership with uncommitted records",
        module="quorum.core.leadership_transfer",
        old="state.high_watermark != end or ",
        new="",
        caught_by=("R29",),
        directed="quorum_lead_handed_over",
        seed=6,
    ),
)

"""Faults in linearizable reads: when the leader answers, and how it confirms its leadership."""

from typing import Final

from chaos.mutants.mutant import Mutant

READS: Final = (
    Mutant(
        name="a read is answered before the state machine has reached its offset",
        module="quorum.core.node",
        old="effects, state.effects = state.effects, []",
        new="effects, state.effects = state.effects, []\n"
        "        effects.sort(key=lambda each: type(each).__name__ != 'AnswerReads')",
        caught_by=("L2",),
        directed="quorum_reads_of_a_lone_voter",
    ),
    Mutant(
        name="a leader answers reads without confirming its leadership",
        module="quorum.core.read_index",
        old="while leader.reads and _is_proved(state, leader, leader.reads[0]):",
        new="while leader.reads:",
        caught_by=("L2",),
        directed="quorum_reads_of_a_deposed_leader",
        seed=12,
    ),
    Mutant(
        name="a read is answered before a commit in the leader's own epoch",
        module="quorum.core.read_index",
        old="committed = state.shown_high_watermark(leader)",
        new="committed = state.high_watermark",
        caught_by=("L2",),
        directed="quorum_reads_of_a_new_leader",
        seed=1,
    ),
    Mutant(
        name="a fetch sent before a read confirms the read",
        module="quorum.core.read_index",
        old="return voter.round >= group.round or",
        new="return voter.round >= group.round - 1 or",
        caught_by=("L2",),
        directed="quorum_reads",
        seed=12,
    ),
    Mutant(
        name="a read joins a round whose responses were sent before it",
        module="quorum.core.read_index",
        old="    if tracker.round_sent == tracker.round:\n",
        new="    if tracker.round == 0:\n",
        caught_by=("L2",),
        directed="quorum_reads",
        seed=222,
    ),
    Mutant(
        name="an append before a read confirms the read",
        module="quorum.core.read_index",
        old="(voter.log_end or Offset(0)) > group.log_end",
        new="(voter.log_end or Offset(0)) >= group.log_end",
        caught_by=("L2",),
        directed="quorum_reads_without_echo",
        seed=273,
    ),
    Mutant(
        name="a removed leader counts itself when it confirms a read",
        module="quorum.core.read_index",
        old="return shown + state.is_voter >= state.voters.majority",
        new="return shown + 1 >= state.voters.majority",
        caught_by=("L2",),
        directed="quorum_reads_of_a_removed_leader",
        seed=314,
    ),
)

"""Faults in when a read is answered, and in what proves that its leader still leads."""

from typing import Final

from chaos.mutants.mutant import Mutant

READS: Final = (
    Mutant(
        name="a read is answered before the state machine has what it must see",
        module="quorum.core.node",
        old="effects, state.effects = state.effects, []",
        new="effects, state.effects = state.effects, []\n"
        "        effects.sort(key=lambda each: type(each).__name__ != 'AnswerReads')",
        caught_by=("L2",),
        directed="quorum_reads_of_a_lone_voter",
    ),
    Mutant(
        name="a leader answers reads without asking whether it still leads",
        module="quorum.core.read_index",
        old="while leader.reads and _is_proved(state, leader, leader.reads.oldest):",
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
        name="a fetch that was under way when the read came proves it",
        module="quorum.core.read_index",
        old="return voter.round >= group.round or",
        new="return voter.round >= group.round - 1 or",
        caught_by=("L2",),
        directed="quorum_reads",
        seed=12,
    ),
    Mutant(
        name="a read shares a round whose answers have left before it came",
        module="quorum.core.read_index",
        old="    if serving.round_sent == serving.round:\n",
        new="    if serving.round == 0:\n",
        caught_by=("L2",),
        directed="quorum_reads",
        seed=222,
    ),
    Mutant(
        name="what was appended before the read came proves it",
        module="quorum.core.read_index",
        old="(voter.log_end or Offset(0)) > group.log_end",
        new="(voter.log_end or Offset(0)) >= group.log_end",
        caught_by=("L2",),
        directed="quorum_reads_without_echo",
        seed=273,
    ),
    Mutant(
        name="a removed leader counts itself for the proof of a read",
        module="quorum.core.read_index",
        old="return shown + state.is_voter >= state.voters.majority",
        new="return shown + 1 >= state.voters.majority",
        caught_by=("L2",),
        directed="quorum_reads_of_a_removed_leader",
        seed=619,
    ),
)

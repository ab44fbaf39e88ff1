"""Faults in when a read is answered; those in its proof are planted in tests of the core."""

from typing import Final

from chaos.mutants.mutant import Mutant

READS: Final = (
    Mutant(
        name="a read is answered before the state machine has what it must see",
        module="quorum.core.node",
        old="effects, state.effects = state.effects, []",
        new="effects, state.effects = state.effects, []\n"
        "        effects.sort(key=lambda each: type(each).__name__ != 'ReadReady')",
        caught_by=("L2",),
        directed="quorum_reads_of_a_lone_voter",
    ),
)

"""Faults in how the voters change, to be planted like those of `mutants`."""

import pytest

from quorum.core import leading, voter_changes, voter_requests
from quorum.core.changing import Situation, Wait
from quorum.core.messages import VoterRequest
from quorum.core.roles import Leader
from quorum.core.serving import Serving
from quorum.core.state import State
from quorum.core.vocabulary import Offset
from quorum.core.voter_requests import Outcome
from quorum.core.voters import Voter, VoterAssignment, VoterSet
from tests.quorum.core.mutants import MUTANTS, mutant

__all__ = ["MUTANTS"]


@mutant("a voter change is appended while another is not committed", "R15")
def change_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(voter_changes, "_hindrance", lambda state, leader: None)


@mutant("a voter change is appended before a commit in the leader's epoch", "R15", first_seed=4)
def change_before_own_commit(patch: pytest.MonkeyPatch) -> None:
    right = voter_changes._hindrance

    def hasty(state: State, leader: Leader) -> Wait | None:
        start, leader.epoch_start = leader.epoch_start, Offset(0)
        wait = right(state, leader)
        leader.epoch_start = start
        return wait

    patch.setattr(voter_changes, "_hindrance", hasty)


@mutant("two voters change at once", "R14", first_seed=11)
def change_all_at_once(patch: pytest.MonkeyPatch) -> None:
    right = voter_requests.outcome_of

    def bold(request: VoterRequest, situation: Situation) -> Outcome:
        outcome = right(request, situation)
        if not isinstance(outcome, VoterAssignment) or outcome.target is None:
            return outcome
        live = {each.key for each in situation.others} | {situation.me}
        keys = [key for want in outcome.target for key in sorted(live) if key.id == want.id]
        return VoterAssignment(VoterSet(tuple(map(Voter, keys)))) if keys else outcome

    patch.setattr(voter_changes, "outcome_of", bold)


@mutant("a leader that is removed counts itself", "R8", first_seed=15)
def count_itself(patch: pytest.MonkeyPatch) -> None:
    right = leading._advance_high_watermark

    def vain(state: State, leader: Leader, now_ms: int) -> None:
        is_voter, state.is_voter = state.is_voter, True
        right(state, leader, now_ms)
        state.is_voter = is_voter

    patch.setattr(leading, "_advance_high_watermark", vain)


@mutant("who votes no more still counts", "R8", first_seed=6)
def count_former_voters(patch: pytest.MonkeyPatch) -> None:
    right = Serving.take_voters

    def loyal(self: Serving, voters: VoterSet) -> None:
        before = dict(self.voters)
        right(self, voters)
        self.voters = before | self.voters
        for progress in before.values():
            progress.voter = progress.voter or Voter(progress.replica)

    patch.setattr(Serving, "take_voters", loyal)


@mutant("voters are in force from their commit only", "R8", "R1", "R7", first_seed=7)
def in_force_from_commit(patch: pytest.MonkeyPatch) -> None:
    def committed_only(self: State) -> None:
        known = self.log.assignments.at(self.high_watermark or Offset(0))
        self.voters = self.founders if known is None else known.current
        self.is_voter = self.voters.has(self.me)

    patch.setattr(State, "take_voters", committed_only)

"""Faults to plant in the core, each by name: the simulation must notice every one of them.

A mutant replaces one function of the product for the time of one test. Each is the mistake of a
line or two that somebody could make.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from quorum.core import elections, following, leading, node, reading
from quorum.core.effects import Commit, Effect, PersistElection, ReadReady
from quorum.core.events import Correlation, Event
from quorum.core.high_watermark import high_watermark
from quorum.core.log_view import LogView
from quorum.core.messages import VoteResponse
from quorum.core.node import QuorumNode
from quorum.core.progress import ReplicaProgress
from quorum.core.reads import ReadGroup
from quorum.core.roles import (
    Candidate,
    Cause,
    Follower,
    Leader,
    Poll,
    Prospective,
    Role,
)
from quorum.core.serving import Serving
from quorum.core.state import State
from quorum.core.vocabulary import Election, Epoch, LogEnd, Offset, ReplicaId, ReplicaKey
from quorum.core.voters import VoterSet
from quorum.core.votes import VoteRefusal, vote_refusal
from tests.quorum.core.profile import Fault, Profile


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: frozenset[str]
    """The invariants of which at least one must fail."""
    first_seed: int = 0
    """Where to begin: a seed known to catch it, when this was written. Others do as well."""

    def __str__(self) -> str:
        return self.name


MUTANTS: Final[list[Mutant]] = []


def mutant(
    name: str, *caught_by: str, first_seed: int = 0
) -> Callable[[Callable[[pytest.MonkeyPatch], None]], None]:
    def register(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
        MUTANTS.append(Mutant(name, plant, frozenset(caught_by), first_seed))

    return register


@mutant("the vote is forgotten by a restart", "R2", first_seed=18)
def forget_vote_at_restart(patch: pytest.MonkeyPatch) -> None:
    init = QuorumNode.__init__

    def forgetful(self: QuorumNode, *args: Any, election: Election, **kwargs: Any) -> None:
        init(self, *args, election=replace(election, voted_for=None), **kwargs)

    patch.setattr(QuorumNode, "__init__", forgetful)


@mutant("the vote is forgotten once it was given", "R2", "R3")
def forget_vote(patch: pytest.MonkeyPatch) -> None:
    right = vote_refusal

    def forgetful(
        election: Election, *, candidate: ReplicaKey, **kwargs: Any
    ) -> VoteRefusal | None:
        return right(replace(election, voted_for=None), candidate=candidate, **kwargs)

    patch.setattr(elections, "vote_refusal", forgetful)


@mutant("the vote leaves before it is durable", "R3")
def speak_before_persisting(patch: pytest.MonkeyPatch) -> None:
    step = QuorumNode.step

    def hasty(self: QuorumNode, event: Event, *, now_ms: int) -> list[Effect]:
        effects = step(self, event, now_ms=now_ms)
        return sorted(effects, key=lambda each: isinstance(each, PersistElection))

    patch.setattr(QuorumNode, "step", hasty)


@mutant("an answer that comes twice is two votes", "R1", first_seed=12)
def count_duplicates(patch: pytest.MonkeyPatch) -> None:
    right = elections.on_vote_response

    def double(state: State, correlation: Correlation, response: VoteResponse, now_ms: int) -> None:
        candidate = state.role
        if not isinstance(candidate, Candidate) or response.epoch != state.election.epoch:
            right(state, correlation, response, now_ms)
            return
        missing = [each for each in state.voters.sorted() if each not in candidate.votes]
        if response.granted and missing:
            candidate.votes[missing[0]] = True
        elections._conclude(state, candidate, now_ms)

    patch.setattr(elections, "on_vote_response", double)


@mutant("an answer to an earlier candidacy is a vote", "R1", first_seed=12)
def count_stale(patch: pytest.MonkeyPatch) -> None:
    def stale(state: State, correlation: Correlation, response: VoteResponse, now_ms: int) -> None:
        candidate = state.role
        if not isinstance(candidate, Candidate):
            right(state, correlation, response, now_ms)
            return
        voter = candidate.asked.pop(correlation, None)
        voter = former.get((state.me.id, correlation)) if voter is None else voter
        if voter is not None:
            candidate.votes.setdefault(voter, response.granted)
            elections._conclude(state, candidate, now_ms)

    former: dict[tuple[ReplicaId, Correlation], ReplicaId] = {}
    ask, right = elections._ask_for_votes, elections.on_vote_response

    def asking(state: State, poll: Poll) -> None:
        ask(state, poll)
        if isinstance(poll, Candidate):
            former.update({(state.me.id, key): voter for key, voter in poll.asked.items()})

    patch.setattr(elections, "_ask_for_votes", asking)
    patch.setattr(elections, "on_vote_response", stale)


@mutant("a pre-vote is taken for a vote", "R1", "R2", "R3")
def pre_vote_is_a_vote(patch: pytest.MonkeyPatch) -> None:
    right = elections.campaign

    def hasty(state: State, cause: Cause, now_ms: int) -> None:
        prospective = state.role
        right(state, cause, now_ms)
        if isinstance(prospective, Prospective) and isinstance(state.role, Candidate):
            state.role.votes.update(prospective.votes)
            elections._conclude(state, state.role, now_ms)

    patch.setattr(elections, "campaign", hasty)


@mutant("half of the voters are a majority", "R1")
def half_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VoterSet, "majority", property(lambda self: max(1, len(self) // 2)))


@mutant("records of older epochs are committed by counting", "R8")
def commit_older_epochs(patch: pytest.MonkeyPatch) -> None:
    right = high_watermark

    def eager(ends: list[Offset], *, epoch_start: Offset, current: Offset | None) -> Offset | None:
        return right(ends, epoch_start=Offset(0), current=current)

    patch.setattr(leading, "high_watermark", eager)


@mutant("the leader counts itself before its disk has the records", "R8", first_seed=8)
def count_before_flush(patch: pytest.MonkeyPatch) -> None:
    right = leading._advance_high_watermark

    def hasty(state: State, leader: Leader, now_ms: int) -> None:
        durable, state.log.durable = state.log.durable, state.log.end.offset
        right(state, leader, now_ms)
        state.log.durable = durable

    patch.setattr(leading, "_advance_high_watermark", hasty)


@mutant("a follower fetches past its durable end", "R12")
def fetch_before_flush(patch: pytest.MonkeyPatch) -> None:
    right = following.fetch_if_due

    def hasty(state: State, now_ms: int) -> None:
        durable, state.log.durable = state.log.durable, state.log.end.offset
        right(state, now_ms)
        state.log.durable = durable

    patch.setattr(following, "fetch_if_due", hasty)


@mutant("a follower whose log has parted does not truncate it", "liveness")
def never_truncate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(following, "_truncate", lambda state, diverging: None)


@mutant("logs are compared by their length only", "R5", first_seed=7)
def compare_offsets_only(patch: pytest.MonkeyPatch) -> None:
    def shallow(self: LogView, other_end: LogEnd) -> LogEnd | None:
        return None if other_end.offset <= self.end.offset else self.end

    patch.setattr(LogView, "divergence", shallow)


@mutant("votes are given by the length of the log only", "R7", first_seed=24)
def vote_by_offset_only(patch: pytest.MonkeyPatch) -> None:
    right = vote_refusal

    def shallow(
        election: Election, *, candidate: ReplicaKey, candidate_end: LogEnd, own_end: LogEnd
    ) -> VoteRefusal | None:
        return right(
            election,
            candidate=candidate,
            candidate_end=replace(candidate_end, epoch=Epoch(0)),
            own_end=replace(own_end, epoch=Epoch(0)),
        )

    patch.setattr(elections, "vote_refusal", shallow)
    # Who would not get a pre-vote does not stand.
    patch.setattr(elections, "pre_vote_refusal", lambda **_: None)


@mutant("a leader leads the same epoch again after a restart", "R11", "R5")
def lead_again(patch: pytest.MonkeyPatch) -> None:
    right = node._role_after_restart

    def stubborn(state: State, now_ms: int) -> Role:
        if state.election.leader != state.me.id:
            return right(state, now_ms)
        return Leader(
            epoch=state.election.epoch,
            since_ms=now_ms,
            epoch_start=state.log.end.offset,
            serving=Serving(state.voters, state.me.id),
            check_quorum_ms=now_ms + state.timeouts.check_quorum_ms,
            announce_ms=now_ms,
        )

    patch.setattr(node, "_role_after_restart", stubborn)


@mutant("a new leader shows the high watermark that it knew before", "R9")
def show_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leading, "_shown_high_watermark", lambda state, leader: state.high_watermark)


@mutant("a leader is taken to be alive because others say so", "liveness", first_seed=10)
def believe_rumours(patch: pytest.MonkeyPatch) -> None:
    def follow(self: State, leader: ReplicaId, now_ms: int) -> None:
        right(self, leader, now_ms)
        if isinstance(self.role, Follower):
            self.role.heard_ms = now_ms

    right = State.follow
    patch.setattr(State, "follow", follow)


@mutant("a follower takes the leader's high watermark beyond its own log", "R8")
def commit_beyond_the_log(patch: pytest.MonkeyPatch) -> None:
    def beyond(current: State, high_watermark: Offset | None) -> None:
        if high_watermark is not None and high_watermark > (current.high_watermark or 0):
            current.high_watermark = high_watermark
            current.effects.append(Commit(high_watermark))

    patch.setattr(following, "_commit", beyond)


@mutant("a fetch that was under way when the read came proves it", "L2", first_seed=25)
def count_fetch_under_way(patch: pytest.MonkeyPatch) -> None:
    def shows(voter: ReplicaProgress, group: ReadGroup) -> bool:
        return right(voter, replace(group, round=group.round - 1))

    right = reading._shows
    patch.setattr(reading, "_shows", shows)


@mutant("what was appended before the read came proves it", "L2", first_seed=2)
def count_records_before(patch: pytest.MonkeyPatch) -> None:
    def drawn(rng: random.Random) -> Profile:
        return replace(right_profile(rng), **quiet)

    def shows(voter: ReplicaProgress, group: ReadGroup) -> bool:
        return right(voter, replace(group, log_end=Offset(group.log_end - 1)))

    # A leader shows by it only when all that it has was acknowledged before it was cut off.
    quiet: dict[str, Any] = {
        "propose_ms_max": 3_000,
        "read_ms_max": 50,
        "faults": (Fault.HEAL, Fault.ISOLATE, Fault.SPLIT),
    }
    right, right_profile = reading._shows, Profile.drawn
    patch.setattr(Profile, "drawn", drawn)
    patch.setattr(reading, "_shows", shows)


@mutant("a read is answered before a commit in the leader's own epoch", "L2", first_seed=12)
def read_before_own_commit(patch: pytest.MonkeyPatch) -> None:
    right = reading.settle

    def hasty(state: State, leader: Leader) -> None:
        start, leader.epoch_start = leader.epoch_start, Offset(-1)
        right(state, leader)
        leader.epoch_start = start

    patch.setattr(reading, "settle", hasty)


@mutant("a leader answers reads without asking whether it leads", "L2", first_seed=25)
def skip_the_round(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "_is_proved", lambda state, leader, group: True)


@mutant("the read is answered before the state machine has applied what it must see", "L2")
def read_before_applying(patch: pytest.MonkeyPatch) -> None:
    step = QuorumNode.step

    def hasty(self: QuorumNode, event: Event, *, now_ms: int) -> list[Effect]:
        effects = step(self, event, now_ms=now_ms)
        return sorted(effects, key=lambda each: not isinstance(each, ReadReady))

    patch.setattr(QuorumNode, "step", hasty)

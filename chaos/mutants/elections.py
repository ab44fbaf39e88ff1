"""Faults in elections, and in how long a leader stays."""

from typing import Final

from chaos.mutants.mutant import Mutant

_FAULTY_LEADER: Final = (
    "tests/quorum/core/test_stranger_epochs.py::"
    "test_a_leader_that_only_sends_what_cannot_be_is_soon_replaced"
)

ELECTIONS: Final = (
    Mutant(
        name="a vote leaves before it is durable",
        module="quorum.core.node",
        old="effects.insert(0, PersistElection(state.election))",
        new="effects.append(PersistElection(state.election))",
        caught_by=("R3",),
        directed="quorum_election",
    ),
    Mutant(
        name="epoch and vote are persisted in two writes",
        module="quorum.log.quorum_state",
        old="            replace_file(self.path, msgspec.json.encode(state), self._fs)",
        new="            first = msgspec.structs.replace(state, voted_id=-1)\n"
        "            replace_file(self.path, msgspec.json.encode(first), self._fs)\n"
        "            replace_file(self.path, msgspec.json.encode(state), self._fs)",
        caught_by=("R2",),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_a_power_loss_leaves_the_old_or_the_new_election_state"
        ),
        seed=56,
    ),
    Mutant(
        name="the vote is forgotten when a leader of the same epoch is followed",
        module="quorum.core.state",
        old="self.election = ElectionState(self.election.epoch, self.election.voted_for, leader)",
        new="self.election = ElectionState(self.election.epoch, None, leader)",
        caught_by=("R2",),
        directed="quorum_election",
    ),
    Mutant(
        name="a voter votes twice in an epoch",
        module="quorum.core.votes",
        old="if election.voted_for not in (None, candidate):",
        new="if False:",
        caught_by=("R2", "R3"),
        directed="quorum_split_vote",
        seed=3,
    ),
    Mutant(
        name="the vote is forgotten by a restart",
        module="quorum.core.node",
        old="            election=election,\n",
        new="            election=ElectionState(election.epoch, None, election.leader),\n",
        caught_by=("R2",),
        directed="quorum_restarted_voter",
        seed=21,
    ),
    Mutant(
        name="a response to a request that is no longer pending counts as a vote",
        module="quorum.core.elections",
        old="if voter is None or (is_vote and response.epoch != state.election.epoch):\n",
        new="voter = voter or (None if not response.granted else min(\n"
        "        (v for v in state.voters.sorted() if v not in poll.votes), default=None))\n"
        "    if voter is None:\n",
        caught_by=("R1",),
        directed="quorum_repeated_answers",
    ),
    Mutant(
        name="a duplicate response counts as a second vote",
        module="quorum.core.elections",
        old="    voter = poll.asked.pop(correlation, None)\n    is_vote",
        new="    voter = poll.asked.get(correlation)\n"
        "    if voter in poll.votes:\n"
        "        voter = min(v for v in state.voters.ids if v not in poll.votes)\n"
        "    is_vote",
        caught_by=("R1",),
        directed="quorum_repeated_answers",
        seed=3,
    ),
    Mutant(
        name="half of the voters are a majority",
        module="quorum.core.voter_set",
        old="return len(self.voters) // 2 + 1",
        new="return max(1, len(self.voters) // 2)",
        caught_by=("R1", "R8"),
        directed="quorum_two_voters",
    ),
    Mutant(
        name="a voter compares only the lengths of the logs",
        module="quorum.core.votes",
        old="return candidate_end < own_end",
        new="return candidate_end.offset < own_end.offset",
        caught_by=("R7",),
        directed="quorum_longer_log_of_an_older_epoch",
        seed=12,
    ),
    Mutant(
        name="a voter ignores the candidate's log",
        module="quorum.core.votes",
        old="return candidate_end < own_end",
        new="return False",
        caught_by=("R7",),
        directed="quorum_shorter_log",
        seed=2,
    ),
    Mutant(
        name="a leader leads the same epoch again after a restart",
        module="quorum.core.node",
        old="    leader = state.election.leader\n    if leader not in",
        new="    leader = state.election.leader\n"
        "    if leader == state.me.id:\n"
        "        from quorum.core.replica_progress import ProgressTracker\n"
        "        return Leader(epoch=state.election.epoch, since_ms=now_ms,\n"
        "            epoch_start=state.log.end.offset,\n"
        "            tracker=ProgressTracker(state.voters, state.me.id),\n"
        "            check_quorum_ms=now_ms + state.timeouts.check_quorum_ms, announce_ms=now_ms)\n"
        "    if leader not in",
        caught_by=("R11",),
        directed="quorum_restarted_leader",
        seed=1,
    ),
    Mutant(
        name="pre-votes count as votes",
        module="quorum.core.elections",
        old="_poll(state, Candidate(), cause, now_ms)",
        new="_poll(state, Candidate(votes={**getattr(state.role, 'votes', {})}), cause, now_ms)",
        caught_by=("R1",),
        directed="quorum_pre_vote",
    ),
    Mutant(
        name="a pre-vote is persisted like a vote",
        module="quorum.core.elections",
        old="    _let_go_first(state, request, now_ms)\n    return",
        new="    state.election = ElectionState(state.election.epoch, request.candidate)\n"
        "    return",
        caught_by=("R2",),
        directed="quorum_pre_vote",
    ),
    Mutant(
        name="a follower with a live leader grants a pre-vote",
        module="quorum.core.state",
        old="                return now_ms < heard_ms + self.timeouts.fetch_timeout_ms\n",
        new="                return False\n",
        caught_by=("R25",),
        directed="quorum_leader_stickiness",
        seed=1,
    ),
    Mutant(
        name="a leader grants a pre-vote",
        module="quorum.core.elections",
        old="    return isinstance(state.role, Leader) or state.hears_leader(now_ms)\n",
        new="    return not isinstance(state.role, Leader) and state.hears_leader(now_ms)\n",
        caught_by=("R25",),
        directed="quorum_pre_vote",
        seed=5,
    ),
    Mutant(
        name="a voter grants a pre-vote although its leader is alive",
        module="quorum.core.elections",
        old="    if _leader_lives(state, now_ms) or is_behind(",
        new="    if is_behind(",
        caught_by=("R25",),
        directed="quorum_pre_vote",
        seed=1,
    ),
    Mutant(
        name="a prospective that lost the pre-vote becomes a candidate",
        module="quorum.core.elections",
        old="        case Tally.LOST:\n            _lose(state, poll, now_ms)\n",
        new="        case Tally.LOST if isinstance(poll, Prospective):\n"
        "            campaign(state, Cause.MAJORITY_WOULD_GRANT, now_ms)\n"
        "        case Tally.LOST:\n            _lose(state, poll, now_ms)\n",
        caught_by=("R25",),
        directed="quorum_backoff",
        seed=1,
    ),
    Mutant(
        name="half of the pre-votes are enough to become a candidate",
        module="quorum.core.elections",
        old="        case Tally.PENDING if not poll.asked and not all(poll.votes.values()):\n",
        new="        case Tally.PENDING if isinstance(poll, Prospective) and any(\n"
        "                poll.votes.values()):\n"
        "            campaign(state, Cause.MAJORITY_WOULD_GRANT, now_ms)\n"
        "        case Tally.PENDING if not poll.asked and not all(poll.votes.values()):\n",
        caught_by=("R25",),
        directed="quorum_pre_vote",
    ),
    Mutant(
        name="a follower counts a leader named by others as heard from",
        module="quorum.core.state",
        old="self.become(Follower(leader, self.next_fetch_timeout_ms(now_ms)), Cause.LEADER_FOUND)",
        new="self.become(Follower(leader, self.next_fetch_timeout_ms(now_ms), heard_ms=now_ms),\n"
        "            Cause.LEADER_FOUND)",
        caught_by=("liveness",),
        directed="quorum_leader_named_by_others",
        seed=15,
    ),
    Mutant(
        name="a leader without fetches does not resign",
        module="quorum.core.leader",
        old="heard_ms + state.timeouts.check_quorum_ms",
        new="heard_ms + 100 * state.timeouts.check_quorum_ms",
        caught_by=("R26",),
        directed="quorum_check_quorum",
        seed=57,
    ),
    Mutant(
        name="a vote is persisted only together with a new epoch",
        module="quorum.core.node",
        old="state.election is not remembered and state.election != remembered:",
        new="state.election.epoch != remembered.epoch:",
        caught_by=("R3",),
        directed="quorum_crashed_follower",
        seed=1,
    ),
    Mutant(
        name="check quorum counts the leader twice",
        module="quorum.core.leader",
        old="others_needed = state.voters.majority - state.is_voter\n",
        new="others_needed = max(0, state.voters.majority - 2 * state.is_voter)\n",
        caught_by=("R26",),
        directed="quorum_check_quorum",
        seed=20,
    ),
    Mutant(
        name="a leader that began as the only voter never checks its quorum",
        module="quorum.core.leader",
        old="    if leader.announce_ms is not None:\n        _announce(state, leader, now_ms)\n",
        new="    _announce(state, leader, now_ms)\n",
        caught_by=("R26",),
        directed="quorum_lone_voter_grows",
        seed=212,
    ),
    Mutant(
        name="fetches of observers count for check quorum",
        module="quorum.core.leader",
        old="each.last_fetch_ms\n            for each in leader.tracker.voters.values()",
        new=("each.last_fetch_ms\n            for each in leader.tracker.last_fetched_first()"),
        caught_by=("R26",),
        directed="quorum_voters_one_at_a_time",
        seed=47,
    ),
    Mutant(
        name="a resignation of an earlier epoch counts for the current one",
        module="quorum.core.elections",
        old="    if request.epoch < state.election.epoch:\n        return Error.FENCED",
        new="    if request.epoch < state.election.epoch and isinstance(request, "
        "BeginQuorumEpochRequest):\n        return Error.FENCED",
        caught_by=("R25",),
        directed="quorum_late_announcements",
        seed=4,
    ),
    Mutant(
        name="the vote of one epoch is kept in the next",
        module="quorum.core.state",
        old="        self.election = ElectionState(epoch)\n",
        new="        self.election = ElectionState(epoch, self.election.voted_for)\n",
        caught_by=("liveness", "R2", "R3"),
        directed="quorum_backoff",
    ),
    Mutant(
        name="a voter grants a vote that was requested from another directory id",
        module="quorum.core.elections",
        old="    elif not is_meant(request.voter, state.me):\n"
        "        state.answer(asker, _response(",
        new="    elif False:\n        state.answer(asker, _response(",
        caught_by=("R1", "R25"),
        directed="quorum_voters_wiped_disk",
        seed=5,
    ),
    Mutant(
        name="a candidate waits for a voter that does not support pre-votes",
        module="quorum.core.elections",
        old="    if not is_vote and response.error is Error.UNSUPPORTED_VERSION:\n",
        new="    if False:\n",
        caught_by=("liveness",),
        directed=(
            "tests/quorum/core/test_leader_discovery.py::"
            "test_a_voter_without_pre_votes_makes_the_asker_stand_at_once"
        ),
        seed=3,
    ),
    Mutant(
        name="a refused answer to a fetch restarts the fetch time-out",
        module="quorum.core.follower",
        old='sent what cannot be: {refusal}"))\n',
        new='sent what cannot be: {refusal}"))\n        state.hear(follower, now_ms)\n',
        caught_by=("R34",),
        directed=_FAULTY_LEADER,
        seed=71,
    ),
    Mutant(
        name="a refused answer to a fetch is followed by the next fetch at once",
        module="quorum.core.follower",
        old='sent what cannot be: {refusal}"))\n        state.fetching.failed(now_ms)\n',
        new='sent what cannot be: {refusal}"))\n        state.fetching.reset()\n',
        caught_by=("R34",),
        directed=_FAULTY_LEADER,
        seed=215,
    ),
    Mutant(
        name="half an id in the answer to a fetch is taken for none",
        module="quorum.protocol.fetch_messages",
        old="    if value.epoch < 0 and value.end_offset < 0:\n",
        new="    if value.epoch < 0 or value.end_offset < 0:\n",
        caught_by=("R34",),
        directed=(
            "tests/quorum/protocol/test_fetch_messages.py::"
            "test_half_an_id_of_a_snapshot_is_no_answer"
        ),
        seed=107,
    ),
)

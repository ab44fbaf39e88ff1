"""The invariants of the quorum: violations that are found, and runs that pass."""

import logging
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from chaos.invariants.cross_node import SLACK_MS as ROLL_SLACK_MS
from chaos.invariants.cross_node import DurabilityRegressions, VoterChangeInvariant
from chaos.invariants.durable_state import DurableState, DurableVote, Incarnation
from chaos.invariants.leadership import SLACK_MS, LeaderStickiness, StaleLeaderInvariant
from chaos.invariants.quorum import QuorumInvariants
from chaos.invariants.voter_sets import VoterSet, VoterSets
from chaos.violation import Violation
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    RemoveVoterRequest,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey

IDS = [ReplicaId(each) for each in (1, 2, 3)]
ONE = ReplicaKey(IDS[0])
MORE = VoterSet(7, 8, 2, tuple(map(ReplicaKey, [*IDS, ReplicaId(4)])), None)


def test_a_candidate_may_ask_the_voters_of_its_own_log() -> None:
    VoterSets(IDS).check_asked(ONE, ReplicaId(4), [MORE], 8, OffsetAndEpoch(Epoch(2), Offset(8)))


def test_a_candidate_may_ask_voters_that_its_disk_does_not_have_yet() -> None:
    voter_sets = VoterSets(IDS)
    voter_sets.append([], 7, MORE, committed=7, opened=True)
    voter_sets.check_asked(ONE, ReplicaId(4), [], 7, OffsetAndEpoch(Epoch(2), Offset(8)))


@pytest.mark.parametrize(
    "end", [OffsetAndEpoch(Epoch(2), Offset(7)), OffsetAndEpoch(Epoch(3), Offset(8))]
)
def test_it_may_not_ask_those_of_an_assignment_that_was_cut(end: OffsetAndEpoch) -> None:
    voter_sets = VoterSets(IDS)
    voter_sets.append([], 7, MORE, committed=7, opened=True)
    with pytest.raises(Violation, match="R17"):
        voter_sets.check_asked(ONE, ReplicaId(4), [], 7, end)


FETCH_TIMEOUT_MS = 400
SILENT_MS_MAX = 600 + SLACK_MS
BEGIN = BeginQuorumEpochRequest(epoch=Epoch(1), leader=IDS[0], voter=ReplicaKey(IDS[1]))


@pytest.fixture
def leader() -> Incarnation:
    return Incarnation(
        ReplicaKey(IDS[0]), 1, DurableState(Path("/log"), QuorumInvariants(IDS).history)
    )


def fetch_of(replica: ReplicaId) -> FetchRequest:
    log_end = OffsetAndEpoch(Epoch(1), Offset(1))
    return FetchRequest(
        replica=ReplicaKey(replica), epoch=Epoch(1), log_end=log_end, max_wait_ms=0, max_bytes=1
    )


def test_a_leader_that_no_majority_fetches_from_may_not_lead_on(leader: Incarnation) -> None:
    invariant = StaleLeaderInvariant(QuorumInvariants(IDS), FETCH_TIMEOUT_MS)
    invariant.says(leader, BEGIN, 0)
    invariant.request_received(leader, fetch_of(ReplicaId(101)), 500)
    invariant.says(leader, BEGIN, SILENT_MS_MAX)
    with pytest.raises(Violation, match="R26"):
        invariant.says(leader, BEGIN, SILENT_MS_MAX + 1)


def test_one_that_a_majority_fetches_from_may(leader: Incarnation) -> None:
    invariant = StaleLeaderInvariant(QuorumInvariants(IDS), FETCH_TIMEOUT_MS)
    invariant.says(leader, BEGIN, 0)
    invariant.request_received(leader, fetch_of(IDS[1]), 500)
    invariant.says(leader, BEGIN, SILENT_MS_MAX + 1)


def test_a_leader_that_is_the_only_voter_needs_no_fetches(leader: Incarnation) -> None:
    invariant = StaleLeaderInvariant(QuorumInvariants(IDS[:1]), FETCH_TIMEOUT_MS)
    invariant.says(leader, BEGIN, 0)
    invariant.says(leader, BEGIN, 1_000_000)


def test_a_leader_that_was_the_only_voter_needs_the_added_voters(leader: Incarnation) -> None:
    judge, durable = QuorumInvariants(IDS[:1]), leader.durable
    invariant = StaleLeaderInvariant(judge, FETCH_TIMEOUT_MS)
    invariant.says(leader, BEGIN, 0)
    durable.assigned.append(assignment(7, 1, IDS[:2]))
    durable.ends.append(8)
    invariant.request_received(leader, fetch_of(IDS[1]), 10_000)
    invariant.says(leader, BEGIN, 10_000 + SILENT_MS_MAX)
    with pytest.raises(Violation, match="R26"):
        invariant.says(leader, BEGIN, 10_000 + SILENT_MS_MAX + 1)


def assignment(base: int, epoch: int, voters: list[ReplicaId]) -> VoterSet:
    return VoterSet(base, base + 1, epoch, tuple(map(ReplicaKey, voters)), None)


def test_voters_that_are_named_before_the_last_are_committed_are_seen_on_any_disk() -> None:
    """R15: whoever holds both, and whether or not the leader's state machine was told of them."""
    voter_sets = VoterSets(IDS)
    first, second = assignment(7, 2, [*IDS, ReplicaId(4)]), assignment(8, 2, IDS)
    assert voter_sets.append([first], 9, first, committed=7, opened=True)
    with pytest.raises(Violation, match="R15"):
        voter_sets.append([first, second], 9, second, committed=7, opened=True)


def test_a_known_voter_set_is_not_new() -> None:
    voter_sets = VoterSets(IDS)
    assert voter_sets.append([], 7, MORE, committed=7, opened=True)
    assert not voter_sets.append([MORE], 8, MORE, committed=0, opened=False)


THREE = VoterSet(0, 7, 1, tuple(map(ReplicaKey, IDS)), None)
TWO = VoterSet(7, 8, 1, (ReplicaKey(IDS[0]), ReplicaKey(IDS[2])), None)
REMOVAL = RemoveVoterRequest(voter=ReplicaKey(IDS[1]), timeout_ms=1_000)


def test_voters_are_changed_only_to_those_of_whom_a_majority_has_fetched_since(
    leader: Incarnation,
) -> None:
    rolls = VoterChangeInvariant(VoterSets(IDS), FETCH_TIMEOUT_MS)
    rolls.request_received(leader, fetch_of(IDS[2]), 0)
    rolls.names(leader, THREE, TWO, FETCH_TIMEOUT_MS + ROLL_SLACK_MS)


@pytest.mark.parametrize("id_", [IDS[1], ReplicaId(4)])
def test_the_fetches_of_others_do_not_count_for_it(leader: Incarnation, id_: ReplicaId) -> None:
    rolls = VoterChangeInvariant(VoterSets(IDS), FETCH_TIMEOUT_MS)
    rolls.request_received(leader, fetch_of(id_), 0)
    with pytest.raises(Violation, match="R28"):
        rolls.names(leader, THREE, TWO, 0)


def test_fetches_before_a_request_or_a_change_and_old_ones_do_not_count(
    leader: Incarnation,
) -> None:
    rolls = VoterChangeInvariant(VoterSets(IDS), FETCH_TIMEOUT_MS)
    rolls.request_received(leader, fetch_of(IDS[2]), 0)
    rolls.wanted(leader.boot, REMOVAL)
    rolls.turned(leader.boot)
    with pytest.raises(Violation, match="R28"):
        rolls.names(leader, THREE, TWO, 0)
    rolls.request_received(leader, fetch_of(IDS[2]), 0)
    rolls.names(leader, THREE, TWO, 0)
    with pytest.raises(Violation, match="R28"):
        rolls.names(leader, TWO, THREE, 0)
    rolls.request_received(leader, fetch_of(IDS[2]), 0)
    with pytest.raises(Violation, match="R28"):
        rolls.names(leader, THREE, TWO, FETCH_TIMEOUT_MS + ROLL_SLACK_MS + 1)


def test_a_request_that_is_refused_at_once_is_nothing_that_a_change_is_for(
    leader: Incarnation,
) -> None:
    """Its leader may be about to change voters for one that it has taken before."""
    rolls = VoterChangeInvariant(VoterSets(IDS), FETCH_TIMEOUT_MS)
    rolls.request_received(leader, fetch_of(IDS[2]), 0)
    rolls.wanted(leader.boot, REMOVAL)
    rolls.refused(leader.boot, REMOVAL)
    rolls.turned(leader.boot)
    rolls.names(leader, THREE, TWO, 0)


@pytest.mark.parametrize("is_too_late", [False, True])
def test_one_of_two_that_is_taken_or_refused_later_is(
    leader: Incarnation, is_too_late: bool
) -> None:
    rolls = VoterChangeInvariant(VoterSets(IDS), FETCH_TIMEOUT_MS)
    rolls.request_received(leader, fetch_of(IDS[2]), 0)
    for _ in range(2):
        rolls.wanted(leader.boot, REMOVAL)
    if not is_too_late:
        rolls.refused(leader.boot, REMOVAL)
    rolls.turned(leader.boot)
    rolls.refused(leader.boot, REMOVAL)
    with pytest.raises(Violation, match="R28"):
        rolls.names(leader, THREE, TWO, 0)


STANDS = VoteRequest(
    epoch=Epoch(3),
    candidate=ONE,
    log_end=OffsetAndEpoch(Epoch(2), Offset(8)),
    voter=ReplicaKey(IDS[1]),
    pre_vote=False,
)


@pytest.mark.parametrize("is_promised", [False, True])
def test_a_candidate_is_judged_by_its_own_log_and_not_by_another_leaders_voters(
    leader: Incarnation, is_promised: bool
) -> None:
    """R25: its disk may hold it up until that one leads."""
    judge = QuorumInvariants(IDS)
    stickiness = LeaderStickiness(judge, FETCH_TIMEOUT_MS)
    for base, voters in enumerate((IDS[1:], IDS[2:]), 9):
        named = assignment(base, 3, voters)
        assert judge.voter_sets.append([], 8, named, committed=base, opened=True)
        judge.history.assigned.append(named)
    if is_promised:
        promising = Incarnation(ReplicaKey(IDS[1]), 2, DurableState(Path("/log"), judge.history))
        stickiness.promises(promising, leader.boot, 0, 0)
        stickiness.request_sent(leader, IDS[1], STANDS, 1)
        return
    with pytest.raises(Violation, match="R25"):
        stickiness.request_sent(leader, IDS[1], STANDS, 1)


def test_another_target_or_the_directory_of_a_voter_needs_nobody(leader: Incarnation) -> None:
    named = tuple(ReplicaKey(each, UUID(int=each)) for each in IDS)
    for new in (THREE._replace(target=named[:1]), THREE._replace(voters=named)):
        VoterChangeInvariant(VoterSets(IDS), FETCH_TIMEOUT_MS).names(leader, THREE, new, 0)


def test_a_new_process_leads_no_epoch_that_an_earlier_one_led() -> None:
    """A process was killed when its disk said that it leads, and nobody had heard of it yet."""
    judge = QuorumInvariants(IDS[:1])
    durable = DurableState(Path("/log"), judge.history)
    durable.vote = DurableVote(1, IDS[0], IDS[0])
    started = Incarnation(ReplicaKey(IDS[0]), 2, durable, led=1)
    judge.vote_kept(started)
    assert not judge.leads(started, 1)
    with pytest.raises(Violation, match="R11"):
        judge.request_sent(started, IDS[1], BEGIN)


def lapse_of(
    judge: QuorumInvariants,
    leader: Incarnation,
    *ends: int,
    told: str = "",
    last: OffsetAndEpoch | None = None,
) -> None:
    """A voter's fetches from these offsets are answered, after this was warned of; the last one by
    this snapshot."""
    lapses = DurabilityRegressions(judge, lambda _: None)
    for end in ends:
        request = replace(fetch_of(IDS[1]), log_end=OffsetAndEpoch(Epoch(1), Offset(end)))
        if told:
            with lapses.listening():
                logging.getLogger("quorum").warning("%s", told)
        response = FetchResponse(epoch=Epoch(1), leader=leader.id)
        if end == ends[-1]:
            response = replace(response, snapshot=last)
        lapses.response_sent(leader, request, response)


FORGOTTEN = (
    f"voter {ReplicaKey(IDS[1])} fetches from offset 3, but had acknowledged everything below 7: "
    "its disk has lost that, or an older copy of its folder was put back."
)


def test_a_leader_must_report_a_voter_that_lost_acknowledged_records(leader: Incarnation) -> None:
    judge = QuorumInvariants(IDS)
    lapse_of(judge, leader, 3, 7, 7, 9)
    with pytest.raises(Violation, match=r"R12.*fetches from offset 3"):
        lapse_of(judge, leader, 7, 3)
    lapse_of(judge, leader, 7, 3, told=FORGOTTEN)
    with pytest.raises(Violation, match="R12"):
        lapse_of(judge, leader, 8, 3, told=FORGOTTEN)


def test_a_voter_that_lost_acknowledged_records_is_reported_although_it_needs_a_snapshot(
    leader: Incarnation,
) -> None:
    judge, snapshot = QuorumInvariants(IDS), OffsetAndEpoch(Epoch(1), Offset(5))
    lapse_of(judge, leader, 7, 7, last=snapshot)
    with pytest.raises(Violation, match=r"R12.*fetches from offset 3"):
        lapse_of(judge, leader, 7, 3, last=snapshot)
    lapse_of(judge, leader, 7, 3, told=FORGOTTEN, last=snapshot)


def test_a_leader_need_not_report_an_observer_that_lost_records(leader: Incarnation) -> None:
    lapse_of(QuorumInvariants([IDS[0], IDS[2]]), leader, 7, 3)


def test_a_lead_is_handed_over_when_all_that_was_proposed_is_committed(leader: Incarnation) -> None:
    judge = QuorumInvariants(IDS)
    judge.hands_over(leader, 0)
    with pytest.raises(Violation, match="R29"):
        judge.hands_over(leader, 1)


def test_the_votes_of_an_older_copy_of_a_disk_may_be_given_anew_and_no_others(
    leader: Incarnation,
) -> None:
    judge = QuorumInvariants(IDS)
    for epoch, candidate in ((1, 2), (2, 2)):
        leader.durable.vote = DurableVote(epoch, candidate)
        judge.response_sent(leader, IDS[1], vote_of(epoch, candidate), granted(epoch), b"")
    judge.forget_since(leader.key, DurableVote(1, 2))
    leader.durable.vote = DurableVote(2, 3)
    judge.response_sent(leader, IDS[2], vote_of(2, 3), granted(2), b"")
    leader.durable.vote = DurableVote(1, 3)
    with pytest.raises(Violation, match="R2"):
        judge.response_sent(leader, IDS[2], vote_of(1, 3), granted(1), b"")


def vote_of(epoch: int, candidate: int) -> VoteRequest:
    key = ReplicaKey(ReplicaId(candidate))
    return VoteRequest(
        epoch=Epoch(epoch), candidate=key, log_end=OffsetAndEpoch(Epoch(1), Offset(1))
    )


def granted(epoch: int) -> VoteResponse:
    return VoteResponse(epoch=Epoch(epoch), granted=True)


WIPED = ReplicaKey(IDS[0], UUID(int=8))
KNOWN = tuple(ReplicaKey(each, UUID(int=each)) for each in IDS)


@pytest.mark.parametrize("who", [WIPED, ReplicaKey(ReplicaId(9))])
def test_a_replica_that_is_no_voter_by_its_own_log_may_ask_nobody(who: ReplicaKey) -> None:
    log = [VoterSet(0, 3, 1, KNOWN, None), VoterSet(3, 4, 1, KNOWN, None)]
    with pytest.raises(Violation, match="R17"):
        VoterSets(IDS).check_asked(who, IDS[1], log, 4, OffsetAndEpoch(Epoch(1), Offset(4)))


def test_a_voter_that_was_just_removed_may_ask_for_votes() -> None:
    log = [VoterSet(0, 3, 1, KNOWN, None), VoterSet(3, 4, 1, KNOWN[1:], None)]
    VoterSets(IDS).check_asked(KNOWN[0], IDS[1], log, 4, OffsetAndEpoch(Epoch(1), Offset(4)))

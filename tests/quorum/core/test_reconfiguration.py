"""The steps between voter sets: one voter at a time, and the target is always reached."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    Error,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from quorum.core.reconfiguration import (
    QuorumView,
    Refusal,
    difference,
    next_step,
    outcome_of,
)
from quorum.core.replica_progress import ReplicaProgress
from quorum.core.vocabulary import Epoch, Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet, Wait, WaitReason

HIGH_WATERMARK = Offset(100)
UNKNOWN = UUID(int=0)
NOW_MS = 2
JUST_DIED_MS = 1
"""The last fetch of a replica that is live, but has not fetched since the step was due."""


def key(number: int, directory: int | None = None) -> ReplicaKey:
    """The directory is the number a thousandfold unless it is named."""
    return ReplicaKey(
        ReplicaId(number), UUID(int=number * 1_000 if directory is None else directory)
    )


def by_id(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(ReplicaId(each), UNKNOWN) for each in ids)


def listening(number: int) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", "127.0.0.1", 9_000 + number),)


def voter(number: int) -> Voter:
    return Voter(key(number), listening(number))


def voting(*ids: int) -> VoterSet:
    return VoterSet(tuple(voter(each) for each in ids))


def seen(
    number: int,
    *,
    directory: int | None = None,
    at: int = HIGH_WATERMARK,
    fetched_ms: int | None = NOW_MS,
    level_ms: int | None = None,
) -> ReplicaProgress:
    return ReplicaProgress(
        key(number, directory),
        log_end=Offset(at),
        last_fetch_ms=fetched_ms,
        last_caught_up_ms=level_ms,
    )


def dead(number: int) -> ReplicaProgress:
    return seen(number, fetched_ms=None)


def view(
    current: VoterSet,
    target: tuple[ReplicaKey, ...] | None,
    *others: ReplicaProgress,
    me: int = 1,
    located: tuple[int, ...] = (),
) -> QuorumView:
    """All replicas up to 9 that are not among `others` are live and have caught up."""
    named = {each.replica.id for each in others}
    replicas = *others, *(seen(each) for each in range(1, 10) if each not in named)
    return QuorumView(
        me=key(me),
        assignment=VoterAssignment(current, target),
        replicas=replicas,
        present={e.replica.id: e.replica for e in replicas if e.last_fetch_ms == NOW_MS},
        high_watermark=HIGH_WATERMARK,
        located={key(each): listening(each) for each in located or range(1, 10)},
    )


def steps(start: QuorumView) -> Iterator[VoterAssignment]:
    """Every assignment on the way; whoever leads and is removed is followed by another voter."""
    at = start
    while isinstance(step := next_step(at), VoterAssignment):
        yield step
        me = at.me if step.current.has(at.me) else step.current.voters[0].key
        at = replace(at, assignment=step, me=me)


def test_three_voters_give_way_to_three_others_one_at_a_time() -> None:
    start = view(voting(1, 2, 3), by_id(4, 5, 6))
    assert [each.current.sorted() for each in steps(start)] == [
        (1, 2, 3, 4),
        (1, 3, 4),
        (1, 3, 4, 5),
        (1, 4, 5),
        (1, 4, 5, 6),
        (4, 5, 6),
    ]
    *under_way, last = steps(start)
    assert all(each.target == by_id(4, 5, 6) for each in under_way)
    assert last.target is None


ids = st.sets(st.integers(1, 8), min_size=1, max_size=5)


@given(ids, ids, st.data())
def test_consecutive_sets_differ_in_one_voter_and_reach_the_target(
    current: set[int], target: set[int], data: st.DataObject
) -> None:
    me = data.draw(st.sampled_from(sorted(current)))
    before = voting(*current)
    start = view(before, by_id(*target), me=me)
    taken = list(steps(start))
    for step in taken:
        assert len(set(before.voters) ^ set(step.current.voters)) <= 1
        assert step.current.voters
        before = step.current
    assert before.sorted() == tuple(sorted(target))
    assert len(taken) <= len(current) + len(target) + 1
    assert taken[-1].target is None


@given(ids, ids, st.sets(st.integers(1, 8)), st.data())
def test_a_step_leaves_voters_of_whom_a_majority_fetches(
    current: set[int], target: set[int], gone: set[int], data: st.DataObject
) -> None:
    """Every appended set can be committed and leads to the target, whichever voters are dead, also
    those that have just died."""
    me = data.draw(st.sampled_from(sorted(current)))
    just_now = data.draw(st.sets(st.sampled_from(sorted(gone)))) if gone else set()
    silent = (
        seen(each, fetched_ms=JUST_DIED_MS if each in just_now else None)
        for each in sorted(gone - {me})
    )
    step = next_step(view(voting(*current), by_id(*target), *silent, me=me))
    if isinstance(step, VoterAssignment) and step.current != voting(*current):
        live = set(step.current.sorted()) - (gone - {me})
        assert 2 * len(live) > len(step.current)
        assert set(step.current.sorted()) <= current | target
        assert len(set(step.current.sorted()) ^ current) <= 1


@given(ids, ids)
def test_the_steps_to_a_target_do_not_depend_on_the_leader(
    current: set[int], target: set[int]
) -> None:
    """A new leader goes on where the old one stopped: the sets are all that it needs."""
    sizes = {
        len(step.current)
        for me in current
        if isinstance(
            step := next_step(view(voting(*current), by_id(*target), me=me)), VoterAssignment
        )
    }
    assert len(sizes) == 1


def test_dead_voters_are_removed_first_then_the_furthest_behind_and_the_leader_last() -> None:
    def gone(*others: ReplicaProgress, current: tuple[int, ...] = (1, 2, 3, 9)) -> set[int]:
        step = next_step(view(voting(*current), by_id(9), *others))
        assert isinstance(step, VoterAssignment)
        return set(current) - set(step.current.sorted())

    assert gone() == {2}
    assert gone(dead(3)) == {3}
    assert gone(seen(3, at=50)) == {3}
    assert gone(dead(2), current=(1, 2, 9)) == {2}
    assert gone(current=(1, 9)) == {1}


@pytest.mark.parametrize(
    ("others", "located", "why"),
    [
        ((dead(4),), (), "4: they do not fetch from the leader"),
        ((seen(4, at=99),), (), "4: they have not caught up with the leader's log yet"),
        ((), (5, 6), "4: it is not known where they listen"),
    ],
)
def test_a_replica_that_cannot_vote_yet_is_waited_for(
    others: tuple[ReplicaProgress, ...], located: tuple[int, ...], why: str
) -> None:
    step = next_step(view(voting(1, 2, 3), by_id(2, 3, 4), *others, located=located))
    assert str(step) == why


def test_of_several_missing_voters_the_closest_are_named() -> None:
    behind, gone = seen(4, at=1), dead(5)
    step = next_step(view(voting(1, 2, 3), by_id(4, 5), behind, gone))
    assert step == Wait(WaitReason.CATCHING_UP, (ReplicaId(4),))


def test_under_load_a_voter_level_at_its_last_fetch_is_not_waited_for() -> None:
    level = seen(4, at=HIGH_WATERMARK - 3, level_ms=NOW_MS)
    step = next_step(view(voting(1, 2, 3), by_id(2, 3, 4), level))
    assert isinstance(step, VoterAssignment)
    assert step.current.sorted() == (1, 2, 3, 4)


def test_one_replica_that_is_dead_does_not_hold_up_the_others() -> None:
    step = next_step(view(voting(1, 2, 3), by_id(4, 5, 6), dead(4)))
    assert isinstance(step, VoterAssignment)
    assert step.current.sorted() == (1, 2, 3, 5)


def test_a_step_that_could_not_be_committed_is_not_taken() -> None:
    both = dead(2), dead(3)
    step = next_step(view(voting(1, 2, 3), by_id(1, 2, 3, 4), *both))
    assert step == Wait(WaitReason.NO_MAJORITY, (ReplicaId(2), ReplicaId(3)))


def test_a_replica_that_has_not_fetched_since_a_step_was_due_does_not_count_for_it() -> None:
    just_died = seen(3, fetched_ms=JUST_DIED_MS)
    request = RemoveVoterRequest(voter=key(2), timeout_ms=1_000)
    assert outcome_of(request, view(voting(1, 2, 3), None, just_died)) == Wait(
        WaitReason.NOT_HEARD, (ReplicaId(3),)
    )
    enough = view(voting(1, 2, 3, 4), None, just_died)
    assert outcome_of(request, enough) == VoterAssignment(voting(1, 3, 4))


def test_a_voter_founded_by_its_id_alone_gets_the_directory_that_it_presents() -> None:
    current = VoterSet((voter(1), *VoterSet.of(2, 3)))
    step = next_step(view(current, None, dead(3)))
    assert isinstance(step, VoterAssignment)
    assert [each.key for each in step.current] == [key(1), key(2), *by_id(3)]


def test_another_directory_of_one_voter_comes_once_the_first_is_gone() -> None:
    wiped = seen(2, directory=77)
    start = replace(
        view(voting(1, 2, 3), (*by_id(1), key(2, 77), *by_id(3)), wiped, dead(2)),
        located={key(2, 77): listening(2)},
    )
    assert [[each.key for each in step.current] for step in steps(start)] == [
        [key(1), key(3)],
        [key(1), key(2, 77), key(3)],
    ]


def test_a_voter_named_by_its_id_alone_is_the_present_directory() -> None:
    """Its disk was lost just before: who was asked for it found the old directory still live."""
    wiped, gone = seen(2, directory=77), dead(2)
    start = replace(
        view(voting(1, 2, 3), by_id(1, 2), wiped, gone), located={key(2, 77): listening(2)}
    )
    assert [[each.key for each in step.current] for step in steps(start)] == [
        [key(1), key(3)],
        [key(1), key(2, 77), key(3)],
        [key(1), key(2, 77)],
    ]


def test_an_old_directory_goes_only_if_others_fetch_and_its_id_alone_was_named() -> None:
    wiped, gone = seen(2, directory=77), dead(2)
    alone = view(voting(1, 2, 3), by_id(1, 2), wiped, gone, dead(3))
    assert next_step(alone) == Wait(WaitReason.NO_MAJORITY, (ReplicaId(3),))
    just_died = seen(3, fetched_ms=JUST_DIED_MS)
    unsure = view(voting(1, 2, 3), by_id(1, 2), wiped, gone, just_died)
    assert next_step(unsure) == Wait(WaitReason.NOT_HEARD, (ReplicaId(3),))
    named = view(voting(1, 2, 3), (key(1), key(2)), wiped, gone)
    assert next_step(named) == Wait(WaitReason.NO_MAJORITY, (ReplicaId(2),)), "that one is meant"
    both = view(voting(1, 2, 3), by_id(1, 2), wiped, seen(2))
    assert next_step(both) == VoterAssignment(voting(1, 2)), "it fetches"


def test_a_voter_that_listens_elsewhere_is_written_down_anew() -> None:
    elsewhere = (Endpoint("CONTROLLER", "10.0.0.2", 9_093),)
    start = replace(view(voting(1, 2, 3), None), located={key(2): elsewhere})
    step = next_step(start)
    assert isinstance(step, VoterAssignment)
    assert [each.endpoints for each in step.current] == [listening(1), elsewhere, listening(3)]
    assert next_step(replace(start, assignment=step)) is None


def alter(*target: int) -> AlterQuorumRequest:
    return AlterQuorumRequest(target=by_id(*target) or None, timeout_ms=1_000)


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        (
            AddVoterRequest(voter=voter(2), timeout_ms=1_000),
            Error.DUPLICATE_VOTER,
            "voter 2 is one already",
        ),
        (
            RemoveVoterRequest(voter=key(4), timeout_ms=1_000),
            Error.VOTER_NOT_FOUND,
            "is no voter; voters are",
        ),
        (
            RemoveVoterRequest(voter=key(2, 77), timeout_ms=1_000),
            Error.VOTER_NOT_FOUND,
            "is no voter; voters are",
        ),
        (
            UpdateVoterRequest(epoch=Epoch(1), voter=voter(4), timeout_ms=1_000),
            Error.VOTER_NOT_FOUND,
            "is no voter",
        ),
        (
            AlterQuorumRequest(target=(key(1, 5), key(1, 6)), timeout_ms=1_000),
            Error.INVALID_REQUEST,
            "voter 1 is named twice",
        ),
        (
            AlterQuorumRequest(target=(), timeout_ms=1_000),
            Error.INVALID_REQUEST,
            "no voter is named",
        ),
    ],
)
def test_an_invalid_voter_request_is_refused_with_the_reason(
    request_: VoterRequest, error: Error, text: str
) -> None:
    outcome = outcome_of(request_, view(voting(1, 2, 3), None))
    assert isinstance(outcome, Refusal)
    assert outcome.error is error
    assert text in outcome.text


def test_the_only_voter_cannot_be_removed_nor_replaced_by_its_own_new_directory() -> None:
    alone = view(voting(1), None)
    for request in (
        RemoveVoterRequest(voter=key(1), timeout_ms=1_000),
        AlterQuorumRequest(target=(key(1, 77),), timeout_ms=1_000),
    ):
        outcome = outcome_of(request, alone)
        assert isinstance(outcome, Refusal)
        assert "1 is the only voter" in outcome.text


def test_one_voter_is_added_or_removed_only_while_no_target_is_under_way() -> None:
    under_way = view(voting(1, 2, 3), by_id(4, 5, 6))
    for request in (
        AddVoterRequest(voter=voter(7), timeout_ms=1_000),
        RemoveVoterRequest(voter=key(3), timeout_ms=1_000),
    ):
        outcome = outcome_of(request, under_way)
        assert isinstance(outcome, Refusal)
        assert outcome.text.startswith("a change to voters 4, 5, 6 is under way")


def test_a_target_is_recorded_replaced_and_cancelled_at_any_time() -> None:
    voters = voting(1, 2, 3)
    start, under_way = view(voters, None), view(voters, by_id(4, 5, 6))
    assert outcome_of(alter(4, 5, 6), start) == VoterAssignment(voters, by_id(4, 5, 6))
    assert outcome_of(alter(1, 2, 7), under_way) == VoterAssignment(voters, by_id(1, 2, 7))
    assert outcome_of(alter(), under_way) == VoterAssignment(voters)
    assert outcome_of(alter(1, 2, 3), under_way) == VoterAssignment(voters)
    assert outcome_of(alter(4, 5, 6), under_way) is None
    assert outcome_of(alter(1, 2, 3), start) is None
    assert outcome_of(alter(), start) is None


def test_an_added_voter_has_its_address_and_has_caught_up() -> None:
    voters = voting(1, 2, 3)
    request = AddVoterRequest(voter=voter(4), timeout_ms=1_000)
    assert outcome_of(request, view(voters, None, located=(9,))) == VoterAssignment(
        voting(1, 2, 3, 4)
    )
    waiting = outcome_of(request, view(voters, None, seen(4, at=7)))
    assert waiting == Wait(WaitReason.CATCHING_UP, (ReplicaId(4),))


def test_difference_goes_by_directory_where_one_is_named() -> None:
    assert difference(voting(1, 2), by_id(1, 2)) == ((), ())
    assert difference(voting(1, 2), (key(1, 77), *by_id(2))) == ((voter(1),), (key(1, 77),))

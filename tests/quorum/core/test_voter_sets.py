"""Voters, the assignment of a log that is in force, and the effect of a truncation."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.messages import Batch
from quorum.core.raft_log import RaftLog
from quorum.core.vocabulary import Epoch, Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Voter, VoterAssignment, VoterSet, VoterSetHistory

UNKNOWN, DISK, OTHER_DISK = UUID(int=0), UUID(int=100), UUID(int=200)


def key(number: int, directory: UUID = UNKNOWN) -> ReplicaKey:
    return ReplicaKey(ReplicaId(number), directory)


def assigned(*ids: int) -> VoterAssignment:
    return VoterAssignment(VoterSet.of(*ids))


@pytest.mark.parametrize(
    ("voter", "replica", "is_it"),
    [
        (key(1, DISK), key(1, DISK), True),
        (key(1, DISK), key(1, OTHER_DISK), False),
        (key(1, DISK), key(1), False),
        (key(1), key(1, DISK), True),
        (key(1), key(2), False),
    ],
)
def test_a_wiped_disk_is_not_the_voter_that_it_was(
    voter: ReplicaKey, replica: ReplicaKey, is_it: bool
) -> None:
    assert VoterSet((Voter(voter),)).has(replica) is is_it


@given(st.sets(st.integers(0, 20), min_size=1), st.data())
def test_any_two_majorities_of_one_set_share_a_voter(ids: set[int], data: st.DataObject) -> None:
    voters = VoterSet.of(*ids)
    one, other = (
        set(data.draw(st.permutations(voters.sorted()))[: voters.majority]) for _ in range(2)
    )
    assert one & other
    assert 2 * (voters.majority - 1) <= len(voters)


def test_two_voters_of_one_id_are_no_set() -> None:
    with pytest.raises(AssertionError, match="two voters of one id"):
        VoterSet((Voter(key(1, DISK)), Voter(key(1, OTHER_DISK))))


def test_the_last_assignment_is_in_force_and_a_truncation_reverts_it() -> None:
    first = VoterSetHistory([(Offset(3), assigned(1))])
    view = RaftLog(Offset(0), Offset(5), [(Epoch(1), Offset(0))], assignments=first)
    view.append(Batch(Offset(5), Offset(6), Epoch(1), assigned(1, 2)))
    view.append(Batch(Offset(6), Offset(9), Epoch(1)))
    assert view.assignments.last == assigned(1, 2)
    assert view.assignments.last_end == 6
    view.truncate(Offset(6))
    assert view.assignments.last == assigned(1, 2)
    view.truncate(Offset(5))
    assert view.assignments.last == assigned(1)
    view.truncate(Offset(0))
    assert view.assignments.last is None


def test_a_log_continues_from_the_voters_of_its_snapshot() -> None:
    known = VoterSetHistory([(Offset(8), assigned(1, 2))], base=assigned(1))
    assert [known.at(Offset(at)) for at in (7, 8, 9)] == [assigned(1), *[assigned(1, 2)] * 2]
    known.truncate(Offset(5))
    assert known.last == assigned(1)


def test_an_assignment_below_the_log_start_stays_in_force() -> None:
    known = VoterSetHistory([(Offset(3), assigned(1)), (Offset(8), assigned(1, 2))])
    known.forget_below(Offset(3))
    assert known.at(Offset(7)) == assigned(1)
    known.forget_below(Offset(20))
    assert known.last == assigned(1, 2)
    known.truncate(Offset(20))
    assert known.last == assigned(1, 2)


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 12))
def test_a_truncated_log_knows_the_voters_of_a_log_that_was_never_longer(
    sizes: list[int], kept: int
) -> None:
    """A size of 0 stands for a batch that names voters; the twin is a plain list."""
    log, twin = RaftLog(Offset(0), Offset(0), ()), []
    for number, size in enumerate(sizes):
        end = Offset(log.end.offset + max(1, size))
        assignment = assigned(*range(number + 1)) if size == 0 else None
        log.append(Batch(log.end.offset, end, Epoch(1), assignment))
        twin.append((end, assignment))
    cut = [end for end, _ in twin][:kept][-1:] or [Offset(0)]
    log.truncate(cut[0])
    expected = [each for end, each in twin if end <= cut[0] and each is not None]
    assert log.assignments.last == (expected[-1] if expected else None)

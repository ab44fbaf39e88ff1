"""R24, bounded queues: violations that are found, and queues that pass."""

from collections.abc import Callable

import pytest

from chaos.invariants.queue_bounds import RECORDED_MAX, WORK_MAX, Queues, Waiting, check_disk_queue
from chaos.violation import Violation
from quorum.core.limits import Bounds
from quorum.core.messages import FetchRequest, FetchSnapshotRequest
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey

BOUNDS = Bounds(
    uncommitted_records=5,
    uncommitted_bytes=9,
    parked_fetches=2,
    observers=3,
    reads=2,
    voter_requests=2,
    transfer_askers=2,
)
END = OffsetAndEpoch(Epoch(1), Offset(1))
ME = ReplicaKey(ReplicaId(9))
FETCH = FetchRequest(replica=ME, epoch=Epoch(1), log_end=END, max_wait_ms=0, max_bytes=1)
PART = FetchSnapshotRequest(replica=ME, epoch=Epoch(1), snapshot=END, position=0, max_bytes=1)


@pytest.fixture
def queues() -> Queues:
    return Queues("1", BOUNDS)


@pytest.mark.parametrize("what", Waiting)
def test_no_more_may_wait_than_fit(queues: Queues, what: Waiting) -> None:
    for _ in range(2 + (RECORDED_MAX if what is Waiting.VOTERS else 0)):
        queues.comes(what)
    queues.check()
    queues.goes(what)
    queues.comes(what)
    queues.check()
    queues.comes(what)
    with pytest.raises(Violation, match=rf"R24.*{what} wait"):
        queues.check()


def test_fetches_wait_until_they_are_answered_and_nothing_else_that_replicas_ask(
    queues: Queues,
) -> None:
    for _ in range(9):
        queues.request_received(PART)
        queues.request_received(FETCH)
        queues.request_answered(FETCH)
    queues.check()
    for _ in range(3):
        queues.request_received(FETCH)
    with pytest.raises(Violation, match="R24: 3 fetches wait"):
        queues.check()


def test_a_read_that_is_one_too_many_does_not_wait_even_for_a_turn(queues: Queues) -> None:
    for _ in range(3):
        queues.comes(Waiting.READ)
    with pytest.raises(Violation, match="R24: 3 reads wait"):
        queues.check_reads()


@pytest.mark.parametrize(
    ("fits", "is_too_much"),
    [
        (lambda q: q.appended(15, 10, 12, 1), lambda q: q.appended(16, 10, 12, 1)),
        (lambda q: q.appended(15, 12, 10, 1), lambda q: q.appended(16, 12, 10, 1)),
        (lambda q: q.remembers(3), lambda q: q.remembers(4)),
        (lambda _: check_disk_queue("1", WORK_MAX), lambda _: check_disk_queue("1", WORK_MAX + 1)),
    ],
)
def test_queues_and_remembered_callers_are_bounded(
    queues: Queues, fits: Callable[[Queues], None], is_too_much: Callable[[Queues], None]
) -> None:
    fits(queues)
    with pytest.raises(Violation, match="R24"):
        is_too_much(queues)


def test_bytes_that_are_held_are_bounded_and_those_that_are_kept_do_not_count(
    queues: Queues,
) -> None:
    queues.appended(11, 10, 10, 8)
    queues.appended(12, 10, 10, 99)
    with pytest.raises(Violation, match="R24: 1 appends while it holds 107 uncommitted bytes"):
        queues.appended(13, 10, 12, 1)
    with pytest.raises(Violation, match="R24: 1 appends while it holds 99 uncommitted bytes"):
        queues.appended(13, 11, 12, 1)
    queues.appended(13, 12, 12, 1)
    queues.appended(14, 12, 12, 99)
    queues.leads()
    queues.appended(14, 12, 12, 1)

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.messages import Batch
from quorum.core.raft_log import RaftLog, refusal_of_batches, truncation_point
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from tests.quorum.core.log_oracle import Epochs, as_view, common, raft_logs

SEEDS = st.integers(0, 1 << 32)


def batch(base: int, end: int, epoch: int) -> Batch:
    return Batch(Offset(base), Offset(end), Epoch(epoch))


def log_end(epoch: int, offset: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Epoch(epoch), Offset(offset))


@given(SEEDS, st.integers(2, 5), st.integers(1, 8))
def test_a_leader_finds_a_divergence_exactly_when_the_other_log_is_no_prefix(
    seed: int, replicas: int, epochs: int
) -> None:
    leader, *others = raft_logs(random.Random(seed), replicas, epochs)
    for other in others:
        diverging = as_view(leader).divergence(as_view(other).end)
        assert (diverging is None) == (leader[: len(other)] == other)


@given(SEEDS, st.integers(2, 5), st.integers(1, 8))
def test_truncating_and_fetching_ends_with_a_copy_and_keeps_the_common_prefix(
    seed: int, replicas: int, epochs: int
) -> None:
    """Committed records are in the leader's log, so the common prefix must never be cut."""
    leader, *others = raft_logs(random.Random(seed), replicas, epochs)
    for other in others:
        shared = common(leader, other)
        assert reconciled(leader, other) == leader
        assert shared <= common(leader, other)


def reconciled(leader: Epochs, follower: Epochs) -> Epochs:
    """The follower's log when the rounds are over; `follower` is changed on the way."""
    served, copy = as_view(leader), as_view(follower)
    rounds = len(set(follower)) + 1
    while (diverging := served.divergence(copy.end)) is not None:
        rounds -= 1
        assert rounds > 0, "each round must rule out one epoch at least"
        end, shared = (
            truncation_point(copy.history, copy.end.offset, diverging),
            common(leader, follower),
        )
        assert shared <= end < len(follower)
        copy.truncate(end)
        del follower[end:]
    return follower + leader[len(follower) :]


def test_an_empty_log_agrees_with_every_log() -> None:
    assert as_view([1, 1, 2]).divergence(log_end(0, 0)) is None
    assert as_view([]).divergence(log_end(3, 0)) is None


@given(st.lists(st.integers(1, 4), max_size=8).map(sorted), st.integers(0, 8), st.integers(0, 8))
def test_durable_never_passes_the_end_and_falls_only_by_truncation(
    epochs: Epochs, flushed: int, cut: int
) -> None:
    view = RaftLog(Offset(0), Offset(0), ())
    for offset, epoch in enumerate(epochs):
        view.append(batch(offset, offset + 1, epoch))
    assert view.durable == 0
    flushed, cut = min(flushed, len(epochs)), min(cut, len(epochs))
    view.flushed(log_end(0, flushed))
    assert view.durable == flushed
    view.flushed(log_end(0, flushed // 2))
    assert view.durable == flushed
    view.truncate(Offset(cut))
    assert view.durable == min(flushed, cut)
    assert view.end == log_end(epochs[cut - 1] if cut else 0, cut)


def test_more_than_the_log_holds_cannot_be_on_disk() -> None:
    with pytest.raises(AssertionError, match="the log ends before"):
        as_view([1]).flushed(log_end(1, 2))


def test_a_log_goes_on_where_it_ends() -> None:
    with pytest.raises(AssertionError, match="does not continue"):
        as_view([1]).append(batch(2, 3, 1))


@pytest.mark.parametrize(
    ("batches", "refusal"),
    [
        ((), None),
        ((batch(5, 7, 3), batch(7, 8, 4)), None),
        ((batch(6, 7, 3),), "does not begin at the log end offset 5"),
        ((batch(5, 7, 3), batch(8, 9, 3)), "does not begin at the log end offset 7"),
        ((batch(5, 5, 3),), "is empty"),
        ((batch(5, 6, 1),), "is not of an epoch from 2 to 4"),
        ((batch(5, 6, 4), batch(6, 7, 3)), "is not of an epoch from 4 to 4"),
        ((batch(5, 6, 5),), "is not of an epoch from 2 to 4"),
    ],
)
def test_batches_that_cannot_follow_a_log_are_refused_with_the_reason(
    batches: tuple[Batch, ...], refusal: str | None
) -> None:
    found = refusal_of_batches(batches, log_end(2, 5), Epoch(4))
    assert (found is None) if refusal is None else (found is not None and refusal in found)


def beginning_at(epochs: Epochs, start: int) -> RaftLog:
    """The view of a log that was cut at its start, behind a snapshot."""
    view = as_view(epochs)
    later = {epoch: start + epochs[start:].index(epoch) for epoch in dict.fromkeys(epochs[start:])}
    return RaftLog(
        Offset(start),
        view.end.offset,
        [(Epoch(epoch), Offset(first)) for epoch, first in later.items()],
        epoch_before=Epoch(epochs[start - 1]) if start else None,
    )


@given(SEEDS, st.integers(2, 5), st.integers(1, 8), st.data())
def test_a_leader_whose_log_was_cut_at_its_start_finds_the_same_divergence(
    seed: int, replicas: int, epochs: int, data: st.DataObject
) -> None:
    """Only what is committed, and so in both logs, is ever cut at the start."""
    leader, *others = raft_logs(random.Random(seed), replicas, epochs)
    for other in others:
        start = data.draw(st.integers(0, common(leader, other)))
        whole, cut = as_view(leader), beginning_at(leader, start)
        assert cut.end == whole.end
        other_end = as_view(other).end
        assert cut.reaches_back_to(other_end)
        assert cut.divergence(other_end) == whole.divergence(other_end)


def test_a_log_that_begins_later_cannot_serve_who_ends_before_or_in_an_older_epoch() -> None:
    view = beginning_at([1, 1, 2, 2, 3], 4)
    assert view.end == log_end(3, 5)
    assert view.reaches_back_to(log_end(2, 4))
    assert view.divergence(log_end(2, 4)) is None
    assert not view.reaches_back_to(log_end(0, 0))
    assert not view.reaches_back_to(log_end(2, 3))
    assert not view.reaches_back_to(log_end(1, 5))
    assert as_view([1, 1]).reaches_back_to(log_end(0, 0))


def test_an_empty_log_behind_a_snapshot_ends_in_the_epoch_of_the_snapshot() -> None:
    view = RaftLog(Offset(7), Offset(7), (), epoch_before=Epoch(4))
    assert view.end == log_end(4, 7)
    view.append(batch(7, 8, 5))
    view.truncate(Offset(7))
    assert view.end == log_end(4, 7)

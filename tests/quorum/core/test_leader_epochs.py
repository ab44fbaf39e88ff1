import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.raft_log import LeaderEpochCache
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch

EPOCHS = st.lists(st.integers(1, 6), max_size=12).map(sorted)


def history_of(epochs: list[int], start: int = 0) -> LeaderEpochCache:
    history = LeaderEpochCache()
    for offset, epoch in enumerate(epochs, start):
        history.begin(Epoch(epoch), Offset(offset))
    return history


@given(EPOCHS)
def test_the_last_epoch_is_that_of_the_last_record(epochs: list[int]) -> None:
    assert history_of(epochs).last == (epochs[-1] if epochs else 0)


@given(EPOCHS, st.integers(0, 7), st.integers(0, 3))
def test_an_epoch_ends_where_the_first_record_of_a_higher_one_lies(
    epochs: list[int], asked: int, start: int
) -> None:
    """OffsetsForLeaderEpoch, counted record by record; `start` is the log start offset."""
    not_above = [epoch for epoch in epochs if epoch <= asked]
    end = OffsetAndEpoch(Epoch(max(not_above, default=0)), Offset(start + len(not_above)))
    assert history_of(epochs, start).end_of(Epoch(asked), Offset(start + len(epochs))) == end


@given(EPOCHS, st.integers(0, 12))
def test_truncated_epochs_are_forgotten_and_can_be_written_again(
    epochs: list[int], end: int
) -> None:
    history = history_of(epochs)
    history.truncate(Offset(end))
    kept = epochs[:end]
    assert str(history) == str(history_of(kept))
    history.begin(Epoch(9), Offset(len(kept)))
    assert str(history) == str(history_of([*kept, 9]))


@pytest.mark.parametrize(("epoch", "start"), [(2, 9), (4, 5), (4, 4)])
def test_epochs_and_offsets_only_rise(epoch: int, start: int) -> None:
    history = LeaderEpochCache([(Epoch(1), Offset(0)), (Epoch(3), Offset(5))])
    with pytest.raises(AssertionError):
        history.begin(Epoch(epoch), Offset(start))


def test_a_history_says_which_epoch_begins_where() -> None:
    assert str(LeaderEpochCache()) == "empty"
    assert (
        str(LeaderEpochCache([(Epoch(1), Offset(0)), (Epoch(3), Offset(5))])) == "1 from 0 3 from 5"
    )

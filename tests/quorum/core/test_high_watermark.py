from hypothesis import given
from hypothesis import strategies as st

from quorum.core.high_watermark import high_watermark
from quorum.core.vocabulary import Offset

OFFSETS = st.integers(0, 12).map(Offset)


def committed(ends: list[Offset], epoch_start: int, current: Offset | None) -> Offset | None:
    """Brute force: the highest offset that more than half have reached, if it may count."""
    reached = max(
        offset for offset in range(20) if 2 * sum(end >= offset for end in ends) > len(ends)
    )
    candidates = [] if current is None else [current]
    if reached > epoch_start:
        candidates.append(Offset(reached))
    return max(candidates, default=None)


@given(st.lists(OFFSETS, min_size=1, max_size=7), OFFSETS, st.none() | OFFSETS)
def test_the_high_watermark_is_the_majority_offset_behind_the_start_of_the_epoch(
    ends: list[Offset], epoch_start: Offset, current: Offset | None
) -> None:
    found = high_watermark(ends, epoch_start=epoch_start, current=current)
    assert found == committed(ends, epoch_start, current)


@given(st.lists(OFFSETS, min_size=1, max_size=7), OFFSETS)
def test_the_order_of_the_voters_does_not_matter(ends: list[Offset], epoch_start: Offset) -> None:
    found = high_watermark(ends, epoch_start=epoch_start, current=None)
    assert high_watermark(ends[::-1], epoch_start=epoch_start, current=None) == found


@given(st.lists(st.lists(OFFSETS, min_size=3, max_size=3), max_size=8), OFFSETS)
def test_it_never_falls(rounds: list[list[Offset]], epoch_start: Offset) -> None:
    current: Offset | None = None
    for ends in rounds:
        found = high_watermark(ends, epoch_start=epoch_start, current=current)
        assert current is None or (found is not None and found >= current)
        current = found

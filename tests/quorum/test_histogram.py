"""Histograms count by upper bounds, and by the buckets of native histograms."""

from hypothesis import given
from hypothesis import strategies as st

from quorum.histogram import DISK_SECONDS, SCHEMA, NativeHistogram

SECONDS = st.floats(min_value=1e-9, max_value=1e5)
PER_POWER = 2**SCHEMA


@given(SECONDS)
def test_a_native_bucket_holds_its_value(seconds: float) -> None:
    found = NativeHistogram(DISK_SECONDS)
    found.observe(seconds)
    ((bucket, count),) = found.native.items()
    assert count == 1
    assert 2 ** ((bucket - 1) / PER_POWER) * (1 - 1e-12) < seconds
    assert seconds <= 2 ** (bucket / PER_POWER) * (1 + 1e-12)


def test_the_upper_bound_of_a_bucket_belongs_to_it() -> None:
    found = NativeHistogram(DISK_SECONDS)
    for value in (0.25, 0.5, 1.0, 2.0):
        found.observe(value)
    assert found.native == {-16: 1, -8: 1, 0: 1, 8: 1}


@given(st.lists(st.one_of(SECONDS, st.just(0.0))))
def test_both_count_alike(seconds: list[float]) -> None:
    found = NativeHistogram(DISK_SECONDS)
    for each in seconds:
        found.observe(each)
    assert found.count == len(seconds)
    assert sum(found.native.values()) == sum(each > 0 for each in seconds)

"""Who waits for the high watermark: released once, in order, and never both ways."""

from hypothesis import given
from hypothesis import strategies as st

from broker.partition.partition import ProducePurgatory


def test_those_at_or_below_the_high_watermark_are_released_in_order() -> None:
    waiters = ProducePurgatory[str]()
    for end, name in ((5, "b"), (3, "a"), (9, "c"), (5, "b2")):
        waiters.add(end, 100, name)
    assert waiters.reached(5) == ["a", "b", "b2"]
    assert waiters.reached(5) == []
    assert len(waiters) == 1


def test_those_who_waited_too_long_are_told() -> None:
    waiters = ProducePurgatory[str]()
    waiters.add(5, 10, "late")
    waiters.add(4, 20, "patient")
    assert waiters.overdue(9) == []
    assert waiters.overdue(10) == ["late"]
    assert waiters.dismiss() == ["patient"]
    assert waiters.reached(99) == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 20), st.integers(0, 20)),
            st.tuples(st.just("reached"), st.integers(0, 20), st.just(0)),
            st.tuples(st.just("overdue"), st.integers(0, 20), st.just(0)),
        )
    )
)
def test_each_waiter_is_released_exactly_once(steps: list[tuple[str, int, int]]) -> None:
    """The twin: a plain list, looked through from the front each time."""
    waiters, twin = ProducePurgatory[int](), list[tuple[int, int, int]]()
    for number, (what, first, second) in enumerate(steps):
        match what:
            case "add":
                waiters.add(first, second, number)
                twin.append((first, number, second))
                continue
            case "reached":
                released = waiters.reached(first)
                expected = [each for each in sorted(twin) if each[0] <= first]
            case _:
                released = waiters.overdue(first)
                expected = [each for each in sorted(twin) if each[2] <= first]
        assert released == [number for _, number, _ in expected]
        twin = [each for each in twin if each not in expected]
    assert waiters.dismiss() == [number for _, number, _ in sorted(twin)]

"""Produce requests that wait for an offset: each is released once, in order, with one outcome."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from broker.partition.partition import ProducePurgatory
from quorum.protocol.errors import ErrorCode


class Released:
    """The purgatory of a test, and the requests that it released since the last look."""

    def __init__(self) -> None:
        self.purgatory = ProducePurgatory()
        self._seen: list[tuple[object, ErrorCode | None]] = []

    def add(self, end_offset: int, deadline_ms: int, name: object) -> None:
        self.purgatory.add(end_offset, deadline_ms, partial(self._note, name))

    def seen(self, error: ErrorCode | None) -> list[object]:
        """The released requests; all of them with this error."""
        seen, self._seen = self._seen, []
        assert all(each[1] == error for each in seen)
        return [name for name, _ in seen]

    def _note(self, name: object, error: ErrorCode | None) -> None:
        self._seen.append((name, error))


def test_those_at_or_below_the_high_watermark_are_released_in_order() -> None:
    waiting = Released()
    for end, name in ((5, "b"), (3, "a"), (9, "c"), (5, "b2")):
        waiting.add(end, 100, name)
    waiting.purgatory.complete(5)
    assert waiting.seen(None) == ["a", "b", "b2"]
    waiting.purgatory.complete(5)
    assert waiting.seen(None) == []
    assert len(waiting.purgatory) == 1


def test_expired_requests_are_answered() -> None:
    waiting = Released()
    waiting.add(5, 10, "late")
    waiting.add(4, 20, "patient")
    waiting.purgatory.expire(9)
    assert waiting.seen(None) == []
    waiting.purgatory.expire(10)
    assert waiting.seen(ErrorCode.REQUEST_TIMED_OUT) == ["late"]
    waiting.purgatory.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert waiting.seen(ErrorCode.NOT_LEADER_OR_FOLLOWER) == ["patient"]
    waiting.purgatory.complete(99)
    assert waiting.seen(None) == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 20), st.integers(0, 20)),
            st.tuples(st.just("complete"), st.integers(0, 20), st.just(0)),
            st.tuples(st.just("expire"), st.integers(0, 20), st.just(0)),
        )
    )
)
def test_each_waiter_is_released_exactly_once(steps: list[tuple[str, int, int]]) -> None:
    """The twin: a plain list, looked through from the front each time."""
    waiting, twin = Released(), list[tuple[int, int, int]]()
    for number, (what, first, second) in enumerate(steps):
        match what:
            case "add":
                waiting.add(first, second, number)
                twin.append((first, number, second))
                continue
            case "complete":
                waiting.purgatory.complete(first)
                released = waiting.seen(None)
                expected = [each for each in sorted(twin) if each[0] <= first]
            case _:
                waiting.purgatory.expire(first)
                released = waiting.seen(ErrorCode.REQUEST_TIMED_OUT)
                expected = [each for each in sorted(twin) if each[2] <= first]
        assert released == [number for _, number, _ in expected]
        twin = [each for each in twin if each not in expected]
    waiting.purgatory.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    released = waiting.seen(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert released == [number for _, number, _ in sorted(twin)]

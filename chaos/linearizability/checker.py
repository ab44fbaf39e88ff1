"""A linearizability checker: could a history have happened one operation at a time?

The search of Wing and Gong ("Testing and verifying concurrent objects", 1993) with Lowe's two
optimizations ("Testing for linearizability", 2017): keys are searched separately, and
configurations that were seen before are skipped. The search counts its steps and reads no clock, so
that every machine gives the same verdict; a search with too many steps is undecided. A `Model` says
what the operations mean.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

STEPS_MAX: Final = 1_000_000
"""The limit of model calls for one key."""

Key: TypeAlias = tuple[str, ...]
"""The subject of an operation: the name of a kind, and the identity of one object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request of a client, its answer, and their times.

    Times are of one clock for all clients; an operation precedes another if it returned before
    the other was called. An operation without `returned` may have taken effect at any time since it
    was called, or never. A request that was certainly refused and says nothing about the state
    ("not the controller") does not belong in a history.
    """

    key: Key
    asked: Hashable
    called: int
    returned: int | None = None
    answer: Hashable = None

    def __str__(self) -> str:
        if self.returned is None:
            return f"{self.asked}, called at {self.called}, was never answered"
        return f"{self.asked}, called at {self.called}, was told {self.answer} at {self.returned}"


class Model(NamedTuple):
    """A sequential specification of one key."""

    start: Hashable
    """The state before all operations."""
    after: Callable[[Any, Any, Any], Sequence[Hashable]]
    """Maps (state, request, answer) to the possible next states; none if the answer is wrong.

    The answer is None where it is not known.
    """


class Verdict(Enum):
    """The result of the search."""

    YES = "linearizable"
    NO = "not linearizable"
    OUT_OF_TIME = "not decided within the steps allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one key, and the progress of the search, for diagnosis."""

    key: Key
    verdict: Verdict
    steps: int
    state: Hashable = None
    """The state after the longest sequence of operations found."""
    stuck: tuple[Operation, ...] = ()
    """The candidates for the next operation in that state; none of them fits."""

    def __str__(self) -> str:
        lines = [f"{'/'.join(self.key)} is {self.verdict.value}, after {self.steps} steps"]
        if self.stuck:
            lines.append(f"at best it gets to {self.state}, and none of these can be next:")
            lines += [f"  {each}" for each in self.stuck]
        return "\n".join(lines)


def judged(
    history: Iterable[Operation],
    model_of: Callable[[Key], Model],
    *,
    steps_max: int = STEPS_MAX,
) -> tuple[Finding, ...]:
    """A finding for each key, in the order of first calls."""
    by_key: dict[Key, list[Operation]] = {}
    for operation in sorted(history, key=_in_time):
        by_key.setdefault(operation.key, []).append(operation)
    return tuple(
        _Search(key, operations, model_of(key), steps_max).run()
        for key, operations in by_key.items()
    )


def verdict(findings: Iterable[Finding]) -> Verdict:
    """The verdict on the whole history: linearizable if every key is."""
    found = {each.verdict for each in findings}
    for worst in (Verdict.NO, Verdict.OUT_OF_TIME):
        if worst in found:
            return worst
    return Verdict.YES


def _in_time(operation: Operation) -> tuple[int, bool, int]:
    returned = operation.returned
    assert returned is None or returned >= operation.called, f"{operation}"
    return operation.called, returned is None, returned or 0


class _Configuration(NamedTuple):
    """A position of the search."""

    done: int
    """The operations in the sequence so far, one bit for each."""
    state: Hashable


class _Search:
    """The search over one key; its operations are in the order of their calls."""

    def __init__(
        self, key: Key, operations: Sequence[Operation], model: Model, steps_max: int
    ) -> None:
        self._key = key
        self._operations = operations
        self._model = model
        self._steps_max = steps_max
        self._steps = 0
        self._answered = sum(
            1 << place for place, each in enumerate(operations) if each.returned is not None
        )

    def run(self) -> Finding:
        """Search depth first: an operation that returned early most likely took effect early."""
        start = _Configuration(0, self._model.start)
        ahead, seen, best = [start], {start}, start
        while ahead:
            here = ahead.pop()
            if here.done & self._answered == self._answered:
                return self._finding(Verdict.YES)
            if self._has_placed_more(here, best):
                best = here
            for place in reversed(self._next(here.done)):
                for there in self._moves(here, place):
                    if there not in seen:
                        seen.add(there)
                        ahead.append(there)
            if self._steps > self._steps_max:
                return self._finding(Verdict.OUT_OF_TIME, best)
        return self._finding(Verdict.NO, best)

    def _has_placed_more(self, one: _Configuration, other: _Configuration) -> bool:
        answered = self._answered
        return (one.done & answered).bit_count() > (other.done & answered).bit_count()

    def _next(self, done: int) -> list[int]:
        """Return the operations that may be next: no remaining one returned before their call."""
        found: list[int] = []
        first_return: int | None = None
        unanswered: set[Hashable] = set()
        first_left = (~done & (done + 1)).bit_length() - 1
        for place in range(first_left, len(self._operations)):
            operation = self._operations[place]
            if first_return is not None and operation.called > first_return:
                break
            if done >> place & 1:
                continue
            if operation.returned is not None:
                if first_return is None or operation.returned < first_return:
                    first_return = operation.returned
            elif operation.asked in unanswered:
                # An equal unanswered operation was tried already; this one gives the same result.
                continue
            else:
                unanswered.add(operation.asked)
            found.append(place)
        found.sort(key=self._patience)
        return found

    def _patience(self, place: int) -> tuple[bool, int]:
        returned = self._operations[place].returned
        return returned is None, returned or 0

    def _moves(self, here: _Configuration, place: int) -> list[_Configuration]:
        operation = self._operations[place]
        self._steps += 1
        return [
            _Configuration(here.done | 1 << place, state)
            for state in self._model.after(here.state, operation.asked, operation.answer)
            # Skip an unanswered operation that changes nothing: no answer depends on it.
            if operation.returned is not None or state != here.state
        ]

    def _finding(self, verdict: Verdict, best: _Configuration | None = None) -> Finding:
        if best is None:
            return Finding(key=self._key, verdict=verdict, steps=self._steps)
        stuck = tuple(self._operations[place] for place in self._next(best.done))
        return Finding(
            key=self._key, verdict=verdict, steps=self._steps, state=best.state, stuck=stuck
        )

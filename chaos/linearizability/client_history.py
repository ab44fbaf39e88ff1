"""Client requests and their answers, checked for linearizability (L1 to L5).

If no valid order exists, the checker leaves out parts of the history to find the broken promise: a
stale read, a wrong refusal, a lost write, or something else.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from chaos.linearizability.checker import Finding, Key, Operation, Verdict, judged
from chaos.linearizability.models import Describe, Get, List, Look, Refused, model_of
from chaos.violation import Violation

STEPS_MAX: Final = 100_000
"""The limit for one key; a search that exceeds it counts as undecided."""
READS: Final = (Describe, Get, List, Look)


@dataclass(slots=True)
class PendingCall:
    """A request without an answer so far."""

    key: Key
    asked: Hashable
    called: int


class ClientHistory:
    """The client history of one run."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._open: dict[int, PendingCall] = {}
        self._now = 0
        self._closed_at: int | None = None
        self._answers: dict[str, Any] = {}

    def calls(self, key: Key, asked: Hashable) -> PendingCall:
        """Record that a client sends a request now."""
        self._now += 1
        found = PendingCall(key, asked, self._now)
        self._open[found.called] = found
        return found

    def returns(self, asked: PendingCall, answer: Hashable) -> None:
        """Record that the client gets this answer."""
        self._now += 1
        del self._open[asked.called]
        self.operations.append(
            Operation(
                key=asked.key,
                asked=asked.asked,
                called=asked.called,
                returned=self._now,
                answer=answer,
            )
        )

    def forgets(self, asked: PendingCall) -> None:
        """Drop a request that a node certainly refused without effect."""
        del self._open[asked.called]

    def answers(self, key: str, answer: Any) -> None:
        """L3: a request with an idempotency key always gets the same answer."""
        if self._answers.setdefault(key, answer) != answer:
            raise Violation("L3", f"{key} was answered {self._answers[key]} before, now {answer}")

    def closes(self) -> None:
        """Mark the end of the workload: only final reads follow."""
        self._closed_at = self._now

    def check(self) -> int:
        """L1 to L5; returns the number of undecided keys."""
        history = [*self.operations, *(_unanswered(each) for each in self._open.values())]
        undecided = 0
        for finding in judged(history, model_of, steps_max=STEPS_MAX):
            if finding.verdict is Verdict.NO:
                raise Violation(self._rule(finding, history), str(finding))
            undecided += finding.verdict is Verdict.OUT_OF_TIME
        return undecided

    def _rule(self, finding: Finding, history: Iterable[Operation]) -> str:
        of_key = [each for each in history if each.key == finding.key]
        closed_at = self._closed_at
        if closed_at is not None:
            before = [each for each in of_key if each.called <= closed_at]
            if _is_right(before):
                return "L5"
        if _is_right(each for each in of_key if not isinstance(each.asked, READS)):
            return "L2"
        if _is_right(each for each in of_key if not isinstance(each.answer, Refused)):
            return "L4"
        return "L1"


def _is_right(operations: Iterable[Operation]) -> bool:
    found = judged(operations, model_of, steps_max=STEPS_MAX)
    return all(each.verdict is Verdict.YES for each in found)


def _unanswered(asked: PendingCall) -> Operation:
    return Operation(key=asked.key, asked=asked.asked, called=asked.called)

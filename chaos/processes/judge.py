"""The verdict on what clients were told: linearizable, all of it or the changes alone.

Kafka's controllers answer DescribeConfigs from the image of the node that is asked (KIP-919), so
that a read may be old there. Reads are therefore judged apart: the changes of a run must be
linearizable in any case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from chaos.linearizability.checker import Finding, Operation, Verdict, judged, verdict
from chaos.linearizability.models import Get, model_of

STEPS_MAX: Final = 300_000
"""The limit for one object; a search that exceeds it is undecided."""
TOLD_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdicts on the history of a run."""

    operations: int
    reads: int
    objects: int
    changes: str
    """The verdict on the changes, by their answers."""
    with_reads: str
    """The verdict on everything."""
    undecided: int
    """Objects whose search had too many steps."""
    findings: Sequence[str]
    """What fits no order, for some objects."""


def judge(history: Sequence[Operation]) -> Judgement:
    """Search for an order of the operations of each object."""
    all_of_it = judged(history, model_of, steps_max=STEPS_MAX)
    changes = [each for each in history if not isinstance(each.asked, Get)]
    of_changes = all_of_it
    if verdict(all_of_it) is not Verdict.YES:
        of_changes = judged(changes, model_of, steps_max=STEPS_MAX)
    return Judgement(
        operations=len(history),
        reads=len(history) - len(changes),
        objects=len(all_of_it),
        changes=verdict(of_changes).value,
        with_reads=verdict(all_of_it).value,
        undecided=sum(each.verdict is Verdict.OUT_OF_TIME for each in all_of_it),
        findings=[str(each) for each in _wrong(of_changes) + _wrong(all_of_it)][:TOLD_MAX],
    )


def _wrong(findings: Sequence[Finding]) -> list[Finding]:
    return [each for each in findings if each.verdict is Verdict.NO]

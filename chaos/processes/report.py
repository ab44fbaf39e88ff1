"""The report of a run: a value, the text for people, and the JSON for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from statistics import median
from typing import Any, Final

from chaos.processes.judge import Judgement
from chaos.processes.timeline import Leadership, Windows, percentile

RECOVERY_MS_MAX: Final = 3_000.0
"""The recovery time limit, which 99 of 100 rounds must keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One fault, and the time until a write was acknowledged again.

    Counted from the fault if it left a working majority, else from its end; a killed process is up
    again when its interpreter runs.
    """

    number: int
    kind: str
    fault: str
    recovery_ms: float
    stall_ms: float = 0.0
    """The longest time without an acknowledged write, from the fault to the end of the round."""
    start_ms: int = 0
    """When the fault was in effect, since the beginning of the run; and when it had ended."""
    end_ms: int = 0
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.number:3}  {self.fault:32} went on after {self.recovery_ms:5.0f} ms{note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The whole run on one time line."""

    began_ms: int
    """Milliseconds since 1970."""
    duration_ms: int
    windows: Windows
    leaders: Sequence[Leadership]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of a run."""

    seed: int
    nodes: int
    network: str
    settings: Mapping[str, str]
    rounds: Sequence[Round]
    acknowledged: int
    unknown: int
    """Writes without an answer: the log may contain them or not."""
    committed: int
    """Offset up to which the logs were compared."""
    log_bytes: int
    disks: int
    """The nodes whose logs were read: none of a cluster that lives on."""
    problems: Sequence[str]
    """The violations of the promise; empty if the run passed."""
    target: str = "metaquorum"
    version: str = ""
    """The version of the target."""
    machine: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    """The command that repeats the run."""
    left_out: Sequence[str] = ()
    """Kinds of faults that this machine or target does not have, and why."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Errors that clients were answered."""
    interrupted: bool = False
    judgement: Judgement | None = None
    course: Course | None = None

    @property
    def recoveries_ms(self) -> list[float]:
        return sorted(each.recovery_ms for each in self.rounds)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON data."""
        if not self.rounds:
            return asdict(self)
        return {
            **asdict(self),
            "recovery_median_ms": median(self.recoveries_ms),
            "recovery_p99_ms": percentile(self.recoveries_ms, 99),
            "recovery_worst_ms": self.recoveries_ms[-1],
        }

    def __str__(self) -> str:
        lines = ["", "what                  rounds  median     p99   worst"]
        by_kind = sorted(self.rounds, key=lambda each: each.kind)
        for kind, rounds in groupby(by_kind, key=lambda each: each.kind):
            lines.append(_line(kind, sorted(each.recovery_ms for each in rounds)))
        if self.rounds:
            lines.append(_line("all", self.recoveries_ms))
        lines += [
            "",
            f"{self.nodes} nodes of {self.target}, {self.network}, seed {self.seed}",
            f"{self.acknowledged} writes acknowledged, {self.unknown} without an answer",
            f"{self.log_bytes} bytes up to offset {self.committed} compared on {self.disks} disks",
        ]
        if self.judgement is not None:
            lines.append(
                f"{self.judgement.operations} operations: the changes are "
                f"{self.judgement.changes}, with reads {self.judgement.with_reads}"
            )
        lines += [f"left out: {each}" for each in self.left_out]
        if self.interrupted:
            lines.append("ended early, as asked")
        if self.rounds:
            p99 = percentile(self.recoveries_ms, 99)
            verdict = "met" if p99 <= RECOVERY_MS_MAX else "missed"
            lines.append(f"recovery within {RECOVERY_MS_MAX:.0f} ms (p99): {verdict}")
        lines += [
            *(f"PROBLEM: {each}" for each in self.problems),
            "everything that was acknowledged is there, and the logs are one"
            if not self.problems
            else f"{len(self.problems)} problems",
        ]
        return "\n".join(lines)


def _line(what: str, rising: Sequence[float]) -> str:
    worst, p99 = rising[-1], percentile(rising, 99)
    return f"{what:20}  {len(rising):6}  {median(rising):6.0f}  {p99:6.0f}  {worst:6.0f}"

"""The report of a run: a value, the text for people, and the JSON for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import median
from typing import Any, Final

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

    def __str__(self) -> str:
        return f"{self.number:3}  {self.fault:32} went on after {self.recovery_ms:5.0f} ms"


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
    problems: Sequence[str]
    """The violations of the promise; empty if the run passed."""

    @property
    def recoveries_ms(self) -> list[float]:
        return sorted(each.recovery_ms for each in self.rounds)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON data."""
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
        lines.append(_line("all", self.recoveries_ms))
        p99 = percentile(self.recoveries_ms, 99)
        verdict = "met" if p99 <= RECOVERY_MS_MAX else "missed"
        lines += [
            "",
            f"{self.nodes} nodes, {self.network}, seed {self.seed}",
            f"{self.acknowledged} writes acknowledged, {self.unknown} without an answer",
            f"{self.log_bytes} bytes up to offset {self.committed} compared on {self.nodes} disks",
            f"recovery within {RECOVERY_MS_MAX:.0f} ms (p99): {verdict}",
            *(f"PROBLEM: {each}" for each in self.problems),
            "everything that was acknowledged is there, and the logs are one"
            if not self.problems
            else f"{len(self.problems)} problems",
        ]
        return "\n".join(lines)


def percentile(rising: Sequence[float], percent: int) -> float:
    """Return the percentile: the least value that this share of the values does not exceed."""
    return rising[max(0, -(-len(rising) * percent // 100) - 1)]


def _line(what: str, rising: Sequence[float]) -> str:
    worst, p99 = rising[-1], percentile(rising, 99)
    return f"{what:20}  {len(rising):6}  {median(rising):6.0f}  {p99:6.0f}  {worst:6.0f}"

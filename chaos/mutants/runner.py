"""Mutants, run: each in a process of its own, by seeds and by its directed test; their table."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.mutants.mutant import Mutant

SEEDS_MAX: Final = 2_000
SECONDS_MAX: Final = 1_800
"""Of one run; 2,000 seeds take a third of that."""
TESTS_FAILED: Final = 1
"""Pytest's word for a test that failed; others mean that it passed, or that nothing was tested."""
ROOT: Final = Path(__file__).parents[2]

HEAD: Final = """# What the simulation catches

Faults that are planted in the product by name, one at a time, each of a line or two; off unless
`python -m chaos mutants` runs. The first seed counts from 0. The directed test shows the fault
at once; the seeds have never heard of it.

Made by `python -m chaos mutants --write docs/mutants.md`.

| fault | in | found by | at seed | directed test |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one mutant."""

    mutant: Mutant
    seed: int | None
    """The first that caught it, by an invariant that is expected."""
    rule: str
    directed_fails: bool
    said: str
    """The output of the runs, for a mutant that was not caught."""

    @property
    def is_caught(self) -> bool:
        """By a seed and by its test."""
        return self.seed is not None and self.directed_fails

    def __str__(self) -> str:
        mutant, seed = self.mutant, "none" if self.seed is None else self.seed
        directed = mutant.directed.rpartition("::")[2] + ("" if self.directed_fails else " (no!)")
        return f"| {mutant} | `{mutant.module}` | {self.rule} | {seed} | {directed} |"


def document(verdicts: Iterable[Verdict], before: str, names: Sequence[str]) -> str:
    """The table with these verdicts; of mutants that were not run their rows stay as they were.

    Raises `KeyError` for a name that was not run and has no row.
    """
    lines = before.removeprefix(HEAD).splitlines() if before.startswith(HEAD) else []
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines}
    rows |= {each.mutant.name: str(each) for each in verdicts}
    return HEAD + "".join(f"{rows[name]}\n" for name in names)


def judged(mutants: Sequence[Mutant], *, seeds: int, jobs: int) -> Iterator[Verdict]:
    """The verdict on each, in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda each: judge(each, seeds=seeds), mutants)


def judge(mutant: Mutant, *, seeds: int, first: int = 0) -> Verdict:
    """Run one mutant: its directed test, and seeds until it is caught."""
    found, said = _run(mutant, first, seeds)
    return Verdict(
        mutant=mutant,
        seed=found.get("seed"),
        rule=found.get("rule", "not caught"),
        directed_fails=found.get("directed") == TESTS_FAILED,
        said=said[-4_000:],
    )


def _run(mutant: Mutant, first: int, count: int) -> tuple[dict[str, Any], str]:
    """The results in the last line of a process that runs the directed test and the seeds, and all
    of its output.

    One process runs both: half of what a mutant costs is the import of what both need.
    """
    command = [sys.executable, "-m", "chaos.mutants", mutant.name, str(first), str(count)]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return {}, f"{' '.join(command)} was ended after {SECONDS_MAX} s\n"
    *_, last = ["", *ended.stdout.splitlines()]
    found = json.loads(last) if last.startswith("{") else {}
    return found, f"{ended.stdout}{ended.stderr}"

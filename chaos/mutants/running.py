"""Mutants, run: each in a process of its own, by seeds and by its directed test; their table."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.mutants.mutant import Mutant

SEEDS_MAX: Final = 2_000
SECONDS_MAX: Final = 600
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
    """What became of one mutant."""

    mutant: Mutant
    seed: int | None
    """The first that caught it, by an invariant that is expected."""
    rule: str
    directed_fails: bool
    said: str
    """What the runs said, for the reader of a mutant that was not caught."""

    @property
    def is_caught(self) -> bool:
        """By a seed and by its test."""
        return self.seed is not None and self.directed_fails

    def __str__(self) -> str:
        mutant, seed = self.mutant, "none" if self.seed is None else self.seed
        directed = mutant.directed.rpartition("::")[2] + ("" if self.directed_fails else " (no!)")
        return f"| {mutant} | `{mutant.module}` | {self.rule} | {seed} | {directed} |"


def judged(mutants: Sequence[Mutant], *, seeds: int, jobs: int) -> Iterator[Verdict]:
    """The verdict on each, in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda each: judge(each, seeds=seeds), mutants)


def judge(mutant: Mutant, *, seeds: int, first: int = 0) -> Verdict:
    """Run one mutant: seeds until it is caught, then its directed test."""
    command = [sys.executable, "-m", "chaos.mutants", mutant.name, str(first), str(seeds)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )
    by_seeds, _, _ = ended.stdout.partition("\n")
    found = json.loads(by_seeds) if by_seeds.startswith("{") else {}
    # 1 is pytest's word for tests that failed, and Python's for a program that did; others mean
    # that nothing was tested.
    return Verdict(
        mutant=mutant,
        seed=found.get("seed"),
        rule=found.get("rule", "not caught"),
        directed_fails=bool(found) and ended.returncode == 1,
        said=f"{ended.stdout}{ended.stderr}"[-4_000:],
    )

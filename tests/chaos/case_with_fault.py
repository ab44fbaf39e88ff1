"""`python -m tests.chaos.case_with_fault MUTANT CASE` plants a fault and tells the case's story."""

import sys
from pathlib import Path

from chaos.mutants.catalogue import named
from chaos.mutants.mutant import plant


def main() -> None:
    """Print the story of the case, or nothing if it passes."""
    name, path = sys.argv[1:]
    # Before the first import of the product.
    plant(named(name))
    from chaos.case import read_case
    from chaos.outcome import run, silence

    silence()
    case = read_case(Path(path))
    failure = run(case.profile, limit_ms=case.limit_ms, recorded=True).failure
    if failure is not None:
        print(failure.story)  # noqa: T201


main()

"""`python -m chaos.mutants NAME FIRST COUNT`.

One process for each mutant: it plants the fault before anything of the product is imported, then
runs seeds until one fails with an invariant that is expected, and the directed test. The verdict
of the seeds is the first line, as JSON; that of the test is the exit status, as pytest has it.
"""

import json
import logging
import sys

from chaos.mutants.catalogue import named
from chaos.mutants.mutant import Mutant, plant


def run_seeds(mutant: Mutant, first: int, count: int) -> None:
    """Print which seed caught it, by which invariant, and what else failed before."""
    from chaos.outcome import run
    from chaos.profile import Profile

    logging.getLogger("quorum").addHandler(logging.NullHandler())
    logging.getLogger("quorum").propagate = False
    others: list[str] = []
    for seed in range(first, first + count):
        failure = run(Profile.drawn(seed)).failure
        if failure is None:
            continue
        if failure.rule in mutant.caught_by:
            verdict = {"seed": seed, "rule": failure.rule, "text": failure.text, "others": others}
            print(json.dumps(verdict), flush=True)  # noqa: T201
            return
        others.append(f"{seed} {failure.text}"[:200])
    print(json.dumps({"seed": None, "others": others[:20]}), flush=True)  # noqa: T201


def run_directed(mutant: Mutant) -> int:
    """Run the test that is to show the fault; 0 if it does not."""
    import pytest

    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *mutant.test_arguments]))


def main() -> None:
    """See the module."""
    name, first, count = sys.argv[1:]
    mutant = named(name)
    plant(mutant)
    run_seeds(mutant, int(first), int(count))
    sys.exit(run_directed(mutant))


main()

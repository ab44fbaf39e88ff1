"""`python -m chaos.mutants NAME FIRST COUNT` runs seeds, with NAME alone the directed test.

A process for each: it plants the fault before anything of the product is imported. Seeds run until
one fails with an invariant that is expected. What came of it is the last line, as JSON. Without
one nothing was tested: an error of our own must not pass for a test that fails.
"""

import json
import sys

from chaos.mutants.catalogue import named
from chaos.mutants.mutant import Mutant, plant
from chaos.mutants.unchecked import put_checks_out_of_the_way


def run_seeds(mutant: Mutant, first: int, count: int) -> None:
    """Print which seed caught it, by which invariant, and what else failed before."""
    from chaos.outcome import drawn, run, silence

    silence()
    if mutant.is_checked:
        put_checks_out_of_the_way()
    others: list[str] = []
    for seed in range(first, first + count):
        try:
            failure = run(drawn(seed, mutant.kind)).failure
        except AssertionError as noticed:
            # The product has noticed by itself; another seed may get past that.
            others.append(f"{seed} {noticed!r}"[:200])
            continue
        if failure is None:
            continue
        if failure.rule in mutant.caught_by:
            verdict = {"seed": seed, "rule": failure.rule, "text": failure.text, "others": others}
            print(json.dumps(verdict), flush=True)  # noqa: T201
            return
        others.append(f"{seed} {failure.text}"[:200])
    print(json.dumps({"seed": None, "others": others[:20]}), flush=True)  # noqa: T201


def run_directed(mutant: Mutant) -> None:
    """Run the test that is to show the fault, and print pytest's word for what came of it.

    Before anything else is imported: pytest, and hypothesis with it, want to be the first.
    """
    import pytest

    ended = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *mutant.test_arguments])
    print("\n" + json.dumps({"directed": int(ended)}), flush=True)  # noqa: T201


def main() -> None:
    """See the module."""
    name, *seeds = sys.argv[1:]
    mutant = named(name)
    plant(mutant)
    if seeds:
        first, count = seeds
        run_seeds(mutant, int(first), int(count))
    else:
        run_directed(mutant)


main()

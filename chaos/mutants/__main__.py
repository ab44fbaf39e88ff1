"""`python -m chaos.mutants NAME FIRST COUNT` runs the directed test of a mutant, and then seeds.

A process for each mutant: it plants the fault before anything of the product is imported. Seeds run
until one fails with an invariant that is expected. What came of it is the last line, as JSON.
Without one nothing was tested: an error of our own must not pass for a test that fails.
"""

import json
import sys
from typing import Any

from chaos.mutants.catalogue import named
from chaos.mutants.mutant import Mutant, disable_product_checks, plant


def run_seeds(mutant: Mutant, first: int, count: int) -> dict[str, Any]:
    """Run seeds until one catches the mutant; report the seed, the invariant and other failures."""
    from chaos.outcome import drawn, run, silence

    silence()
    if mutant.is_checked:
        disable_product_checks()
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
            return {"seed": seed, "rule": failure.rule, "text": failure.text, "others": others}
        others.append(f"{seed} {failure.text}"[:200])
    return {"seed": None, "others": others[:20]}


def run_directed(mutant: Mutant) -> int:
    """Run the test that is to show the fault; pytest's word for what came of it.

    Before anything else is imported: pytest, and hypothesis with it, want to be the first.
    """
    import pytest

    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *mutant.test_arguments]))


def main() -> None:
    """See the module."""
    name, first, count = sys.argv[1:]
    mutant = named(name)
    plant(mutant)
    directed = run_directed(mutant)
    found = run_seeds(mutant, int(first), int(count))
    print("\n" + json.dumps({"directed": directed, **found}), flush=True)  # noqa: T201


main()

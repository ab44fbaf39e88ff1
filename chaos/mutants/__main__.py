"""`python -m chaos.mutants NAME FIRST COUNT` runs the directed test of a mutant, and then seeds.

Each mutant has its own process, which plants the fault before the first import of the product.
Seeds run until one violates an expected invariant. The last line of the output is the result, as
JSON. Without that line nothing was tested: an error of the harness must not count as a failed test.
"""

import json
import sys
from typing import Any

from chaos.mutants.catalogue import named
from chaos.mutants.mutant import Mutant, disable_product_checks, plant


def run_seeds(mutant: Mutant, first: int, count: int) -> dict[str, Any]:
    """Run seeds until one catches the mutant; report the seed, the invariant and other failures."""
    from chaos.outcome import run, silence
    from chaos.simulation.named_profiles import drawn

    silence()
    if mutant.is_checked:
        disable_product_checks()
    others: list[str] = []
    for seed in range(first, first + count):
        try:
            failure = run(drawn(seed, mutant.kind)).failure
        except AssertionError as noticed:
            # An assertion of the product detected the fault; another seed may reach an invariant.
            others.append(f"{seed} {noticed!r}"[:200])
            continue
        if failure is None:
            continue
        if failure.rule in mutant.caught_by:
            return {"seed": seed, "rule": failure.rule, "text": failure.text, "others": others}
        others.append(f"{seed} {failure.text}"[:200])
    return {"seed": None, "others": others[:20]}


def run_directed(mutant: Mutant) -> int:
    """Run the directed test and return pytest's exit code.

    Call this before other imports: pytest and hypothesis must be imported first.
    """
    import pytest

    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *mutant.test_arguments]))


def main() -> None:
    """Run the mutant that the command line names (see the module)."""
    name, first, count = sys.argv[1:]
    mutant = named(name)
    plant(mutant)
    directed = run_directed(mutant)
    found = run_seeds(mutant, int(first), int(count))
    print("\n" + json.dumps({"directed": directed, **found}), flush=True)  # noqa: T201


main()

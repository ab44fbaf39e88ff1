"""Random logs, decided by a product with a planted fault.

    python -m tests.chaos.cluster.random_logs_of_mutant NAME FIRST COUNT

Each mutant runs in a process of its own: it is planted before anything of the product is imported.
The command prints the seed that broke a rule and the rule, or nothing.
"""

import sys

from chaos.mutants.mutant import disable_product_checks, plant
from chaos.mutants.partitions import PARTITIONS, RARE
from chaos.violation import Violation


def main() -> None:
    """See the module."""
    name, first, count = sys.argv[1:]
    (mutant,) = (each for each in (*PARTITIONS, *RARE) if each.name == name)
    plant(mutant)
    from tests.chaos.cluster.random_logs import a_log

    disable_product_checks()
    for seed in range(int(first), int(first) + int(count)):
        try:
            a_log(seed)
        except Violation as violation:
            sys.stdout.write(f"{seed} {violation.rule} {violation}\n")
            if violation.rule in mutant.caught_by:
                return
        except AssertionError:
            # The product has noticed by itself; another seed may get past that.
            continue


main()

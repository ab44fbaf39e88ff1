"""The fast random source draws the same numbers as the standard one."""

import random

from chaos.simulation.runtime import CoarseRandom, below


def test_fast_draws_equal_randrange() -> None:
    quick, plain, node = random.Random(3), random.Random(3), CoarseRandom(3)
    for stop in (1, 2, 3, 5, 8, 1_000, 4_000) * 50:
        drawn = plain.randrange(stop)
        assert (below(quick, stop), node.randrange(stop)) == (drawn, drawn)
    assert node.getstate() == quick.getstate() == plain.getstate()


def test_coarse_draws_are_those_of_any_other_cut_down_to_a_few() -> None:
    node, plain = CoarseRandom(3), random.Random(3)
    node.coarse = True
    drawn = {node.randrange(300) for _ in range(50)}
    assert drawn == {plain.randrange(300) // 150 * 150 for _ in range(50)} == {0, 150}
    assert node.randrange(5, 9) == plain.randrange(5, 9)

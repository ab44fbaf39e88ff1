"""KIP-435 (internal batching): what its text says with numbers.

Its printed example, (0, 1, 2, 3, 4) to (5, 6, 7, 8, 9), is in `test_reassignment_steps` as steps
alone, in `test_scheduler` with leaders and epochs, and in the transcript `moves_batched` record by
record.
"""

import pytest

from statemachine.errors import Error
from statemachine.reassignment.settings import CLUSTER_CONFIGS, LIMITS, PARALLEL_REPLICAS, UNLIMITED
from statemachine.vocabulary import Replicas
from tests.statemachine.support.config_requests import ALL_BROKERS, MIN_ISR, SET, ask, change
from tests.statemachine.support.world import World


def a_partition(replicas: Replicas, isr: Replicas, brokers: int, min_isr: int = 1) -> World:
    """A partition in a cluster of so many brokers; the first of the ISR leads."""
    world = World(broker_count=brokers)
    world.given(replicas=replicas, isr=isr, leader=isr[0], configs={MIN_ISR: str(min_isr)})
    dead = set(replicas) - set(isr)
    if dead:
        world.fence(*sorted(dead))
    return world


def in_parallel(world: World, replicas: int) -> World:
    """With this `reassignment.parallel.replica.count`."""
    ask(world, change(ALL_BROKERS, (PARALLEL_REPLICAS, SET, str(replicas))))
    return world


def test_with_a_factor_of_4_and_all_new_brokers_8_replicas_are_there_at_the_same_time() -> None:
    """'Say you have a replication factor of 4 [...] Now 8 replicas are fetching [...]'."""
    world = a_partition((1, 2, 3, 4), (1, 2, 3, 4), brokers=8)
    world.reassign(5, 6, 7, 8)
    assert world.partition().replicas == (1, 2, 3, 4, 5, 6, 7, 8)
    # "in the worst case, you could have 7 replicas in-sync while one is still catching up"
    world.sync(1, 2, 3, 4, 5, 6, 7)
    assert world.partition().replicas == (1, 2, 3, 4, 5, 6, 7, 8)
    assert len(world.partition().isr) == 7


def test_the_friendlier_approach_changes_one_replica_after_the_other() -> None:
    """'Bring one replica online, bring it in-sync, then remove one of the old replicas. Repeat'."""
    world = in_parallel(a_partition((1, 2, 3, 4), (1, 2, 3, 4), brokers=8), 1)
    world.reassign(5, 6, 7, 8)
    seen = []
    while world.partition().moving:
        partition = world.partition()
        seen.append((partition.adding, partition.removing, len(partition.replicas)))
        world.sync(*partition.replicas)
    # 5 comes first and takes the lead over, as the printed example has it; then 1 goes, for which
    # nobody has to be waited, and the step after that begins with the same records.
    assert seen == [((5,), (), 5), ((6,), (2,), 5), ((7,), (3,), 5), ((8,), (4,), 5)]
    assert world.partition().replicas == (5, 6, 7, 8)


def test_the_batches_of_the_text_are_steps_of_2_2_and_1_after_the_new_leader() -> None:
    """'(0, 1) to (5, 6); (2, 3) to (7, 8) and 4 to 9': brokers are one higher here.

    The printed example and ours take four increments for these three, because 5 comes alone. The
    brokers that go together are the same.
    """
    world = in_parallel(a_partition((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), brokers=10), 2)
    world.reassign(6, 7, 8, 9, 10)
    gone, came = [], []
    while world.partition().moving:
        partition = world.partition()
        gone.append(partition.removing)
        came.append(partition.adding)
        world.sync(*partition.replicas)
    assert gone == [(), (1, 2), (3, 4), (5,)]
    assert came == [(6,), (7,), (8, 9), (10,)]


def test_under_min_isr_two_are_added_in_one_step_even_if_it_exceeds_the_limit() -> None:
    """'min.insync.replicas set to 3 but there are only 1 in-sync replica': 2 more, at once."""
    world = in_parallel(a_partition((1, 2, 3), (1,), brokers=5, min_isr=3), 1)
    assert world.reassign(1, 4, 5).error is Error.NONE
    assert world.partition().adding == (4, 5)
    world.sync(1, 4, 5)
    assert world.partition().isr == (1, 4, 5)


def test_with_4_brokers_there_are_never_2_others_for_3_replicas() -> None:
    """The text says 4 brokers: one in sync, and two that are not replicas, leave two replicas.

    A min ISR of 3 is one of 2 for them, and is reached by one more (a row in docs/divergence.md).
    """
    world = in_parallel(a_partition((1, 2), (1,), brokers=4, min_isr=3), 1)
    world.reassign(1, 3, 4)
    assert (world.partition().adding, world.partition().removing) == ((3,), (2,))
    world.sync(1, 3)
    assert world.partition().isr == (1, 3)
    assert (world.partition().adding, world.partition().removing) == ((4,), ())


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_every_limit_is_an_int_from_1_on_with_a_default_that_is_the_largest(name: str) -> None:
    """'int, Int.MAX, [1,...]'."""
    setting = CLUSTER_CONFIGS[name]
    assert setting.default == str(UNLIMITED) == "2147483647"
    assert setting.refusal("1") is None
    assert setting.refusal("2147483647") is None
    assert setting.refusal("0") is not None
    assert setting.refusal("2147483648") is not None


def test_a_redirected_step_removes_no_more_than_it_still_adds() -> None:
    """5 is not wanted any more: with 2 and 3 gone for 4 alone, a replica would be missing."""
    world = in_parallel(a_partition((1, 2, 3), (1, 2, 3), brokers=8), 2)
    world.reassign(1, 4, 5)
    assert (world.partition().adding, world.partition().removing) == ((4, 5), (2, 3))
    world.reassign(1, 4, 6)
    assert (world.partition().adding, world.partition().removing) == ((4,), (2,))
    world.sync(1, 2, 3, 4)
    assert (world.partition().adding, world.partition().removing) == ((6,), (3,))

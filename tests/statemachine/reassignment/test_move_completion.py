"""A move ends once those that it is to have are alive: it waits for nobody else, dead or slow.

In steps as in one, by both completion rules, with and without the ELR. What nobody leads cannot go
on, and holds up what is in one move with it: such stories are left out.
"""

from random import Random
from typing import Final

import pytest

from statemachine import commands
from statemachine.reassignment.settings import COMPLETION_RULE, PARALLEL_REPLICAS
from statemachine.vocabulary import NO_LEADER, Replicas
from tests.statemachine.reassignment.test_scheduler_properties import catch_up
from tests.statemachine.support.config_requests import ALL_BROKERS, MIN_ISR, SET, change
from tests.statemachine.support.world import World
from tests.support.parameters import few_in_quick

BROKERS: Final = range(1, 6)
PARTITIONS: Final = range(2)
LIMITS: Final = (
    PARALLEL_REPLICAS,
    "reassignment.parallel.partition.count",
    "reassignment.parallel.leader.movements",
    "reassignment.max.concurrent.replica.movements",
)
STORIES: Final = 200
"""For each of ten tests."""
ROUNDS: Final = 40
"""The limit of rounds: enough for two partitions in turn, with four new replicas each."""


def some(rng: Random) -> Replicas:
    """Replicas of one partition, in any order."""
    return tuple(rng.sample(BROKERS, rng.randint(1, 4)))


def a_world(rng: Random) -> World:
    """Two partitions on five brokers, with something limited."""
    world = World(broker_count=len(BROKERS), elr=rng.random() < 0.5)
    for _ in PARTITIONS:
        replicas = some(rng)
        world.given(replicas=replicas, isr=replicas, leader=replicas[0])
    values = {name: rng.choice("12") for name in rng.sample(LIMITS, rng.randint(1, 2))}
    values |= {COMPLETION_RULE: rng.choice(["min-isr", "all-target"]), MIN_ISR: rng.choice("123")}
    ops = [(name, SET, value) for name, value in values.items()]
    world.ask(commands.IncrementalAlterConfigs(changes=(change(ALL_BROKERS, *ops),)))
    return world


def happen(rng: Random, world: World) -> None:
    """Something that an operator, a leader or a broker does."""
    number = rng.choice(PARTITIONS)
    match rng.choice("mmmccclfffra"):
        case "m":
            world.reassign(*some(rng), number=number)
        case "c":
            catch_up(world, number, everyone=False)
        case "l":
            lag(world, number)
        case "f":
            world.fence(rng.choice(BROKERS))
        case "r":
            world.heartbeat(rng.choice(BROKERS))
        case _:
            world.cancel(number)


def lag(world: World, number: int) -> None:
    """All but one of the followers fall out of the ISR."""
    partition = world.partition(number)
    if partition.leader != NO_LEADER:
        followers = [each for each in partition.isr if each != partition.leader]
        world.sync(partition.leader, *followers[:1], number=number)


def only_the_final_live(rng: Random, world: World) -> None:
    """Those that moves lead to are alive; whoever else dies is dead for good."""
    final = {each for number in PARTITIONS for each in world.partition(number).final}
    for broker in sorted(final):
        world.heartbeat(broker)
    for broker in sorted({*BROKERS} - final):
        if rng.random() < 0.7:
            world.fence(broker)


def until_nothing_happens(world: World) -> None:
    """All that are alive catch up, wherever somebody leads."""
    for _ in range(ROUNDS):
        before = world.image.end_offset
        for number in PARTITIONS:
            catch_up(world, number, everyone=True)
        world.ask(commands.AdvanceMoves())
        if world.image.end_offset == before:
            return


@pytest.mark.parametrize("seed", few_in_quick(range(10), every=5))
def test_a_move_waits_only_for_those_that_it_is_to_have(seed: int) -> None:
    led = 0
    for story in range(STORIES):
        rng = Random(seed * STORIES + story)
        world = a_world(rng)
        for _ in range(rng.randint(2, 14)):
            happen(rng, world)
        only_the_final_live(rng, world)
        until_nothing_happens(world)
        found = [world.partition(number) for number in PARTITIONS]
        if all(each.leader != NO_LEADER for each in found):
            led += 1
            left = [each for each in found if each.moving]
            assert not left, f"story {story} of seed {seed}: nothing more happens to these"
    assert led > STORIES / 2

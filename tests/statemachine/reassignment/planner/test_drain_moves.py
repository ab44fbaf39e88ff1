"""Drain moves: planned on an image, and carried out to their end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.errors import Error
from statemachine.reassignment.planner.outcome import cluster_shares
from statemachine.reassignment.planner.plans import drain
from statemachine.reassignment.planner.survey import Stay, drained_keys, held, held_keys, survey
from statemachine.slices import whole
from statemachine.vocabulary import MoveKind, MoveOutcome, Replicas
from tests.statemachine.reassignment.test_scheduler import limited
from tests.statemachine.support.world import World
from tests.support.parameters import at_most_in_quick

BROKERS = 6

Load = tuple[int, int, int]
"""A broker, its replicas, and the partitions that it leads."""


def drained(world: World, *brokers: int) -> tuple[commands.MoveStarted, tuple[Load, ...]]:
    """The move that empties these brokers has begun; what was foretold of all brokers."""
    seen, rows = survey(world.image), held(world.image, held_keys(world.image, brokers), brokers)
    free = {(row.topic, row.partition): row.replicas for row in rows if row.stay is Stay.FREE}
    plan = whole(drain(free, brokers, seen.takers, seen.racks, loads=seen.loads, leads=seen.leads))
    assert isinstance(plan, dict), plan
    shares = cluster_shares(seen, rows, plan)
    before = tuple((each.broker, each.replicas_before, each.leaders_before) for each in shares)
    assert before == loads(world)
    asked = tuple(
        commands.Reassignment(topic=topic, partition=number, replicas=replicas)
        for (topic, number), replicas in plan.items()
    )
    answer = world.ask(commands.BeginMove(reassignments=asked, kind=MoveKind.DRAIN)).answer
    assert isinstance(answer, commands.MoveStarted)
    assert (answer.accepted, answer.refused) == (len(plan), ())
    return answer, tuple((each.broker, each.replicas_after, each.leaders_after) for each in shares)


def loads(world: World) -> tuple[Load, ...]:
    """The replicas and leaders of each broker, counted partition by partition."""
    existing = [each for topic in world.image.topics.values() for _, each in topic.existing()]
    return tuple(
        (
            broker,
            sum(broker in each.replicas for each in existing),
            sum(broker == each.leader for each in existing),
        )
        for broker in sorted(world.image.brokers)
    )


def placed(count: int, brokers_: int) -> st.SearchStrategy[list[Replicas]]:
    """Partitions with up to three replicas on brokers 1 to so many."""
    replicas = st.lists(
        st.integers(1, brokers_), min_size=1, max_size=min(3, brokers_), unique=True
    )
    return st.lists(replicas.map(tuple), min_size=1, max_size=count)


def settled(world: World) -> None:
    """Let every added replica catch up, step after step, until nothing moves."""
    for _ in range(50):
        moving = [number for _, number in world.image.index.partitions(world.image.index.stepping)]
        if not moving:
            return
        for number in moving:
            partition = world.partition(number)
            live = (
                *partition.isr,
                *[each for each in partition.adding if each not in partition.isr],
            )
            world.sync(*[each for each in live if world.image.brokers[each].live], number=number)
        world.ask(commands.AdvanceMoves())
    raise AssertionError("it moves for ever")


@settings(max_examples=at_most_in_quick(25), deadline=None)
@given(
    placed(5, 4),
    st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True),
    st.one_of(st.none(), st.integers(1, 2)),
    st.booleans(),
)
def test_drained_brokers_are_empty_in_the_end_under_any_limits(
    partitions: list[Replicas], brokers: list[int], limit: int | None, is_dead: bool
) -> None:
    world = World(broker_count=BROKERS)
    if limit is not None:
        limited(world, R=limit, P=limit)
    for replicas in partitions:
        world.given(replicas=replicas, isr=replicas, leader=replicas[0])
    if is_dead:
        world.fence(brokers[0])
    unled = [n for n, _ in enumerate(partitions) if world.partition(n).leader < 0]
    sizes = [len(each) for each in partitions]
    begun, foretold = drained(world, *brokers)
    assert drained(world, *brokers)[1] == foretold, "what is on its way counts as arrived"
    settled(world)
    assert foretold == loads(world)
    left = held(world.image, held_keys(world.image, brokers), brokers)
    assert [(each.partition, each.stay) for each in left] == [(n, Stay.LEADERLESS) for n in unled]
    assert [len(world.partition(n).replicas) for n, _ in enumerate(partitions)] == sizes
    if begun.move_id:
        ended = world.image.moves[begun.move_id].ended
        assert ended is not None
        assert ended.outcome == MoveOutcome.COMPLETED


@settings(max_examples=at_most_in_quick(25), deadline=None)
@given(placed(5, 4), st.integers(1, 4), st.integers(0, 5))
def test_a_cancelled_drain_leaves_each_partition_at_its_source_or_its_target(
    partitions: list[Replicas], broker: int, done: int
) -> None:
    world = World(broker_count=BROKERS)
    for replicas in partitions:
        world.given(replicas=replicas, isr=replicas, leader=replicas[0])
    drained(world, broker)
    targets = [world.partition(number).final for number, _ in enumerate(partitions)]
    for number, replicas in list(enumerate(partitions))[:done]:
        if world.partition(number).moving:
            adding = world.partition(number).adding
            world.sync(*replicas, *adding, number=number)
    rows = held(world.image, drained_keys(world.image, (broker,)), (broker,))
    named = tuple((row.topic, row.partition) for row in rows)
    if named:
        answer = world.ask(commands.CancelMoves(partitions=named)).answer
        assert isinstance(answer, commands.MovesCancelled)
        assert all(each.error is Error.NONE for each in answer.partitions)
    for number, replicas in enumerate(partitions):
        assert not world.partition(number).moving
        expected = targets[number] if number < done else replicas
        assert world.partition(number).replicas == expected
    assert all(move.ended is not None for move in world.image.moves.values())


@pytest.mark.parametrize(("limit", "led_by_4"), [(None, 0), (1, 2)])
def test_it_is_foretold_who_leads_where_only_the_preferred_leader_goes(
    limit: int | None, led_by_4: int
) -> None:
    """With limits a new preferred leader takes over (KIP-435), else who leads goes on."""
    world = World(broker_count=4)
    if limit is not None:
        limited(world, R=limit)
    for _ in range(4):
        world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=2)
    _, foretold = drained(world, 1)
    settled(world)
    assert foretold == loads(world)
    assert foretold[3] == (4, 4, led_by_4)

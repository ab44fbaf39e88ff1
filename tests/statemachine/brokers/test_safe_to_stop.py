"""Safe-to-stop, compared with the partitions after the brokers have stopped."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.brokers.safety import Harm, SafetyCheck, check_safety
from statemachine.errors import Refusal
from statemachine.slices import whole
from tests.statemachine.support.world import World
from tests.support.parameters import at_most_in_quick

BROKERS = range(1, 5)


def judged(world: World, *broker_ids: int) -> SafetyCheck:
    found = whole(check_safety(world.image, broker_ids))
    assert isinstance(found, SafetyCheck)
    return found


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Four brokers, some of them dead or stopping, and partitions in all kinds of shapes."""
    world = World(broker_count=len(BROKERS))
    min_isr = draw(st.sampled_from(["1", "2", "3"]))
    for _ in range(draw(st.integers(1, 4))):
        replicas = draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True))
        isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
        world.given(
            replicas=tuple(replicas),
            isr=tuple(isr),
            leader=isr[0],
            configs={"min.insync.replicas": min_isr},
        )
    if draw(st.booleans()):
        world.fence(draw(st.sampled_from(BROKERS)))
    if draw(st.booleans()):
        stopping = draw(st.sampled_from(BROKERS))
        if not world.image.brokers[stopping].fenced:
            world.heartbeat(stopping, want_shut_down=True)
    return world


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(200), deadline=None)
@given(worlds(), st.sets(st.sampled_from(BROKERS), min_size=1))
def test_it_says_no_exactly_where_stopping_does_harm(world: World, stopping: set[int]) -> None:
    found = judged(world, *stopping)
    topic = next(iter(world.image.topics.values()))
    before = dict(topic.existing())
    min_isr = int(world.image.configs[2, "t"]["min.insync.replicas"])
    world.ask(commands.FenceBrokers(broker_ids=tuple(sorted(stopping))))
    hurt = {}
    for number, was in before.items():
        # Who was in sync and is not alive stays in the ISR only where nobody else is left.
        after = world.partition(number)
        left = tuple(each for each in after.isr if world.image.brokers[each].live)
        if not stopping & set(was.isr):
            continue
        if after.leader == -1:
            hurt[number] = Harm.NO_LEADER
        elif len(left) < min(min_isr, len(was.replicas)):
            hurt[number] = Harm.UNDER_MIN_ISR
    assert {each.partition: each.harm for each in found.unsafe} == hurt
    assert found.unsafe_count == len(hurt)


def test_the_objecting_partition_is_named_with_the_remaining_replicas() -> None:
    world = World(broker_count=3)
    configs = {"min.insync.replicas": "2"}
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, configs=configs)
    world.given(replicas=(1, 2, 3), isr=(1, 2), leader=1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    found = judged(world, 1)
    assert [(each.partition, each.harm, each.in_sync, each.min_isr) for each in found.unsafe] == [
        (1, Harm.UNDER_MIN_ISR, (2,), 2),
        (2, Harm.NO_LEADER, (), 1),
    ]
    assert (found.unsafe_count, found.looked_at) == (2, 3)
    assert judged(world, 3).unsafe_count == 0
    assert judged(world, 2).unsafe_count > 0
    assert [each.partition for each in judged(world, 2, 3).unsafe] == [0, 1]


def test_unknown_brokers_hurt_nobody() -> None:
    world = World(broker_count=1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    assert judged(world, 9).unsafe_count == 0
    assert judged(world).unsafe_count == 0


def test_the_named_and_the_examined_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(broker_count=1)
    for _ in range(3):
        world.given(replicas=(1,), isr=(1,), leader=1)
    monkeypatch.setattr("statemachine.brokers.safety.UNSAFE_PARTITIONS_SHOWN_MAX", 2)
    found = judged(world, 1)
    assert ([each.partition for each in found.unsafe], found.unsafe_count) == ([0, 1], 3)
    monkeypatch.setattr("statemachine.brokers.safety.STOPPING_PARTITIONS_MAX", 2)
    refused = whole(check_safety(world.image, (1,)))
    assert isinstance(refused, Refusal)
    assert "in sync for 3 partitions" in refused.message


def test_a_silent_broker_is_not_relied_upon() -> None:
    world = World(broker_count=3)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    found = whole(check_safety(world.image, (1,), silent={2}))
    assert isinstance(found, SafetyCheck)
    assert (found.unsafe_count, found.silent) == (1, (2,))
    (unsafe,) = found.unsafe
    assert (unsafe.harm, unsafe.in_sync) == (Harm.NO_LEADER, ())
    # It stops itself: nothing depends on whether it is alive.
    itself = whole(check_safety(world.image, (2,), silent={2}))
    assert isinstance(itself, SafetyCheck)
    assert (itself.unsafe_count, itself.silent) == (0, ())

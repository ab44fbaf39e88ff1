"""A pause stops copies by throttles of rate 0, and says which it does not stop.

`moves_pause_copying` is the story; here are the reasons, one by one, and what is at the edges.
"""

import pytest

from controller.event_queue import SLICE_US
from statemachine import commands
from statemachine.decide import decide, deciding
from statemachine.limits import CONFIG_VALUE_BYTES_MAX
from statemachine.reassignment.running_copies import SHOWN_MAX, RunningCopies, running_copies
from statemachine.reassignment.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from statemachine.replay import replay
from statemachine.slices import CONFIGURED_US, whole
from tests.statemachine.reassignment.test_moves import move
from tests.statemachine.reassignment.test_pause_commands import pause, resume
from tests.statemachine.reassignment.test_scheduler import some
from tests.statemachine.reassignment.test_throttle import _many_topics, broker, throttles
from tests.statemachine.support.config_requests import ALL_BROKERS, DELETE, SET, TOPIC, ask, change
from tests.statemachine.support.world import TOPIC_ID, World


@pytest.fixture
def world() -> World:
    """Partitions 0 to 3 on brokers 1, 2 and 3; all steps at once."""
    world = World(broker_count=6)
    some(world, 4)
    return world


HELD = {
    "t leader": "0:1,0:2,0:3",
    "t follower": "0:4",
    "1 leader": "0",
    "2 leader": "0",
    "3 leader": "0",
    "4 follower": "0",
}
"""For partition 0 from 1, 2, 3 to 1, 2, 4, of a paused move."""


def running(world: World, *moves: int) -> RunningCopies:
    """The copies that the pause of these moves does not stop; without any, of all."""
    return whole(running_copies(world.image, moves or None))


def reasons(world: World, *moves: int) -> list[tuple[int, int, str]]:
    """Partition, broker and reason of each."""
    found = running(world, *moves)
    assert found.total == len(found.first)
    return [(each.partition, each.broker_id, each.reason) for each in found.first]


def test_the_copies_of_a_paused_move_stand_still_and_no_others(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    move(world, {1: (1, 2, 4)})
    pause(world, 1)
    assert throttles(world) == HELD
    assert reasons(world, 1) == []
    reason = "move 2 is not paused, or only after the step under way"
    assert reasons(world) == [(1, 4, reason)]


def test_a_replica_that_is_in_sync_is_in_no_list_of_a_pause(world: World) -> None:
    move(world, {0: (4, 5, 6)})
    world.sync(1, 2, 3, 4, number=0)
    pause(world, 1)
    assert throttles(world)["t follower"] == "0:5,0:6"


def test_a_replica_that_must_catch_up_is_not_held_up_by_its_leader(world: World) -> None:
    """Broker 2 has restarted: the leader's throttle would keep it out of the ISR."""
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    pause(world, 1)
    world.fence(2)
    world.heartbeat(2)
    assert throttles(world)["t follower"] == "0:4,1:5"
    assert "t leader" not in throttles(world)
    world.sync(1, 2, 3, number=0)
    assert throttles(world)["t leader"] == "0:1,0:2,0:3"
    assert reasons(world, 1) == []
    resume(world, 1)
    assert throttles(world) == {}


def test_what_waits_for_its_first_step_needs_no_throttle(world: World) -> None:
    pause(world)
    move(world, {0: (1, 2, 4)})
    assert (throttles(world), reasons(world)) == ({}, [])
    resume(world)
    assert throttles(world) == {}


def test_a_throttled_move_that_begins_under_a_pause_of_all_has_its_throttle_afterwards(
    world: World,
) -> None:
    pause(world)
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=700)
    resume(world)
    assert throttles(world)["4 follower"] == "700"
    assert throttles(world)["t follower"] == "0:4"


@pytest.mark.parametrize("whose", [broker(4), ALL_BROKERS], ids=["one", "all"])
def test_the_rate_of_a_user_stays_and_is_named(world: World, whose: tuple[int, str]) -> None:
    """On one side it makes no difference: the other one stops the copy."""
    move(world, {0: (1, 2, 4)})
    ask(world, change(whose, (FOLLOWER_RATE, SET, "500")))
    pause(world, 1)
    assert reasons(world, 1) == []
    resume(world, 1)
    leader = broker(1) if whose == broker(4) else ALL_BROKERS
    ask(world, change(leader, (LEADER_RATE, SET, "600")))
    pause(world, 1)
    name = "broker 4" if whose == broker(4) else "all brokers"
    limit = f"a user limits copies to {name} by follower.replication.throttled.rate=500"
    assert reasons(world, 1) == [(0, 4, limit)]
    resume(world, 1)
    assert throttles(world) == {f"{leader[1]} leader": "600", f"{whose[1]} follower": "500"}


def test_what_a_user_sets_during_the_pause_is_the_users_and_is_named(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    pause(world, 1)
    ask(world, change(broker(1), (LEADER_RATE, DELETE, None)))
    ask(world, change(broker(4), (FOLLOWER_RATE, SET, "900")))
    limit = "a user limits copies to broker 4 by follower.replication.throttled.rate=900"
    assert reasons(world, 1) == [(0, 4, limit)]
    ask(world, change(TOPIC, (FOLLOWER_REPLICAS, SET, "3:9")))
    taken = "a user has set follower.replication.throttled.replicas of topic t"
    assert reasons(world, 1) == [(0, 4, taken), (1, 5, taken)]
    resume(world, 1)
    assert throttles(world) == {"t follower": "3:9", "4 follower": "900"}


def test_the_rate_that_another_running_move_needs_stays_until_it_is_paused_too(
    world: World,
) -> None:
    """It is the lowest of both, as before the pause: nothing goes on faster than it did."""
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=50)
    move(world, {1: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    pause(world, 1)
    assert throttles(world)["4 follower"] == "50"
    assert reasons(world, 1) == [(0, 4, "move 2 copies to broker 4 at 50 bytes/s")]
    pause(world, 2)
    assert throttles(world)["4 follower"] == "0"
    assert reasons(world) == []
    resume(world, 1)
    assert throttles(world)["4 follower"] == "50"


def test_a_pause_after_the_step_changes_to_one_at_once_and_back(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    after_step = commands.PauseMoves(moves=(1,), who="bob", after_step=True)
    all_after_step = commands.PauseMoves(moves=None, who="bob", after_step=True)
    for at_once, later in ((1,), after_step), ((), all_after_step):
        world.ask(later)
        assert throttles(world) == {}
        pause(world, *at_once)
        assert throttles(world)["4 follower"] == "0"
        world.ask(later)
        assert throttles(world) == {}
        assert world.ask(later).records == ()
        resume(world, *at_once)


def test_a_throttle_may_change_during_a_pause_and_counts_afterwards(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    pause(world, 1)
    for rate in (300, 0):
        world.ask(commands.AlterMove(move_id=1, throttle_bytes_per_s=rate))
        assert throttles(world) == HELD
    world.ask(commands.AlterMove(move_id=1, throttle_bytes_per_s=300))
    resume(world, 1)
    assert throttles(world)["4 follower"] == "300"


def test_a_copy_that_another_move_takes_over_goes_on(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    pause(world, 1)
    move(world, {0: (1, 4, 5)})
    assert throttles(world)["t follower"] == "1:4"
    assert reasons(world, 1) == []


def test_the_pause_of_many_topics_is_decided_in_slices_and_names_the_first() -> None:
    count = 300
    image = _many_topics(count)
    asked = tuple(
        commands.Reassignment(topic=f"t{number}", partition=0, replicas=(2, 3))
        for number in range(count)
    )
    for command in (
        commands.BeginMove(reassignments=asked),
        commands.PauseMoves(moves=None),
        commands.PauseMoves(moves=None, paused=False),
        commands.PauseMoves(moves=(1,)),
        commands.CancelMoves(moves=(1,)),
        commands.PauseMoves(moves=(1,)),
    ):
        costs_us = list(deciding(image, command))
        assert max(costs_us, default=0) < SLICE_US
        for record in decide(image, command).records:
            replay(image, record, image.end_offset)
        if isinstance(command, commands.PauseMoves) and image.moves[1].ended is None:
            assert sum(costs_us) > count * CONFIGURED_US
        if isinstance(command, commands.BeginMove):
            found = whole(running_copies(image, None))
            assert (len(found.first), found.total) == (SHOWN_MAX, count)
    assert (image.owned, image.configs) == ({}, {})


def test_a_copy_of_no_move_is_named_as_such(world: World) -> None:
    """Of a controller that knows no moves, for example of Kafka's before the upgrade."""
    world.given(replicas=(1, 2, 3, 4), isr=(1, 2, 3), adding=(4,), leader=1)
    pause(world)
    assert reasons(world) == [(4, 4, "it belongs to no move")]


def test_a_rate_that_a_user_removes_during_the_pause_stays_removed(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    pause(world, 1)
    ask(world, change(broker(1), (LEADER_RATE, DELETE, None)))
    ask(world, change(broker(4), (FOLLOWER_RATE, DELETE, None)))
    removed = "a user has removed follower.replication.throttled.rate of broker 4"
    assert reasons(world, 1) == [(0, 4, removed)]
    resume(world, 1)
    assert throttles(world) == {}


@pytest.mark.parametrize("rate", [0, 500])
def test_a_list_that_would_be_too_long_has_what_fits_and_the_rest_is_named(
    world: World, rate: int
) -> None:
    """`*` would hold up replicas that restart. Without the checks of the world, as here is much."""
    count, image = 6_000, world.image
    for number in range(4, count):
        image.set_partition(image.topics[TOPIC_ID], number, world.partition())
    asked = tuple(
        commands.Reassignment(topic="t", partition=number, replicas=(1, 2, 4))
        for number in range(count)
    )
    begin = commands.BeginMove(reassignments=asked, throttle_bytes_per_s=rate)
    for command in (begin, commands.PauseMoves(moves=(1,))):
        for record in decide(image, command).records:
            replay(image, record, image.end_offset)
    named = throttles(world)["t follower"].split(",")
    assert count / 2 < len(named) < count
    assert 32_750 < len(throttles(world)["t leader"]) <= CONFIG_VALUE_BYTES_MAX
    found = running(world, 1)
    assert found.total == count - len(named)
    full = "follower.replication.throttled.replicas of topic t is full"
    assert found.first[0].reason == full
    for record in decide(image, commands.PauseMoves(moves=(1,), paused=False)).records:
        replay(image, record, image.end_offset)
    assert throttles(world).get("t leader") == ("*" if rate else None)

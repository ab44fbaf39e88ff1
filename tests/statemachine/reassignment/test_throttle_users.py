"""Throttle configurations set by users, beside throttled moves."""

import pytest

from statemachine import commands
from statemachine.commands import ConfigChange
from statemachine.reassignment.move import Owned
from statemachine.reassignment.move_queries import summary_of
from statemachine.reassignment.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from statemachine.slices import whole
from tests.statemachine.reassignment.test_moves import cancel, move
from tests.statemachine.reassignment.test_scheduler import catch_up, some
from tests.statemachine.reassignment.test_throttle import NEEDED, alter, broker, throttles
from tests.statemachine.support.config_requests import (
    APPEND,
    DELETE,
    MIN_ISR,
    SET,
    SUBTRACT,
    TOPIC,
    ask,
    change,
    replacement,
)
from tests.statemachine.support.reference_checks import contents
from tests.statemachine.support.world import World


@pytest.fixture
def world() -> World:
    """Partitions 0 to 3 on brokers 1, 2 and 3."""
    world = World(broker_count=6)
    some(world, 4)
    return world


def test_users_get_their_values_back_at_the_end(world: World) -> None:
    ask(world, change(broker(1), (LEADER_RATE, SET, "7")))
    ask(world, change(TOPIC, (FOLLOWER_REPLICAS, SET, "3:1")))
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    assert throttles(world) == NEEDED | {"t follower": "3:1,0:4"}
    move(world, {1: (1, 2, 5)}, throttle_bytes_per_s=2_000)
    cancel(world, moves=(1, 2))
    assert throttles(world) == {"1 leader": "7", "t follower": "3:1"}


@pytest.mark.parametrize(("operation", "value"), [(SET, "7"), (SET, "1000"), (DELETE, None)])
def test_a_value_that_a_user_sets_meanwhile_is_the_users_and_moves_show_it(
    world: World, operation: int, value: str | None
) -> None:
    """Also where he says what is so already."""
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    move(world, {1: (1, 2, 4)}, throttle_bytes_per_s=3_000)
    ask(world, change(broker(4), (FOLLOWER_RATE, operation, value)))
    for move_id in (1, 2):
        found = whole(summary_of(world.image, move_id))
        assert found is not None
        assert found.lost == ((broker(4), FOLLOWER_RATE),)
    alter(world, 50)
    assert throttles(world).get("4 follower") == value
    assert throttles(world)["4 leader"] == "50"
    cancel(world, moves=(1, 2))
    assert throttles(world) == ({} if value is None else {"4 follower": value})


def test_to_a_list_he_adds_for_himself_and_takes_out_for_himself(world: World) -> None:
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    ask(world, change(TOPIC, (FOLLOWER_REPLICAS, APPEND, "2:3,3:3")))
    ask(world, change(TOPIC, (FOLLOWER_REPLICAS, SUBTRACT, "3:3")))
    assert throttles(world)["t follower"] == "0:4,2:3"
    owned = world.image.owned[(TOPIC, FOLLOWER_REPLICAS)]
    assert owned == Owned(previous="2:3", holders=(1,))
    cancel(world, moves=(1,))
    assert throttles(world) == {"t follower": "2:3"}


def replace_all(world: World, *asked: ConfigChange) -> None:
    world.ask(commands.IncrementalAlterConfigs(changes=asked))


def test_a_tool_that_writes_back_what_it_has_read_takes_nothing(world: World) -> None:
    """Kafka's old AlterConfigs names everything that is to stay: else it would stay for ever."""
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    before = world.image.configs[TOPIC]
    replace_all(world, replacement(TOPIC, {**before, MIN_ISR: "2"}))
    catch_up(world)
    assert throttles(world) == {}
    assert world.image.configs[TOPIC] == {MIN_ISR: "2"}


def test_a_tool_that_leaves_them_out_has_removed_them(world: World) -> None:
    ask(world, change(TOPIC, (LEADER_REPLICAS, SET, "3:1")))
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    replace_all(world, replacement(TOPIC, {MIN_ISR: "2"}))
    catch_up(world)
    assert throttles(world) == {}


def test_a_dry_run_changes_no_owner_of_a_configuration(world: World) -> None:
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    wish = change(broker(4), (FOLLOWER_RATE, SET, "7"))
    assert ask(world, wish, validate_only=True).records == ()


def test_a_dry_run_ends_no_move_that_it_would_complete() -> None:
    """A move that waits for fewer replicas in sync would be complete by a lower min ISR."""
    world = World(broker_count=3)
    world.given(replicas=(1, 2, 3), isr=(1,), leader=1, configs={MIN_ISR: "2"})
    move(world, {0: (1, 2)})
    before = contents(world.image)
    assert before["moves"][1].ended is None
    ask(world, change(TOPIC, (MIN_ISR, SET, "1")), validate_only=True)
    assert contents(world.image) == before

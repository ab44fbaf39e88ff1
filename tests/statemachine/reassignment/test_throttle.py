"""A throttled move sets configurations while it runs, and restores them at its end."""

from uuid import UUID

import pytest

from controller.event_queue import SLICE_US
from statemachine import commands
from statemachine.decide import decide, deciding
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.image.snapshot import begin
from statemachine.limits import (
    CONFIG_VALUE_BYTES_MAX,
    THROTTLES_RELEASED_MAX,
    THROTTLES_RELEASED_US_MAX,
)
from statemachine.reassignment.move import Owned
from statemachine.reassignment.throttle import (
    ALL_REPLICAS,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    PAIRS_MAX,
    is_left,
    listed,
    number_of,
)
from statemachine.records import kafka_records, own_records
from statemachine.replay import replay
from statemachine.slices import BYTES_LISTED_IN_US, CONFIGURED_US
from statemachine.vocabulary import BROKER_RESOURCE, MoveState, Ownership
from tests.statemachine.image.test_snapshot_written import loaded, whole
from tests.statemachine.reassignment.test_moves import move, roll_back
from tests.statemachine.reassignment.test_scheduler import catch_up, limited, some
from tests.statemachine.support.config_requests import SET, TOPIC, ask, change
from tests.statemachine.support.reference_checks import contents
from tests.statemachine.support.world import TOPIC_ID, World


def broker(broker_id: int) -> tuple[int, str]:
    return (BROKER_RESOURCE, str(broker_id))


@pytest.fixture
def world() -> World:
    """Partitions 0 to 3 on brokers 1, 2 and 3."""
    world = World(broker_count=6)
    some(world, 4)
    return world


def throttles(world: World) -> dict[str, str]:
    """The throttle configurations, by a short name of the resource and the configuration."""
    return {
        f"{resource[1]} {name.split('.')[0]}": value
        for resource, configs in world.image.configs.items()
        for name, value in configs.items()
        if ".throttled." in name
    }


def alter(
    world: World, rate: int | None, move_id: int = 1, **fields: object
) -> commands.MoveAltered:
    """Let the move go on at this rate."""
    command = commands.AlterMove(move_id=move_id, throttle_bytes_per_s=rate, **fields)  # type: ignore[arg-type]
    answer = world.ask(command).answer
    assert isinstance(answer, commands.MovesAltered)
    return answer.moves[0]


NEEDED = {
    "t leader": "0:1,0:2,0:3,0:4",
    "t follower": "0:4",
    "1 leader": "1000",
    "2 leader": "1000",
    "3 leader": "1000",
    "4 leader": "1000",
    "4 follower": "1000",
}
"""For partition 0 from 1, 2, 3 to 1, 2, 4."""


def test_a_move_that_begins_sets_what_it_needs_before_its_first_replica_is_added(
    world: World,
) -> None:
    decision = world.ask(
        commands.BeginMove(
            reassignments=(commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 4)),),
            throttle_bytes_per_s=1_000,
        )
    )
    assert throttles(world) == NEEDED
    shapes = [type(each) for each in decision.records]
    last = len(shapes) - 1 - shapes[::-1].index(kafka_records.Config)
    assert shapes.index(own_records.MoveBegun) < shapes.index(own_records.ConfigOwned)
    assert last < shapes.index(kafka_records.PartitionChange)


def test_the_same_goes_for_what_is_asked_in_kafkas_words(world: World) -> None:
    asked = commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 4))
    world.ask(commands.AlterReassignments(reassignments=(asked,), throttle_bytes_per_s=1_000))
    assert throttles(world) == NEEDED


def test_a_partition_that_waits_for_its_first_step_has_its_throttle_already(world: World) -> None:
    limited(world, P=1)
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)}, throttle_bytes_per_s=1_000)
    assert throttles(world)["t follower"] == "0:4,1:5"
    assert throttles(world)["5 follower"] == "1000"


def test_all_is_given_up_with_the_decision_that_ends_the_move(world: World) -> None:
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    catch_up(world)
    assert throttles(world) == {}
    assert world.image.owned == {}


def test_a_pause_after_the_step_lifts_no_throttle(world: World) -> None:
    """Copies in progress continue, and are throttled as before."""
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    world.ask(commands.PauseMoves(moves=(1,), who="bob", after_step=True))
    assert world.image.moves[1].state == MoveState.PAUSED
    assert throttles(world) == NEEDED


def test_nothing_is_set_for_a_move_that_copies_nothing_or_is_not_throttled(world: World) -> None:
    move(world, {0: (3, 2, 1), 1: (1, 2)}, throttle_bytes_per_s=1_000)
    move(world, {2: (1, 2, 4)})
    assert throttles(world) == {}


def test_partitions_that_are_refused_and_those_taken_out_again_need_nothing(world: World) -> None:
    asked = [(0, (1, 2, 4)), (0, None), (1, (1, 2, 99)), (2, (1, 2, 5))]
    world.ask(
        commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic="t", partition=number, replicas=replicas)
                for number, replicas in asked
            ),
            throttle_bytes_per_s=1_000,
        )
    )
    assert throttles(world)["t follower"] == "2:5"
    assert "4 follower" not in throttles(world)


@pytest.mark.parametrize("rate", [-1, 2**63])
def test_an_invalid_rate_is_refused_with_the_valid_form(world: World, rate: int) -> None:
    reason = "a whole number from 1 to 9223372036854775807, or 0 for none"
    begun = move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=rate)
    assert (begun.error, begun.move_id) == (Error.INVALID_REQUEST, 0)
    assert reason in begun.message
    asked = commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 4))
    command = commands.AlterReassignments(reassignments=(asked,), throttle_bytes_per_s=rate)
    answer = world.ask(command).answer
    assert isinstance(answer, commands.ReassignmentsAltered)
    assert reason in answer.partitions[0].message
    assert move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=2**63 - 1).move_id == 1
    assert reason in alter(world, rate).message


def test_the_rate_and_the_priority_of_a_move_change_together_or_alone(world: World) -> None:
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000, priority=3)
    alter(world, 2_000)
    after = world.image.moves[1]
    assert (after.options.throttle_bytes_per_s, after.options.priority) == (2_000, 3)
    alter(world, None, priority=4)
    after = world.image.moves[1]
    assert (after.options.throttle_bytes_per_s, after.options.priority) == (2_000, 4)
    assert throttles(world)["1 leader"] == throttles(world)["4 follower"] == "2000"
    assert world.ask(commands.AlterMove(move_id=1, throttle_bytes_per_s=2_000)).records == ()


def test_a_move_without_a_throttle_can_be_given_one_and_lose_it(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    alter(world, 1_000)
    assert throttles(world) == NEEDED
    alter(world, 0)
    assert throttles(world) == {}


def test_the_way_back_has_the_rate_of_the_way_there(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    alter(world, 500)
    catch_up(world)
    assert roll_back(world, 1).move_id == 2
    assert world.image.moves[2].options.throttle_bytes_per_s == 500


# Lists.


def test_a_list_that_would_be_too_long_names_all_replicas_until_nobody_needs_it(
    world: World,
) -> None:
    """Without the checks of the world: they look at everything, and here is much."""
    count, image = 4_000, world.image
    for number in range(4, count):
        image.set_partition(image.topics[TOPIC_ID], number, world.partition())
    asked = tuple(
        commands.Reassignment(topic="t", partition=number, replicas=(1, 2, 4))
        for number in range(count)
    )
    _ask(image, commands.BeginMove(reassignments=asked, throttle_bytes_per_s=1_000))
    assert throttles(world)["t leader"] == ALL_REPLICAS
    assert 20_000 < len(throttles(world)["t follower"]) <= CONFIG_VALUE_BYTES_MAX
    another = commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 5))
    _ask(image, commands.BeginMove(reassignments=(another,), throttle_bytes_per_s=500))
    assert throttles(world)["t leader"] == ALL_REPLICAS
    assert throttles(world)["t follower"].split(",")[-1] == "0:5"
    _ask(image, commands.CancelMoves(moves=(1,)))
    assert throttles(world)["t leader"] == ALL_REPLICAS
    assert throttles(world)["t follower"] == "0:5"
    _ask(image, commands.CancelMoves(moves=(2,)))
    assert throttles(world) == {}


def test_lists_name_each_pair_once_and_never_more_than_fits() -> None:
    assert listed() is None
    assert listed(["0:1", "1:2"], ["0:1"]) == "0:1,1:2"
    assert listed(["0:1"], ["*"]) == ALL_REPLICAS
    assert listed(["0:1", "1:2"], ["0:1"], is_cut=True) == "0:1,1:2"
    just = [f"{number:06}:100" for number in range(CONFIG_VALUE_BYTES_MAX // 11)]
    assert len(listed(just) or "") > CONFIG_VALUE_BYTES_MAX - 11
    fits = f"{listed(just)},7:1,0:1"
    assert listed(just, ["7:1"] * 9, ["0:1", "1:1"], is_cut=True) == fits
    assert (
        listed(["x" * CONFIG_VALUE_BYTES_MAX], ["1:2"], is_cut=True) == "x" * CONFIG_VALUE_BYTES_MAX
    )
    assert listed(str(number) for number in range(PAIRS_MAX + 1)) == ALL_REPLICAS


@pytest.mark.parametrize(
    ("pair", "number"),
    [("12:3", 12), ("12", 12), ("*", None), (":1", None), ("-1:2", None), ("9" * 30, None)],
)
def test_a_pair_that_cannot_be_read_is_of_no_partition(pair: str, number: int | None) -> None:
    assert number_of(pair) == number


def test_a_partition_that_another_move_took_over_is_not_throttled(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)}, throttle_bytes_per_s=1_000)
    move(world, {0: (1, 2, 6)})
    assert throttles(world)["t follower"] == "1:5"


# Where nobody looks.


def test_configurations_that_one_decision_does_not_restore_are_restored_by_the_next() -> None:
    """A move of more topics than one decision gives up the lists of, cancelled at once."""
    image = _many_topics(count := THROTTLES_RELEASED_MAX // 2 + 5)
    asked = tuple(
        commands.Reassignment(topic=f"t{number}", partition=0, replicas=(2, 3))
        for number in range(count)
    )
    _ask(image, commands.BeginMove(reassignments=asked, throttle_bytes_per_s=1_000))
    keys = len(image.owned)
    assert keys == 2 * count + 3 + 1
    assert not is_left(image)
    _ask(image, commands.CancelMoves(moves=(1,)))
    assert image.moves[1].ended is not None
    assert len(image.owned) == keys - THROTTLES_RELEASED_MAX
    assert is_left(image)
    _ask(image, commands.AdvanceMoves())
    assert (image.owned, image.configs) == ({}, {})


def test_long_lists_of_many_topics_are_cut_down_a_few_at_a_time() -> None:
    """Two moves of the same topics, whose lists users have made long; the first one ends."""
    count = THROTTLES_RELEASED_US_MAX * BYTES_LISTED_IN_US // CONFIG_VALUE_BYTES_MAX + 5
    image = _many_topics(count, partitions=2)
    pairs = ",".join(f"{number}:7" for number in range(4_000, 8_000))
    for number in range(count):
        replay(
            image,
            kafka_records.Config(
                resource_type=2, resource_name=f"t{number}", name=LEADER_REPLICAS, value=pairs
            ),
            image.end_offset,
        )
    for partition in (0, 1):
        asked = tuple(
            commands.Reassignment(topic=f"t{number}", partition=partition, replicas=(2, 3))
            for number in range(count)
        )
        _ask(image, commands.BeginMove(reassignments=asked, throttle_bytes_per_s=1_000))
    _ask(image, commands.CancelMoves(moves=(1,)))
    assert is_left(image)
    portions = 1
    while is_left(image):
        _ask(image, commands.AdvanceMoves())
        portions += 1
    assert 1 < portions < 5
    assert image.configs[(2, "t0")][LEADER_REPLICAS] == f"{pairs},1:1,1:2,1:3"


def test_the_throttle_of_many_topics_is_decided_in_slices() -> None:
    """Its beginning, a throttle that comes later, and its end."""
    count = 300
    image = _many_topics(count)
    asked = tuple(
        commands.Reassignment(topic=f"t{number}", partition=0, replicas=(2, 3))
        for number in range(count)
    )
    for command in (
        commands.BeginMove(reassignments=asked, throttle_bytes_per_s=1_000),
        commands.AlterMove(move_id=1, throttle_bytes_per_s=0),
        commands.AlterMove(move_id=1, throttle_bytes_per_s=2_000),
        commands.CancelMoves(moves=(1,)),
    ):
        costs_us = list(deciding(image, command))
        assert sum(costs_us) > 2 * count * CONFIGURED_US
        assert max(costs_us) < SLICE_US
        _ask(image, command)


def _ask(image: Image, command: commands.Command) -> None:
    for record in decide(image, command).records:
        replay(image, record, image.end_offset)


def _many_topics(count: int, partitions: int = 1) -> Image:
    world = World(broker_count=3)
    for number in range(count):
        topic_id = UUID(int=number + 1 << 80)
        world.replay(kafka_records.Topic(name=f"t{number}", topic_id=topic_id))
        for partition in range(partitions):
            world.replay(
                kafka_records.Partition(
                    partition_id=partition,
                    topic_id=topic_id,
                    replicas=(1, 2),
                    isr=(1, 2),
                    leader=1,
                    leader_epoch=1,
                    partition_epoch=1,
                )
            )
    return world.image


def test_a_topic_that_is_deleted_takes_its_lists_along_and_another_may_have_its_name(
    world: World,
) -> None:
    ask(world, change(TOPIC, (FOLLOWER_REPLICAS, SET, "3:1")))
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    world.ask(commands.DeleteTopics(topics=("t",)))
    assert throttles(world) == {}
    assert world.image.owned == {}
    world.ask(
        commands.CreateTopics(
            topics=(
                commands.NewTopic(
                    name="t", topic_id=TOPIC_ID, assignments=((0, (1, 2)),), configs=()
                ),
            )
        )
    )
    assert throttles(world) == {}


def test_a_log_that_speaks_of_moves_that_are_not_there_is_cleaned_up(world: World) -> None:
    """Configurations owned by no running move are given back to users, whatever wrote them."""
    resource, name = broker(9), LEADER_RATE
    for record in (
        own_records.ConfigOwned(
            move=77,
            resource_type=resource[0],
            resource_name=resource[1],
            name=name,
            previous="5",
            owned=Ownership.OWNED,
        ),
        kafka_records.Config(resource_type=4, resource_name="9", name=name, value="1"),
    ):
        replay(world.image, record, world.image.end_offset)
    assert is_left(world.image)
    world.ask(commands.AdvanceMoves())
    assert throttles(world) == {"9 leader": "5"}


def test_the_owner_of_a_configuration_survives_in_a_snapshot(world: World) -> None:
    ask(world, change(broker(1), (LEADER_RATE, SET, "7")))
    move(world, {0: (1, 2, 4)}, throttle_bytes_per_s=1_000)
    move(world, {1: (1, 2, 4)}, throttle_bytes_per_s=2_000)
    ask(world, change(broker(4), (LEADER_RATE, SET, "9")))
    end = world.image.end_offset
    values = whole(begin(world.image, end))
    twin = loaded(values, end)
    assert contents(twin) == contents(world.image)
    assert whole(begin(twin, end)) == values
    assert twin.owned[(broker(1), LEADER_RATE)] == Owned(previous="7", holders=(1, 2))
    assert twin.owned[(broker(4), LEADER_RATE)] == Owned(lost=(1, 2))

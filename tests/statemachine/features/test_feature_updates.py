"""UpdateFeatures: the rules and error texts of Kafka's FeatureControlManager."""

from uuid import UUID

import pytest

from statemachine import commands
from statemachine.commands import FeatureUpdate, UpgradeType
from statemachine.errors import Error
from statemachine.features.features import ELR_VERSION, RANGES
from statemachine.records import kafka_records
from tests.statemachine.support.world import World, feature

UPGRADE, SAFE, UNSAFE = (
    UpgradeType.UPGRADE,
    UpgradeType.SAFE_DOWNGRADE,
    UpgradeType.UNSAFE_DOWNGRADE,
)


def update(
    world: World,
    *updates: tuple[str, int, UpgradeType],
    voters: tuple[int, ...] = (1,),
    **fields: object,
) -> tuple[commands.Done, tuple[kafka_records.Record, ...]]:
    """Controller 1 is active and asked for these; its answer and its records."""
    known: dict[str, object] = {"controller_id": 1, "voters": voters}
    asked = tuple(FeatureUpdate(name=n, level=level, upgrade=type) for n, level, type in updates)
    command = commands.UpdateFeatures(updates=asked, **{**known, **fields})  # type: ignore[arg-type]
    decision = world.ask(command)
    assert isinstance(decision.answer, commands.Done)
    return decision.answer, tuple(decision.records)


def refused(world: World, *updates: tuple[str, int, UpgradeType], **fields: object) -> str:
    """The reason for which nothing of this is done."""
    answer, written = update(world, *updates, **fields)  # type: ignore[arg-type]
    assert answer.error is Error.INVALID_UPDATE_VERSION
    assert written == ()
    return answer.message


def test_levels_go_up_all_in_one_piece() -> None:
    world = World(broker_count=2, level=21)
    answer, written = update(
        world, ("metadata.version", 24, UPGRADE), ("group.version", 1, UPGRADE)
    )
    assert answer == commands.Done()
    assert written == (
        kafka_records.FeatureLevel(name="metadata.version", level=24),
        kafka_records.FeatureLevel(name="group.version", level=1),
    )
    assert world.image.features == {"metadata.version": 24, "group.version": 1}


def test_nothing_is_recorded_of_what_is_so_already_or_only_validated() -> None:
    world = World(level=21)
    assert update(world, ("metadata.version", 21, UPGRADE)) == (commands.Done(), ())
    only = update(world, ("metadata.version", 29, UPGRADE), validate_only=True)
    assert only == (commands.Done(), ())
    assert update(world) == (commands.Done(), ())


def test_one_that_cannot_be_stops_all() -> None:
    world = World(level=21)
    message = refused(world, ("metadata.version", 22, UPGRADE), ("group.version", 2, UPGRADE))
    assert message == (
        "Invalid update version 2 for feature group.version. Local controller 1 only supports"
        " versions 0-1"
    )
    assert world.image.level == 21


@pytest.mark.parametrize(
    ("name", "level", "type", "said"),
    [
        ("metadata.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("metadata.version", 31, UPGRADE, "Local controller 1 only supports versions 15-30"),
        ("metadata.version", 0, SAFE, "Local controller 1 only supports versions 15-30"),
        ("new.version", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("new.version", 0, UPGRADE, "Feature new.version not found."),
        (
            "metadata.version",
            20,
            UpgradeType.UNKNOWN,
            "The controller does not support the given upgrade type.",
        ),
        ("metadata.version", 22, SAFE, "Can't downgrade to a newer version."),
        ("metadata.version", 22, UNSAFE, "Can't downgrade to a newer version."),
        (
            "metadata.version",
            20,
            UPGRADE,
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade.",
        ),
        (
            ELR_VERSION,
            1,
            UPGRADE,
            f"{ELR_VERSION} could not be set to 1 because it depends on metadata.version level 23",
        ),
        (
            "kraft.version",
            1,
            UPGRADE,
            "It comes with the voters in the log, and these are fixed when the log begins.",
        ),
    ],
)
def test_a_level_that_cannot_be_is_refused_in_kafkas_words(
    name: str, level: int, type: UpgradeType, said: str
) -> None:
    world = World(level=21)
    message = refused(world, (name, level, type))
    assert message == f"Invalid update version {level} for feature {name}. {said}"


def test_a_feature_that_needs_another_may_come_with_it() -> None:
    world = World(level=21)
    answer, written = update(world, (ELR_VERSION, 1, UPGRADE), ("metadata.version", 23, UPGRADE))
    assert answer.error is Error.NONE
    assert written[-2:] == (
        kafka_records.FeatureLevel(name="metadata.version", level=23),
        kafka_records.FeatureLevel(name=ELR_VERSION, level=1),
    )


def test_metadata_version_goes_down_where_no_record_would_be_lost() -> None:
    world = World(level=29)
    update(world, ("metadata.version", 23, SAFE))
    assert world.image.level == 23
    message = refused(world, ("metadata.version", 22, SAFE))
    assert message == (
        "Unsupported metadata.version downgrade from 23 to 22. Refusing to perform the requested"
        " downgrade because it might delete metadata information."
    )
    message = refused(world, ("metadata.version", 22, UNSAFE))
    assert message.endswith("Unsafe metadata downgrade is not supported in this version.")


@pytest.mark.parametrize(("above", "below"), [(17, 16), (29, 16), (23, 22), (25, 21), (30, 29)])
def test_no_level_is_left_whose_records_an_older_one_cannot_hold(above: int, below: int) -> None:
    assert "downgrade" in refused(World(level=above), ("metadata.version", below, SAFE))


def test_other_features_can_be_switched_off() -> None:
    world = World(level=29, elr=True)
    answer, written = update(world, (ELR_VERSION, 0, SAFE), ("transaction.version", 1, SAFE))
    assert answer.error is Error.NONE
    assert written == (
        kafka_records.FeatureLevel(name=ELR_VERSION, level=0),
        kafka_records.FeatureLevel(name="transaction.version", level=1),
    )
    assert ELR_VERSION not in world.image.features


def test_kraft_version_stays_as_the_log_says_it() -> None:
    world = World(level=29)
    name = "kraft.version"
    assert update(world, (name, 1, UPGRADE), kraft_version=1) == (commands.Done(), ())
    message = refused(world, (name, 0, SAFE), kraft_version=1)
    assert message.endswith("Can't downgrade the version of this feature.")


def test_every_broker_must_support_it_be_it_fenced() -> None:
    world = World(broker_count=1, level=21)
    world.register(2, features=(feature(7, 25),))
    message = refused(world, ("metadata.version", 29, UPGRADE))
    assert message.endswith("Broker 2 only supports versions 7-25")
    message = refused(world, ("group.version", 1, UPGRADE))
    assert message.endswith("Broker 2 does not support this feature.")
    assert update(world, ("metadata.version", 25, UPGRADE))[0].error is Error.NONE


def test_every_voter_must_have_said_that_it_supports_it() -> None:
    world = World(level=21)
    message = refused(world, ("metadata.version", 25, UPGRADE), voters=(1, 2))
    assert message.endswith("controller 2 has not registered, and may not support this feature")
    controller(world, 2, high=24)
    message = refused(world, ("metadata.version", 25, UPGRADE), voters=(1, 2))
    assert message.endswith("Controller 2 only supports versions 7-24")
    assert update(world, ("metadata.version", 24, UPGRADE), voters=(1, 2))[0].error is Error.NONE


def test_an_observer_must_support_it_and_a_retired_controller_need_not() -> None:
    world = World(level=21)
    controller(world, 3, high=24)
    asked = ("metadata.version", 25, UPGRADE)
    # A broker observes as well, and has registered as one.
    assert refused(world, asked, observers=(3, 102)).endswith("only supports versions 7-24")
    # A new leader has heard of no observer yet.
    assert "cannot know yet whether this observer is gone" in refused(world, asked, observers=None)
    assert update(world, asked, observers=(102,))[0].error is Error.NONE


def controller(world: World, controller_id: int, *, high: int) -> None:
    """A controller registers that knows metadata.version up to `high`."""
    ranges = (feature(7, high), *(each for each in RANGES if each.name != "metadata.version"))
    command = commands.RegisterController(
        controller_id=controller_id,
        incarnation_id=UUID(int=controller_id),
        endpoints=(),
        features=ranges,
    )
    world.ask(command)


def test_the_elr_comes_with_one_min_isr_for_all_brokers() -> None:
    """KIP-966: a broker with a min ISR of its own would acknowledge what the controller loses."""
    world = World(broker_count=2, level=25)
    for name in ("1", "2"):
        config = kafka_records.Config(
            resource_type=4, resource_name=name, name="min.insync.replicas", value="2"
        )
        world.replay(config)
    answer, written = update(world, (ELR_VERSION, 1, UPGRADE), default_min_isr=3)
    assert answer.error is Error.NONE
    assert written == (
        kafka_records.Config(
            resource_type=4, resource_name="", name="min.insync.replicas", value="3"
        ),
        kafka_records.Config(
            resource_type=4, resource_name="1", name="min.insync.replicas", value=None
        ),
        kafka_records.Config(
            resource_type=4, resource_name="2", name="min.insync.replicas", value=None
        ),
        kafka_records.FeatureLevel(name=ELR_VERSION, level=1),
    )


def test_a_min_isr_that_the_log_has_stays() -> None:
    world = World(level=25)
    config = kafka_records.Config(
        resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )
    world.replay(config)
    _, written = update(world, (ELR_VERSION, 1, UPGRADE))
    assert written == (kafka_records.FeatureLevel(name=ELR_VERSION, level=1),)


def test_a_feature_named_twice_is_refused() -> None:
    world = World(level=21)
    answer, written = update(
        world, ("metadata.version", 22, UPGRADE), ("metadata.version", 23, UPGRADE)
    )
    assert (answer.error, written) == (Error.INVALID_REQUEST, ())


def test_directories_that_no_broker_has_named_yet_stay_open_when_they_become_known() -> None:
    """KIP-858: a broker that took part before level 17 says later where its replicas are."""
    world = World(broker_count=3, level=16)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    update(world, ("metadata.version", 17, UPGRADE))
    assert world.partition().directories == ()
    again = world.register(1)
    (amended,) = again.records
    assert isinstance(amended, kafka_records.RegisterBroker)
    assert amended.log_dirs
    assert amended.broker_epoch == world.epoch(1)
    world.reassign(3, 2)
    assert [each.int for each in world.partition().directories][:2] == [0, 0]

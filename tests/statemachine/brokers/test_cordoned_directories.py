"""Log directories that get no new replicas (KIP-1066), which brokers report in heartbeats."""

import pytest

from statemachine import commands
from statemachine.commands import ConfigChange, ConfigOp, ConfigOperation, FeatureUpdate
from statemachine.errors import Error
from statemachine.image.snapshot import begin
from statemachine.reassignment.planner.survey import survey
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    EMBEDDED_BROKER,
    LEVEL_CORDONED_DIRECTORIES,
    Directories,
)
from tests.statemachine.brokers.test_cordoned_brokers import create
from tests.statemachine.image.test_snapshot_written import whole
from tests.statemachine.support.world import FEATURES, World, directory

FIRST, SECOND = directory(31), directory(32)


def a_world(level: int = LEVEL_CORDONED_DIRECTORIES) -> World:
    """Brokers 1 to 3; broker 3 has two directories."""
    world = World(broker_count=2, level=level)
    world.join(3, log_dirs=(FIRST, SECOND))
    return world


def report(world: World, cordoned: Directories | None) -> tuple[kafka_records.Record, ...]:
    """Broker 3 reports these; the records of that."""
    before = world.image.end_offset
    command = commands.BrokerHeartbeat(
        broker_id=3,
        broker_epoch=world.epoch(3),
        metadata_offset=before - 1,
        cordoned_log_dirs=cordoned,
    )
    return tuple(world.ask(command).records)


def test_what_a_broker_reports_is_recorded_once_as_by_kafka() -> None:
    world = a_world()

    def known() -> Directories | None:
        return world.image.brokers[3].cordoned_log_dirs

    assert known() is None
    # The first report is recorded although nothing is cordoned: null means "not known yet".
    for cordoned in ((), (FIRST,), (SECOND, FIRST), ()):
        (record,) = report(world, cordoned)
        assert record == kafka_records.BrokerRegistrationChange(
            broker_id=3, broker_epoch=world.epoch(3), cordoned_log_dirs=cordoned
        )
        assert encode(record, 30)[:3] == b"\x01\x11\x03"
        assert known() == cordoned
        assert report(world, cordoned[::-1]) == ()
        assert report(world, None) == ()


def test_below_its_level_nothing_is_recorded_and_nothing_closes() -> None:
    world = a_world(level=29)
    assert report(world, (FIRST, SECOND)) == ()
    assert create(world, 3, 3).error is Error.NONE


def test_a_broker_gets_no_new_replica_once_all_its_directories_are_cordoned() -> None:
    """Kafka 4.3.1 leaves it out of placement; later ones refuse it by hand too (KAFKA-20832)."""
    world = a_world()
    report(world, (FIRST,))
    assert survey(world.image).takers == (1, 2, 3)
    assert create(world, 1, 1, (1, 3)).error is Error.NONE
    report(world, (FIRST, SECOND))
    assert survey(world.image).takers == (1, 2)
    assert survey(world.image).cordoned == ()
    world.ask(commands.CreatePartitions(topics=(commands.MorePartitions(name="t", count=13),)))
    assert all(3 not in world.partition(number).replicas for number in range(1, 13))
    refused = world.reassign(1, 3, number=1)
    assert refused.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert refused.message == (
        "broker 3 gets no new replicas, since all its log directories are cordoned by its setting"
        " cordoned.log.dirs; change that, or name another one"
    )
    # What it has, it keeps.
    assert world.reassign(3, 1).error is Error.NONE
    assert world.partition().replicas == (3, 1)
    report(world, (SECOND,))
    assert world.reassign(1, 3, number=1).error is Error.NONE


def test_too_few_brokers_are_explained_by_the_cordons() -> None:
    world = a_world()
    report(world, (FIRST, SECOND))
    refused = create(world, 1, 3)
    assert refused.error is Error.INVALID_REPLICATION_FACTOR
    assert refused.message.endswith(
        "only 2 of 3 registered broker(s) are available. Broker(s) 3 get no new replicas: they are"
        " cordoned, or all their log directories are."
    )


def test_ids_that_are_not_directories_of_the_broker_close_nothing() -> None:
    world = a_world()
    report(world, (FIRST, directory(9)))
    assert survey(world.image).takers == (1, 2, 3)


def test_a_lost_directory_leaves_the_broker_without_an_open_one() -> None:
    world = a_world()
    report(world, (FIRST,))
    world.heartbeat(3, offline_log_dirs=(SECOND,))
    assert survey(world.image).takers == (1, 2)


def test_a_new_incarnation_has_not_reported_yet_and_the_same_one_has() -> None:
    world = a_world()
    report(world, (FIRST, SECOND))
    world.register(3, 1, log_dirs=(FIRST, SECOND), rack="b")
    known = world.image.brokers[3]
    assert (known.rack, known.cordoned_log_dirs) == ("b", (FIRST, SECOND))
    world.fence(3)
    world.register(3, 2, log_dirs=(FIRST, SECOND))
    assert world.image.brokers[3].cordoned_log_dirs is None


def test_the_snapshot_has_them() -> None:
    world = a_world()
    report(world, (FIRST,))
    records = map(decode, whole(begin(world.image, world.image.end_offset)))
    found = [each for each in records if isinstance(each, kafka_records.RegisterBroker)]
    assert [each.cordoned_log_dirs for each in found] == [None, None, (FIRST,)]


# --- the configuration --------------------------------------------------------------------------


def configure(
    world: World, value: str | None, *, forwarded: bool = False, broker: str = "3"
) -> commands.ConfigAltered:
    """Set or delete cordoned.log.dirs of a broker."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    op = ConfigOp(name="cordoned.log.dirs", operation=operation, value=value)
    change = ConfigChange(resource_type=BROKER_RESOURCE, resource_name=broker, ops=(op,))
    command = commands.IncrementalAlterConfigs(changes=(change,), forwarded=forwarded)
    answer = world.ask(command).answer
    assert isinstance(answer, commands.ConfigsAltered)
    return answer.resources[0]


@pytest.mark.parametrize("value", ["", "*", None])
def test_the_configuration_is_refused_below_its_level_in_kafkas_words(value: str | None) -> None:
    refused = configure(a_world(level=29), value, forwarded=True)
    assert (refused.error, refused.message) == (
        Error.INVALID_CONFIG,
        "The cordoned.log.dirs configuration value cannot be set because it requires"
        " metadata.version >= 4.3-IV0",
    )


def test_controllers_take_only_values_that_need_no_knowledge_of_directories() -> None:
    world = a_world()
    for value in ("/a,/b", "/b", "*", "", None):
        forwarded = value == "/a,/b"
        assert configure(world, value, forwarded=forwarded).error is Error.NONE, value
    refused = configure(world, "/a")
    assert refused.error is Error.INVALID_CONFIG
    assert refused.message == (
        "controllers do not know the log directories of broker 3: through them cordoned.log.dirs"
        " can become * or lose entries; send any other value to the broker"
    )
    assert configure(world, "/a", forwarded=True).error is Error.NONE


def test_an_embedded_broker_has_one_directory_to_cordon() -> None:
    """The value is judged here, whether it was forwarded or not."""
    world = a_world()
    ours = kafka_records.FeatureRange(name=EMBEDDED_BROKER, min_supported=0, max_supported=1)
    world.join(4, features=(*FEATURES, ours))
    for value in ("*", "", None):
        assert configure(world, value, broker="4").error is Error.NONE
    for forwarded in (False, True):
        refused = configure(world, "/a", forwarded=forwarded, broker="4")
        assert refused.error is Error.INVALID_CONFIG
        assert refused.message == (
            "broker 4 is an embedded broker with one log directory: cordoned.log.dirs can be *,"
            " which cordons it, or empty"
        )


def test_it_cannot_be_the_same_for_all_brokers() -> None:
    refused = configure(a_world(), "*", broker="")
    assert refused.error is Error.INVALID_REQUEST
    assert "cannot be the same for all brokers" in refused.message


# --- the level ------------------------------------------------------------------------------------


def test_the_level_rises_and_never_falls() -> None:
    """4.3-IV0 changes records: Kafka refuses both kinds of downgrade from it."""
    world = a_world(level=29)

    def update(level: int, upgrade: commands.UpgradeType) -> commands.Done:
        change = FeatureUpdate(name="metadata.version", level=level, upgrade=upgrade)
        command = commands.UpdateFeatures(controller_id=1, voters=(), updates=(change,))
        answer = world.ask(command).answer
        assert isinstance(answer, commands.Done)
        return answer

    assert update(30, commands.UpgradeType.UPGRADE).error is Error.NONE
    assert world.image.level == 30
    report(world, (FIRST,))
    refused = update(29, commands.UpgradeType.SAFE_DOWNGRADE)
    assert refused.error is Error.INVALID_UPDATE_VERSION
    assert refused.message == (
        "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested"
        " downgrade because it might delete metadata information."
    )
    assert update(29, commands.UpgradeType.UNSAFE_DOWNGRADE).error is not Error.NONE

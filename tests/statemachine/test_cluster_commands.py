"""The founding of a cluster, its controllers, producer ids, sessions, and requested elections."""

from uuid import UUID

import pytest

from controller.heartbeats import NEVER_HEARD, BrokerHeartbeatManager
from statemachine import commands
from statemachine.commands import ElectionType
from statemachine.configs.effective import configured_min_isr, unclean_election_allowed
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.features.features import default_levels
from statemachine.image.image import Image
from statemachine.records import kafka_records
from statemachine.vocabulary import BROKER_RESOURCE, NO_LEADER, RECOVERING
from tests.statemachine.support.world import World, feature


def done(decision: commands.Decision) -> commands.Done:
    """The answer of a command that only is done or not."""
    assert isinstance(decision.answer, commands.Done)
    return decision.answer


def test_a_cluster_is_founded_once_inside_a_transaction() -> None:
    """KIP-868: half a founding never counts."""
    decision = decide(Image(), commands.FoundCluster(metadata_version=21))
    assert decision.records == (
        kafka_records.BeginTransaction(name="Bootstrap records"),
        kafka_records.FeatureLevel(name="metadata.version", level=21),
        kafka_records.EndTransaction(),
    )
    world = World(level=21)
    assert world.image.level == 21
    assert world.ask(commands.FoundCluster(metadata_version=29)).records == ()


@pytest.mark.parametrize("level", [0, 14, 31])
def test_a_level_that_is_not_supported_is_refused(level: int) -> None:
    decision = decide(Image(), commands.FoundCluster(metadata_version=level))
    assert done(decision).error is Error.UNSUPPORTED_VERSION
    assert "15 to 30" in done(decision).message
    assert decision.records == ()


def test_a_founding_that_broke_off_is_aborted_and_begins_anew() -> None:
    world = World(level=15)
    image = world.image = Image()
    world.replay(kafka_records.BeginTransaction(name="Bootstrap records"))
    world.replay(kafka_records.FeatureLevel(name="metadata.version", level=17))
    world.replay(kafka_records.FeatureLevel(name="group.version", level=1))
    assert image.level == 17
    decision = world.ask(commands.FoundCluster(metadata_version=29))
    assert isinstance(decision.records[0], kafka_records.AbortTransaction)
    assert image.features == {"metadata.version": 29, **default_levels(29)}
    assert image.transaction is None


def test_a_founded_cluster_keeps_its_level_when_a_transaction_is_left_open() -> None:
    world = World(level=21)
    world.replay(kafka_records.BeginTransaction())
    world.replay(kafka_records.FeatureLevel(name="group.version", level=1))
    decision = world.ask(commands.FoundCluster(metadata_version=29))
    assert [type(record) for record in decision.records] == [kafka_records.AbortTransaction]
    assert world.image.features == {"metadata.version": 21}


def test_a_controller_registers_once_for_each_thing_it_has_to_say() -> None:
    world = World()
    command = commands.RegisterController(
        controller_id=3,
        incarnation_id=UUID(int=3),
        endpoints=(kafka_records.Endpoint(name="C", host="h", port=9093, security_protocol=0),),
        features=(feature(),),
    )
    assert len(world.ask(command).records) == 1
    assert world.ask(command).records == ()
    assert world.image.controllers[3].endpoints[0].port == 9093
    early = decide(Image(), command)
    assert done(early).error is Error.UNSUPPORTED_VERSION


def test_producer_ids_are_given_out_in_blocks_of_a_thousand() -> None:
    world = World(broker_count=2)
    for first in (0, 1000):
        answer = world.ask(
            commands.AllocateProducerIds(broker_id=2, broker_epoch=world.epoch(2))
        ).answer
        assert answer == commands.ProducerIdsAllocated(first_id=first, count=1000)
    stale = world.ask(commands.AllocateProducerIds(broker_id=2, broker_epoch=0)).answer
    assert isinstance(stale, commands.ProducerIdsAllocated)
    assert stale.error is Error.STALE_BROKER_EPOCH


def test_producer_ids_can_run_out() -> None:
    world = World(broker_count=1)
    last = 2**63 - 1
    world.replay(
        kafka_records.ProducerIds(broker_id=1, broker_epoch=0, next_producer_id=last - 1000)
    )
    ask = commands.AllocateProducerIds(broker_id=1, broker_epoch=world.epoch(1))
    assert world.ask(ask).answer == commands.ProducerIdsAllocated(first_id=last - 1000, count=1000)
    answer = world.ask(ask).answer
    assert isinstance(answer, commands.ProducerIdsAllocated)
    assert answer.error is Error.UNKNOWN_SERVER_ERROR


# Settings.


def test_the_topics_setting_comes_before_the_clusters() -> None:
    world = World(broker_count=1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    assert (configured_min_isr(world.image, "t"), unclean_election_allowed(world.image, "t")) == (
        1,
        False,
    )
    for name, value in (("min.insync.replicas", "3"), ("unclean.leader.election.enable", "true")):
        cluster = kafka_records.Config(
            resource_type=BROKER_RESOURCE, resource_name="", name=name, value=value
        )
        world.replay(cluster)
    assert (configured_min_isr(world.image, "t"), unclean_election_allowed(world.image, "t")) == (
        3,
        True,
    )
    world.configure("min.insync.replicas", "2")
    world.configure("unclean.leader.election.enable", "false")
    assert (configured_min_isr(world.image, "t"), unclean_election_allowed(world.image, "t")) == (
        2,
        False,
    )
    world.configure("min.insync.replicas", "many")
    assert configured_min_isr(world.image, "t") == 3
    world.configure("min.insync.replicas", None)
    assert configured_min_isr(world.image, "t") == 3


# Sessions.


def test_a_silent_broker_expires_after_the_session_timeout() -> None:
    world = World(broker_count=2)
    sessions = BrokerHeartbeatManager(world.image, now_ms=1_000, timeout_ms=9_000)
    assert sessions.next_expiry_ms() == 10_000
    sessions.touch(2, metadata_offset=7, now_ms=4_000)
    assert sessions.expired(9_999) == ()
    assert sessions.expired(10_000) == (1,)
    assert sessions.expired(13_000) == (1, 2)
    world.fence(1)
    assert sessions.expired(13_000) == (2,)
    assert sessions.next_expiry_ms() == 13_000
    world.fence(2)
    assert sessions.next_expiry_ms() is None


def test_a_broker_that_was_never_heard_of_gets_a_full_session() -> None:
    world = World(broker_count=1)
    sessions = BrokerHeartbeatManager(world.image, now_ms=0, timeout_ms=9_000)
    world.join(2)
    assert sessions.expired(9_000) == (1,)
    assert sessions.expired(17_999) == (1,)
    assert sessions.expired(18_000) == (1, 2)


def test_a_broker_not_heard_of_since_holds_a_controlled_shutdown_up() -> None:
    world = World(broker_count=2)
    sessions = BrokerHeartbeatManager(world.image, now_ms=0)
    sessions.touch(1, metadata_offset=50, now_ms=1)
    assert sessions.lowest_live_offset() == NEVER_HEARD
    sessions.touch(2, metadata_offset=40, now_ms=2)
    assert sessions.lowest_live_offset() == 40
    world.fence(2)
    assert sessions.lowest_live_offset() == 50
    world.fence(1)
    assert sessions.lowest_live_offset() is None


# Elections.


def elected(world: World, election: ElectionType, *asked: tuple[str, int]) -> list[Error]:
    """The errors of the election, all partitions being asked if none is named."""
    command = commands.ElectLeaders(election=election, partitions=asked or None)
    answer = world.ask(command).answer
    assert isinstance(answer, commands.LeadersElected)
    return [part.error for part in answer.partitions]


def test_the_preferred_leader_is_elected_where_it_may_be() -> None:
    world = World(broker_count=3)
    world.given(replicas=(1, 2), isr=(1, 2), leader=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.given(replicas=(3, 2), isr=(2,), leader=2)
    asked = [("t", 0), ("t", 1), ("t", 2), ("t", 9), ("nope", 0), ("t", 0)]
    assert elected(world, ElectionType.PREFERRED, *asked) == [
        Error.NONE,
        Error.ELECTION_NOT_NEEDED,
        Error.PREFERRED_LEADER_NOT_AVAILABLE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.ELECTION_NOT_NEEDED,
    ]
    assert (world.partition(0).leader, world.partition(0).leader_epoch) == (1, 2)
    assert world.partition(2).leader == 2


def test_all_partitions_means_those_that_need_it() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    assert elected(world, ElectionType.PREFERRED) == [Error.NONE]
    assert elected(world, ElectionType.UNCLEAN) == []


def test_an_unclean_election_makes_a_live_replica_the_leader() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    world.fence(1)
    assert world.partition(0).leader == NO_LEADER
    assert elected(world, ElectionType.UNCLEAN) == [
        Error.NONE,
        Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ]
    after = world.partition(0)
    assert (after.leader, after.isr, after.recovery) == (2, (2,), RECOVERING)
    assert elected(world, ElectionType.UNCLEAN, ("t", 0)) == [Error.ELECTION_NOT_NEEDED]

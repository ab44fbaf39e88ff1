"""Brokers: registration, heartbeats, fencing, controlled shutdown, unregistration (KIP-631)."""

from uuid import UUID

import pytest

from statemachine import commands
from statemachine.commands import BrokerHeartbeat, HeartbeatAnswered
from statemachine.errors import Error
from statemachine.records import kafka_records
from statemachine.replay import replay
from statemachine.vocabulary import NO_LEADER, RECOVERING
from tests.statemachine.support.world import World, directory, feature, incarnation


def registered(decision: commands.Decision) -> commands.BrokerRegistered:
    """The answer to a registration."""
    assert isinstance(decision.answer, commands.BrokerRegistered)
    return decision.answer


def test_the_broker_epoch_is_the_offset_of_the_registration() -> None:
    world = World()
    for broker_id in (4, 2):
        offset = world.image.end_offset
        decision = world.register(broker_id, rack="r1")
        assert registered(decision) == commands.BrokerRegistered(broker_epoch=offset)
        assert world.epoch(broker_id) == offset
    broker = world.image.brokers[4]
    assert (broker.fenced, broker.rack, broker.log_dirs) == (True, "r1", (directory(4),))


def test_a_second_incarnation_is_refused_while_the_first_is_unfenced() -> None:
    world = World(broker_count=1)
    epoch = world.epoch(1)
    refused = registered(world.register(1, 2))
    assert refused.error is Error.DUPLICATE_BROKER_REGISTRATION
    world.fence(1)
    accepted = registered(world.register(1, 2))
    assert accepted.error is Error.NONE
    assert accepted.broker_epoch > epoch
    assert world.image.brokers[1].incarnation_id == incarnation(1, 2)


def test_the_same_incarnation_amends_its_registration_and_keeps_its_epoch() -> None:
    world = World(broker_count=1)
    epoch = world.epoch(1)
    assert world.register(1).records == ()
    amended = registered(world.register(1, rack="r9"))
    assert amended.broker_epoch == epoch
    broker = world.image.brokers[1]
    assert (broker.rack, broker.fenced) == ("r9", False)


@pytest.mark.parametrize(
    ("fields", "error", "named"),
    [
        ({"cluster_id": "other"}, Error.INCONSISTENT_CLUSTER_ID, "other"),
        ({"broker_id": -1}, Error.INVALID_REGISTRATION, "-1"),
        ({"log_dirs": ()}, Error.INVALID_REGISTRATION, "no log directory"),
        ({"log_dirs": (directory(9), directory(9))}, Error.INVALID_REGISTRATION, "twice"),
        ({"log_dirs": (directory(1),)}, Error.INVALID_REGISTRATION, "by broker 1"),
        ({"log_dirs": (UUID(int=99),)}, Error.INVALID_REGISTRATION, "reserved"),
        # Kafka's lower half is signed: this one is negative, and so below 100.
        ({"log_dirs": (UUID(int=2**63),)}, Error.INVALID_REGISTRATION, "reserved"),
        ({"features": ()}, Error.INVALID_REGISTRATION, "levels of metadata.version"),
        ({"features": (feature(1, 28),)}, Error.UNSUPPORTED_VERSION, "1 to 28"),
        ({"features": (feature(31, 32),)}, Error.UNSUPPORTED_VERSION, "31 to 32"),
    ],
)
def test_a_registration_that_cannot_be_is_refused(
    fields: dict[str, object], error: Error, named: str
) -> None:
    world = World(broker_count=1)
    decision = world.register(2, **fields)
    assert registered(decision).error is error
    assert named in registered(decision).message
    assert decision.records == ()


@pytest.mark.parametrize("low", [100, 2**63 - 1, 2**64])
def test_directory_ids_next_to_the_reserved_ones_are_allowed(low: int) -> None:
    assert registered(World().register(1, log_dirs=(UUID(int=low),))).error is Error.NONE


def test_log_directories_are_registered_only_from_level_17_on() -> None:
    world = World(level=15)
    world.join(1)
    assert world.image.brokers[1].log_dirs == ()


# Heartbeats.


def test_a_broker_is_unfenced_once_it_has_applied_its_own_registration() -> None:
    world = World()
    world.register(1)
    epoch = world.epoch(1)
    assert world.heartbeat(1, metadata_offset=epoch - 1) == HeartbeatAnswered(fenced=True)
    wanted = world.heartbeat(1, metadata_offset=epoch, want_fence=True)
    assert wanted == HeartbeatAnswered(caught_up=True, fenced=True)
    assert world.heartbeat(1, metadata_offset=epoch) == HeartbeatAnswered(
        caught_up=True, fenced=False
    )
    assert not world.image.brokers[1].fenced


def test_a_heartbeat_of_another_incarnation_is_stale() -> None:
    world = World(broker_count=1)
    assert world.heartbeat(1, broker_epoch=0).error is Error.STALE_BROKER_EPOCH
    nobody = BrokerHeartbeat(broker_id=5, broker_epoch=0, metadata_offset=0)
    answer = world.ask(nobody).answer
    assert isinstance(answer, HeartbeatAnswered)
    assert answer.error is Error.STALE_BROKER_EPOCH


def test_a_broker_that_wants_to_be_fenced_is() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    assert world.heartbeat(1, want_fence=True).fenced
    assert (world.partition().isr, world.partition().leader) == ((2,), 2)


# Fencing.


def test_fencing_leaves_every_isr_and_elects_leaders_in_one_list_of_records() -> None:
    world = World(broker_count=3)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    world.given(replicas=(2, 1, 3), isr=(2, 1), leader=2)
    world.given(replicas=(3, 2), isr=(3, 2), leader=3)
    decision = world.fence(1)
    changes = [r for r in decision.records if isinstance(r, kafka_records.PartitionChange)]
    assert [(change.partition_id, change.isr) for change in changes] == [(0, (2, 3)), (1, (2,))]
    assert isinstance(decision.records[-1], kafka_records.BrokerRegistrationChange)
    assert (world.partition(0).leader, world.partition(0).leader_epoch) == (2, 2)
    assert (world.partition(1).leader, world.partition(1).leader_epoch) == (2, 1)
    assert world.image.brokers[1].fenced


def test_the_last_member_of_an_isr_stays_and_nobody_leads() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.fence(1)
    assert (world.partition().isr, world.partition().leader) == ((1,), NO_LEADER)
    # Back in a new incarnation, it leads again as soon as it is unfenced.
    world.register(1, 2)
    assert world.partition().leader == NO_LEADER
    world.heartbeat(1)
    assert (world.partition().leader, world.partition().leader_epoch) == (1, 3)


def test_of_brokers_fenced_together_the_leader_stays_in_the_isr() -> None:
    """It has everything that was acknowledged, and one change says it all."""
    world = World(broker_count=3)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=2)
    decision = world.fence(3, 1, 2, 2, 9)
    assert isinstance(decision.answer, commands.BrokersFenced)
    assert decision.answer.broker_ids == (1, 2, 3)
    assert len([r for r in decision.records if isinstance(r, kafka_records.PartitionChange)]) == 1
    assert (world.partition().isr, world.partition().leader) == ((2,), NO_LEADER)
    assert world.fence(1).records == ()


def test_a_replica_outside_the_isr_does_not_lead_when_it_comes_back() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.fence(1, 2)
    world.heartbeat(2)
    assert world.partition().leader == NO_LEADER


def test_a_replica_outside_the_isr_leads_if_unclean_election_is_on() -> None:
    world = World(broker_count=2)
    world.given(
        replicas=(1, 2), isr=(1,), leader=1, configs={"unclean.leader.election.enable": "true"}
    )
    world.fence(1)
    after = world.partition()
    assert (after.isr, after.leader, after.recovery) == ((2,), 2, RECOVERING)


# Controlled shutdown.


def test_controlled_shutdown_moves_leaders_away_and_waits_for_the_live_brokers() -> None:
    world = World(broker_count=3)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    world.given(replicas=(2, 1), isr=(2, 1), leader=2)
    began = world.heartbeat(1, want_shut_down=True, lowest_live_offset=world.image.end_offset)
    assert (began.fenced, began.should_shut_down) == (False, False)
    assert (world.partition(0).leader, world.partition(0).isr) == (2, (2, 3))
    assert world.partition(1).isr == (2,)
    stopping_at = world.image.brokers[1].stopping_at
    assert stopping_at == world.image.end_offset - 1

    waiting = world.heartbeat(1, want_shut_down=True, lowest_live_offset=stopping_at - 1)
    assert not waiting.should_shut_down
    assert not world.image.brokers[1].fenced

    released = world.heartbeat(1, want_shut_down=True, lowest_live_offset=stopping_at)
    assert (released.fenced, released.should_shut_down) == (True, True)
    assert world.image.brokers[1].fenced


def test_a_stopping_broker_that_still_leads_is_relieved_before_it_goes() -> None:
    """Kafka's controller says "stopping" first and moves the leaders after that."""
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    stopping = kafka_records.BrokerRegistrationChange(
        broker_id=1, broker_epoch=world.epoch(1), in_controlled_shutdown=1
    )
    replay(world.image, stopping, world.image.end_offset)
    assert not world.heartbeat(1, want_shut_down=True).should_shut_down
    assert (world.partition().leader, world.partition().isr) == (2, (2,))
    assert world.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_leads_nothing_shuts_down_at_once() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    answer = world.heartbeat(2, want_shut_down=True)
    assert (answer.fenced, answer.should_shut_down) == (True, True)
    assert world.partition().isr == (1,)


def test_the_only_replica_shuts_down_too_and_leaves_nobody_leading() -> None:
    world = World(broker_count=1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    world.heartbeat(1, want_shut_down=True)
    assert (world.partition().isr, world.partition().leader) == ((1,), NO_LEADER)
    assert world.heartbeat(1, want_shut_down=True, lowest_live_offset=None).should_shut_down


def test_a_fenced_broker_that_wants_to_shut_down_may() -> None:
    world = World()
    world.register(1)
    answer = world.heartbeat(1, want_shut_down=True)
    assert answer == HeartbeatAnswered(caught_up=True, fenced=True, should_shut_down=True)


def test_a_stopping_broker_is_elected_nowhere_not_even_uncleanly() -> None:
    world = World(broker_count=3)
    world.given(
        replicas=(1, 2), isr=(1, 2), leader=1, configs={"unclean.leader.election.enable": "true"}
    )
    world.given(replicas=(2, 3), isr=(2, 3), leader=2)
    world.heartbeat(2, want_shut_down=True)
    world.fence(1)
    assert (world.partition(0).isr, world.partition(0).leader) == ((1,), NO_LEADER)


# Unregistration, and what can be asked.


def test_an_unregistered_broker_is_in_no_isr_but_keeps_its_replicas_assigned() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.ask(commands.UnregisterBroker(broker_id=1))
    assert 1 not in world.image.brokers
    assert (world.partition().replicas, world.partition().isr) == ((1, 2), (2,))
    again = world.ask(commands.UnregisterBroker(broker_id=1)).answer
    assert isinstance(again, commands.Done)
    assert again.error is Error.BROKER_ID_NOT_REGISTERED


def test_a_move_to_a_broker_that_is_unregistered_waits_and_can_be_cancelled() -> None:
    world = World(broker_count=3)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.reassign(1, 3)
    world.ask(commands.UnregisterBroker(broker_id=3))
    (answer,) = world.propose(world.proposal((1, 2, 3)))
    assert answer.error is Error.INELIGIBLE_REPLICA
    assert world.partition().moving
    world.cancel()
    assert world.partition().replicas == (1, 2)


def test_the_index_counts_what_brokers_carry() -> None:
    world = World(broker_count=3)
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.given(replicas=(2, 1), isr=(2, 1), leader=2)
    index = world.image.index
    parts = index.replicas_of, index.isr_of, index.leader_of
    counts = [tuple(index.count(part, each) for part in parts) for each in (1, 2, 3, 9)]
    assert counts == [(2, 2, 1), (2, 1, 1), (0, 0, 0), (0, 0, 0)]
    assert [number for _, number in index.partitions(index.replicas_of[2])] == [0, 1]

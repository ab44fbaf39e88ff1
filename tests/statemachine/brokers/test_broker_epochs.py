"""A broker epoch is the offset of the registration record, whatever else is decided with it."""

import pytest

from statemachine import commands
from statemachine.brokers.lifecycle import register_broker
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records
from statemachine.slices import whole
from tests.statemachine.support.world import CLUSTER_ID, FEATURES, World, directory, incarnation


def registration(
    broker_id: int, number: int = 1, rack: str | None = None
) -> commands.RegisterBroker:
    """The registration of the n-th incarnation of a broker."""
    return commands.RegisterBroker(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        our_cluster_id=CLUSTER_ID,
        incarnation_id=incarnation(broker_id, number),
        endpoints=(),
        features=FEATURES,
        rack=rack,
        log_dirs=(directory(broker_id),),
    )


def decided(world: World, command: commands.RegisterBroker) -> PendingDecision:
    """The decision about it, which may still be added to."""
    pending = PendingDecision(world.image)
    whole(register_broker(pending, command))
    pending.check_epoch()
    return pending


def test_a_record_before_a_registration_is_detected() -> None:
    pending = decided(World(broker_count=1), registration(2))
    pending.records.append(kafka_records.NoOp())
    pending.check_epoch()
    pending.records.insert(0, kafka_records.NoOp())
    with pytest.raises(AssertionError, match="broker 2 has epoch"):
        pending.check_epoch()


def test_an_incarnation_that_amends_what_it_said_keeps_its_epoch_wherever_that_is_written() -> None:
    world = World(broker_count=1)
    pending = decided(world, registration(1, rack="r9"))
    (amended,) = pending.records
    assert isinstance(amended, kafka_records.RegisterBroker)
    assert amended.broker_epoch == world.epoch(1) < world.image.end_offset
    pending.records.insert(0, kafka_records.NoOp())
    pending.check_epoch()


def test_every_incarnation_has_the_offset_of_its_own_record() -> None:
    """With ELR the record comes behind what may have been lost by an unclean stop."""
    world = World(broker_count=3, elr=True)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, configs={"min.insync.replicas": "2"})
    for number in (2, 3):
        world.fence(1, 2, 3)
        for broker_id in (3, 1, 2):
            start = world.image.end_offset
            decision = world.ask(registration(broker_id, number))
            (place,) = [
                place
                for place, record in enumerate(decision.records)
                if isinstance(record, kafka_records.RegisterBroker)
            ]
            assert world.epoch(broker_id) == start + place
            assert not world.heartbeat(broker_id).fenced

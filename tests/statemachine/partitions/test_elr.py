"""KIP-966: who left the ISR under min ISR may lead without loss, until it may have lost something.

The cases are those of `PartitionChangeBuilder` and `ReplicationControlManager` of Kafka 4.2.
"""

import pytest
from msgspec.structs import replace

from statemachine import commands
from statemachine.commands import ElectionType
from statemachine.errors import Error
from statemachine.limits import DISTRUSTED_PARTITIONS_MAX
from statemachine.partitions.elr import last_known_leader
from statemachine.partitions.leader_election import Election, elect
from statemachine.records import kafka_records
from statemachine.vocabulary import NO_LEADER, RECOVERED, RECOVERING
from tests.statemachine.support.world import TOPIC_ID, World


def elr_world(min_isr: int = 2, broker_count: int = 4, **fields: object) -> World:
    """A partition on 1, 2 and 3 that needs `min_isr` of them."""
    world = World(broker_count=broker_count, elr=True)
    known: dict[str, object] = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader": 1}
    world.given(**{**known, **fields}, configs={"min.insync.replicas": str(min_isr)})
    return world


def state(world: World) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Leader, ISR, ELR and last known ELR."""
    partition = world.partition()
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


def test_a_replica_that_leaves_while_enough_stay_is_not_eligible() -> None:
    world = elr_world()
    world.sync(1, 2)
    assert state(world) == (1, (1, 2), (), ())


def test_a_replica_that_leaves_below_min_isr_is_eligible() -> None:
    world = elr_world()
    world.sync(1, 2)
    world.fence(2)
    assert state(world) == (1, (1,), (2,), ())
    # Not 3: it left while 1 and 2 could go on without it.
    world.sync(1)
    assert state(world) == (1, (1,), (2,), ())


def test_the_isr_may_become_empty_and_who_led_last_is_remembered() -> None:
    world = elr_world()
    world.sync(1, 2)
    world.fence(2)
    world.fence(1)
    assert state(world) == (NO_LEADER, (), (2, 1), (1,))


def test_all_at_once_leave_together() -> None:
    world = elr_world(min_isr=1)
    world.fence(1, 2, 3)
    assert state(world) == (NO_LEADER, (), (1, 2, 3), (1,))


def test_the_elr_leads_when_nobody_is_in_sync() -> None:
    world = elr_world()
    world.sync(1, 2)
    world.fence(2)
    world.heartbeat(2)
    world.fence(1)
    assert state(world) == (2, (2,), (1,), ())
    assert world.partition().recovery == RECOVERED


def test_the_first_of_the_elr_that_comes_back_leads() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    world.heartbeat(3)
    assert state(world) == (3, (3,), (1, 2), ())
    world.heartbeat(1)
    world.sync(3, 1)
    assert state(world) == (3, (3, 1), (), ())


def test_a_replica_that_is_not_eligible_does_not_lead_even_if_it_returns_first() -> None:
    world = elr_world()
    world.sync(1, 2)
    world.fence(3)
    world.fence(2)
    world.fence(1)
    world.heartbeat(3)
    assert state(world)[:3] == (NO_LEADER, (), (2, 1))


def test_with_a_min_isr_of_one_nobody_stays_eligible_beside_a_leader() -> None:
    """ISR >= min ISR means ELR empty, also right after an election."""
    world = elr_world(min_isr=1)
    world.fence(1, 2, 3)
    world.heartbeat(2)
    assert state(world) == (2, (2,), (), ())


def test_a_clean_shutdown_keeps_a_broker_eligible() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    world.register(2, 2, previous_epoch=world.epoch(2))
    assert state(world)[2] == (1, 2, 3)
    world.heartbeat(2)
    assert state(world)[0] == 2


@pytest.mark.parametrize("previous", [None, -1, 10_000, "earlier"])
def test_an_unclean_shutdown_ends_it(previous: int | str | None) -> None:
    """Neither an older copy of a disk nor a mark that was not removed makes it a clean one."""
    world = elr_world()
    world.fence(1, 2, 3)
    if previous == "earlier":
        previous = world.epoch(2)
        world.register(2, 3, previous_epoch=previous)
    decision = world.register(2, 2, previous_epoch=previous)
    assert state(world) == (NO_LEADER, (), (1, 3), (1,))
    answer = decision.answer
    assert isinstance(answer, commands.BrokerRegistered)
    # The epoch is where the registration stands in the log, behind what it changed.
    assert answer.broker_epoch == world.image.end_offset - 1 == world.epoch(2)
    world.heartbeat(2)
    assert state(world)[0] == NO_LEADER


def test_a_broker_with_many_possible_losses_registers_after_the_last_part() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    for number in range(1, DISTRUSTED_PARTITIONS_MAX + 1):
        world.replay(
            kafka_records.Partition(
                partition_id=number,
                topic_id=TOPIC_ID,
                replicas=(1, 2, 3),
                isr=(),
                elr=(1, 2, 3),
                leader=NO_LEADER,
                leader_epoch=1,
                partition_epoch=2,
            )
        )
    before = world.epoch(2)
    first = world.register(2, 2, previous_epoch=-1)
    assert not first.is_complete
    assert len(first.records) == DISTRUSTED_PARTITIONS_MAX
    assert world.epoch(2) == before
    second = world.register(2, 2, previous_epoch=-1)
    assert second.is_complete
    assert world.epoch(2) == world.image.end_offset - 1
    assert world.image.index.count(world.image.index.elr_of, 2) == 0


def test_the_same_incarnation_has_lost_nothing() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    assert world.register(2, 1, previous_epoch=-1).records == ()
    assert state(world)[2] == (1, 2, 3)


def test_a_broker_that_was_forgotten_cannot_prove_that_it_stopped_cleanly() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    epoch = world.epoch(2)
    world.ask(commands.UnregisterBroker(broker_id=2))
    world.register(2, 2, previous_epoch=epoch)
    assert state(world)[2] == (1, 3)


def test_the_last_known_leader_leads_when_nobody_is_eligible_any_more() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    for broker_id in (3, 2, 1):
        world.register(broker_id, 2, previous_epoch=-1)
    assert state(world) == (NO_LEADER, (), (), (1,))
    world.heartbeat(2)
    assert state(world) == (NO_LEADER, (), (), (1,))
    world.heartbeat(1)
    assert state(world) == (1, (1,), (), ())
    assert world.partition().recovery == RECOVERING


def test_an_unclean_shutdown_of_the_only_replica_ends_in_a_recovery() -> None:
    world = World(broker_count=1, elr=True)
    world.given(replicas=(1,), isr=(1,), leader=1)
    world.fence(1)
    assert state(world) == (NO_LEADER, (), (1,), (1,))
    world.register(1, 2, previous_epoch=-1)
    assert state(world) == (NO_LEADER, (), (), (1,))
    world.heartbeat(1)
    assert state(world) == (1, (1,), (), ())
    assert world.partition().recovery == RECOVERING
    world.propose(world.proposal((1,), recovery=RECOVERED))
    assert world.partition().recovery == RECOVERED


def test_with_unclean_elections_any_replica_may_lead_and_the_elr_is_cleared() -> None:
    world = elr_world()
    world.configure("unclean.leader.election.enable", "true")
    world.sync(1, 2)
    world.fence(1, 2)
    assert state(world) == (3, (3,), (), ())
    assert world.partition().recovery == RECOVERING


def test_an_operator_can_force_a_leader() -> None:
    world = elr_world()
    world.sync(1, 2)
    world.fence(1, 2)
    world.ask(commands.ElectLeaders(election=ElectionType.UNCLEAN, partitions=(("t", 0),)))
    assert state(world) == (3, (3,), (), ())


def test_a_preferred_leader_may_come_from_the_elr() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    world.heartbeat(1)
    assert state(world)[0] == 1


def test_a_broker_in_controlled_shutdown_becomes_eligible_too() -> None:
    world = elr_world(min_isr=3)
    world.heartbeat(1, want_shut_down=True)
    assert state(world) == (2, (2, 3), (1,), ())


def test_the_last_isr_member_from_before_the_feature_leaves_by_an_unclean_restart() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.fence(2)
    world.fence(1)
    assert state(world) == (NO_LEADER, (1,), (), ())
    feature = kafka_records.FeatureLevel(name="eligible.leader.replicas.version", level=1)
    world.replay(feature)
    world.register(1, 2, previous_epoch=-1)
    assert state(world) == (NO_LEADER, (), (), (1,))
    world.heartbeat(1)
    assert state(world)[:2] == (1, (1,))


def test_a_move_takes_those_that_go_out_of_the_elr() -> None:
    world = elr_world(min_isr=2)
    world.sync(1, 2)
    world.fence(2)
    assert state(world)[2] == (2,)
    world.reassign(1, 4)
    world.sync(1, 4)
    assert world.partition().replicas == (1, 4)
    assert state(world) == (1, (1, 4), (), ())


def test_switched_off_the_elr_still_serves_once_and_then_is_gone() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    world.replay(kafka_records.FeatureLevel(name="eligible.leader.replicas.version", level=0))
    world.heartbeat(2)
    assert state(world) == (2, (2,), (), ())


def test_below_level_23_nothing_of_it_is_there() -> None:
    world = World(broker_count=2, level=22)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.fence(1, 2)
    assert state(world) == (NO_LEADER, (1,), (), ())


def test_clearing_it_leaves_leader_and_isr_alone() -> None:
    """ClearElr follows a change of min.insync.replicas: who was eligible was so for the old one."""
    world = elr_world()
    world.sync(1, 2)
    world.fence(2)
    world.replay(kafka_records.ClearElr(topic_name="t"))
    assert state(world) == (1, (1,), (), ())


def test_a_move_completes_when_the_missing_in_sync_replica_is_elected() -> None:
    """The new leader is the whole ISR, and no later change would look at the move again."""
    world = elr_world()
    world.sync(1, 2)
    world.fence(2)
    world.fence(1)
    assert world.reassign(1).replicas == (1, 2, 3)
    world.heartbeat(1)
    assert state(world) == (1, (1,), (), ())
    partition = world.partition()
    assert (partition.replicas, partition.moving) == ((1,), False)


def test_effective_min_isr_follows_the_current_replicas_until_a_step_begins() -> None:
    """Effective min ISR goes by the replicas aimed at: two, until the step to fewer begins."""
    world = elr_world(replicas=(1, 2), isr=(1, 2))
    world.ask(commands.PauseMoves(moves=None))
    world.reassign(3)
    assert world.partition().waits
    world.fence(2)
    assert state(world) == (1, (1,), (2,), ())


def test_a_cancel_lets_who_is_eligible_lead_before_it_elects_uncleanly() -> None:
    world = elr_world(broker_count=5)
    world.configure("unclean.leader.election.enable", "true")
    world.reassign(4, 5)
    world.sync(1, 4)
    world.fence(1)
    # 2 would be the first of those alive; 1 has all that was acknowledged before.
    world.heartbeat(1)
    assert state(world) == (4, (4,), (1,), ())
    assert world.cancel().replicas == (1, 2, 3)
    assert state(world)[:2] == (1, (1,))
    assert world.partition().recovery == RECOVERED


def test_a_cancel_is_refused_under_min_isr_whoever_is_eligible() -> None:
    world = elr_world(broker_count=5)
    world.reassign(4, 5)
    world.sync(1, 4)
    world.fence(1)
    world.heartbeat(1)
    before = world.partition()
    answer = world.cancel()
    assert answer.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert "0 in sync where 2 must be" in answer.message
    assert world.partition() == before


def test_a_last_known_leader_that_is_no_replica_any_more_is_forgotten() -> None:
    world = elr_world()
    world.fence(1, 2, 3)
    before = replace(world.partition(), last_known_elr=(1,))
    after = replace(before, replicas=(2, 3))
    assert last_known_leader(before, before, NO_LEADER) == (1,)
    assert last_known_leader(before, after, NO_LEADER) == ()


def test_an_unclean_election_takes_a_replica_that_is_only_being_added_last() -> None:
    """It comes first in the order of the target, and may hold nothing at all."""
    world = elr_world()
    world.fence(1, 2, 3)
    partition = replace(
        world.partition(),
        replicas=(1, 2, 3, 4),
        adding=(4,),
        target=(4, 2, 3),
        elr=(),
        last_known_elr=(),
    )
    assert elect(partition, {2, 4}.__contains__, Election.UNCLEAN) == (2, True)
    assert elect(partition, {4}.__contains__, Election.UNCLEAN) == (4, True)

"""AlterPartition: the order of its checks, KIP-903, and accepted proposals."""

from uuid import UUID

import pytest

from statemachine import commands
from statemachine.commands import IsrMember, IsrProposal
from statemachine.errors import Error
from statemachine.vocabulary import RECOVERED, RECOVERING
from tests.statemachine.support.world import TOPIC_ID, World


@pytest.fixture
def world() -> World:
    """Partition 0 on brokers 1, 2 and 3, led by 1, with 3 out of the ISR."""
    world = World(broker_count=4)
    world.given(replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=7, partition_epoch=5)
    return world


def asked(
    world: World, proposal: IsrProposal, *, sender: int, epoch: int
) -> tuple[Error, commands.Decision]:
    """The error that the request earns, at its top or for its one partition."""
    decision = world.ask(
        commands.AlterPartition(broker_id=sender, broker_epoch=epoch, proposals=(proposal,))
    )
    answer = decision.answer
    assert isinstance(answer, commands.PartitionsAltered)
    return (answer.partitions[0].error if answer.partitions else answer.error), decision


def test_each_error_hides_those_that_are_checked_after_it(world: World) -> None:
    """REASSIGNMENT.md has the order. All is wrong at first, and mended one thing at a time."""
    world.fence(4)
    stranger, stale = IsrMember(9), IsrMember(3, world.epoch(3) - 1)
    wrong = IsrProposal(
        topic_id=UUID(int=99),
        partition=8,
        leader_epoch=8,
        partition_epoch=9,
        isr=(stale, stale, stranger),
        recovery=2,
    )
    sender, epoch = 2, world.epoch(2) + 1
    mends: list[tuple[Error, dict[str, object]]] = [
        (Error.STALE_BROKER_EPOCH, {"epoch": world.epoch(2)}),
        (Error.UNKNOWN_TOPIC_ID, {"topic_id": TOPIC_ID}),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 0}),
        (Error.NOT_CONTROLLER, {"leader_epoch": 6}),
        (Error.NOT_CONTROLLER, {"partition_epoch": 4}),
        (Error.FENCED_LEADER_EPOCH, {"leader_epoch": 7}),
        (Error.INVALID_REQUEST, {"sender": 1, "epoch": world.epoch(1)}),
        (Error.INVALID_UPDATE_VERSION, {"partition_epoch": 5}),
        (Error.INVALID_REQUEST, {"isr": (stale, stranger)}),
        (Error.INVALID_REQUEST, {"isr": (stale,)}),
        (Error.INVALID_REQUEST, {"isr": (IsrMember(1), stale)}),
        (Error.INVALID_REQUEST, {"recovery": RECOVERING}),
        (Error.INVALID_REQUEST, {"recovery": RECOVERED}),
        (Error.INELIGIBLE_REPLICA, {"isr": (IsrMember(1), world.member(3))}),
    ]
    fields = {name: getattr(wrong, name) for name in wrong.__struct_fields__}
    for error, mend in mends:
        found, decision = asked(world, IsrProposal(**fields), sender=sender, epoch=epoch)
        assert found is error, (found, error, fields)
        assert decision.records == ()
        sender = int(str(mend.pop("sender", sender)))
        epoch = int(str(mend.pop("epoch", epoch)))
        fields.update(mend)
    found, decision = asked(world, IsrProposal(**fields), sender=sender, epoch=epoch)
    assert found is Error.NONE
    assert len(decision.records) == 1


def test_the_reasons_of_the_same_error_can_be_told_apart(world: World) -> None:
    cases = {
        "repeats": world.proposal((1, 2, 2)),
        "not among": world.proposal((1, 4)),
        "lacks the leader": world.proposal((2, 3)),
        "neither 0 nor 1": world.proposal((1,), recovery=5),
        "still recovering": world.proposal((1, 2), recovery=RECOVERING),
        "has recovered": world.proposal((1,), recovery=RECOVERING),
    }
    for reason, proposal in cases.items():
        (answer,) = world.propose(proposal)
        assert answer.error is Error.INVALID_REQUEST
        assert reason in answer.message


def test_an_unregistered_sender_is_stale(world: World) -> None:
    found, _ = asked(world, world.proposal((1,)), sender=77, epoch=0)
    assert found is Error.STALE_BROKER_EPOCH


def test_the_isr_is_changed_and_the_new_partition_epoch_is_answered(world: World) -> None:
    answer = world.sync(1, 2, 3)
    assert answer == commands.PartitionAltered(
        topic_id=TOPIC_ID,
        partition=0,
        leader=1,
        leader_epoch=7,
        isr=(1, 2, 3),
        recovery=RECOVERED,
        partition_epoch=6,
    )
    assert world.partition().isr == (1, 2, 3)


def test_an_isr_that_is_already_so_in_any_order_changes_nothing(world: World) -> None:
    before = world.image.end_offset
    answer = world.sync(2, 1)
    assert answer.error is Error.NONE
    assert (answer.isr, answer.partition_epoch) == ((1, 2), 5)
    assert world.image.end_offset == before


def test_a_second_proposal_of_one_request_sees_the_first(world: World) -> None:
    first, second = world.propose(world.proposal((1, 2, 3)), world.proposal((1,)))
    assert first.error is Error.NONE
    assert second.error is Error.INVALID_UPDATE_VERSION
    assert world.partition().isr == (1, 2, 3)


def test_one_bad_partition_does_not_stop_the_others(world: World) -> None:
    world.given(replicas=(1, 3), isr=(1,), leader=1)
    bad, good = world.propose(world.proposal((1, 4)), world.proposal((1, 3), number=1))
    assert (bad.error, good.error) == (Error.INVALID_REQUEST, Error.NONE)
    assert world.partition(0).isr == (1, 2)
    assert world.partition(1).isr == (1, 3)


def test_one_bad_member_rejects_the_whole_change_of_its_partition(world: World) -> None:
    """KIP-903: no part of the change is made, not even the shrinking that would be right."""
    world.fence(3)
    (answer,) = world.propose(world.proposal((1, 3)))
    assert answer.error is Error.INELIGIBLE_REPLICA
    assert "broker 3 is fenced" in answer.message
    assert world.partition().isr == (1, 2)


def test_a_rebooted_replica_is_not_let_in_by_a_request_from_before_its_reboot() -> None:
    """KAFKA-14139, the six steps of KIP-903: with its disk replaced B would lose A's data."""
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    # 1. B (2) catches up, and A (1) is about to ask for it.
    delayed = world.proposal((1, 2))
    # 2. and 3. B fails hard and is fenced; it is in no ISR, so the partition does not change.
    assert len(world.fence(2).records) == 1
    # 4. and 5. B comes back with an empty disk and registers anew.
    world.join(2, 2)
    # 6. The request arrives at last.
    (answer,) = world.propose(delayed)
    assert answer.error is Error.INELIGIBLE_REPLICA
    assert world.partition().isr == (1,)


def test_a_sender_from_before_its_own_reboot_is_refused(world: World) -> None:
    delayed, epoch = world.proposal((1, 2, 3)), world.epoch(1)
    world.fence(1)
    world.join(1, 2)
    found, _ = asked(world, delayed, sender=1, epoch=epoch)
    assert found is Error.STALE_BROKER_EPOCH


def test_a_member_without_an_epoch_is_not_checked_for_it(world: World) -> None:
    """AlterPartition below version 3 has no epochs."""
    isr = tuple(IsrMember(broker_id) for broker_id in (1, 2, 3))
    (answer,) = world.propose(world.proposal((), isr=isr))
    assert answer.error is Error.NONE


@pytest.mark.parametrize("reason", ["is not registered", "is fenced", "is shutting down"])
def test_a_broker_that_may_not_lead_may_not_join_an_isr(world: World, reason: str) -> None:
    match reason:
        case "is not registered":
            world.ask(commands.UnregisterBroker(broker_id=3))
        case "is fenced":
            world.fence(3)
        case _:
            # A broker that leads nothing goes at once, so give it something to lead.
            world.given(replicas=(3, 2), isr=(3, 2), leader=3)
            assert not world.heartbeat(3, want_shut_down=True).should_shut_down
    (answer,) = world.propose(world.proposal((1, 2, 3)))
    assert answer.error is Error.INELIGIBLE_REPLICA
    assert f"broker 3 {reason}" in answer.message


def test_a_leader_elected_uncleanly_recovers_before_its_isr_grows() -> None:
    """KIP-704."""
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1,), leader=1, recovery=RECOVERING)
    (early,) = world.propose(world.proposal((1, 2), recovery=RECOVERING))
    assert early.error is Error.INVALID_REQUEST
    (recovered,) = world.propose(world.proposal((1,), recovery=RECOVERED))
    assert (recovered.error, recovered.recovery) == (Error.NONE, RECOVERED)
    assert world.sync(1, 2).error is Error.NONE


def test_a_completion_that_moves_the_leader_is_written_and_answered_with_new_leader_elected() -> (
    None
):
    """The sender learns that it must look at the metadata; the change is made all the same."""
    world = World(broker_count=4)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.reassign(3, 2)
    answer = world.sync(1, 2, 3)
    assert answer.error is Error.NEW_LEADER_ELECTED
    after = world.partition()
    assert (after.replicas, after.isr, after.leader) == ((3, 2), (2, 3), 3)


def test_the_elr_is_emptied_once_enough_replicas_are_in_sync() -> None:
    """ISR >= min ISR means ELR empty; until then who joins the ISR leaves the ELR."""
    world = World(broker_count=4, elr=True)
    world.given(
        replicas=(1, 2, 3, 4),
        isr=(1,),
        leader=1,
        elr=(2, 3),
        configs={"min.insync.replicas": "3"},
    )
    world.sync(1, 2)
    assert (world.partition().elr, world.partition().last_known_elr) == ((3,), ())
    world.sync(1, 2, 4)
    assert (world.partition().elr, world.partition().last_known_elr) == ((), ())

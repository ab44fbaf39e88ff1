"""What is to be done so that brokers have no replicas any more."""

from admin.care import BrokerStanding
from admin.emptying import Emptying, emptying
from admin.model import (
    Assignment,
    PartitionDescription,
    PartitionId,
    Reassignment,
    TopicDescription,
)
from statemachine.planning.unplanned import Reason, Unplanned


def broker(id: int, *, fenced: bool = False, cordoned: bool = False) -> BrokerStanding:
    return BrokerStanding(
        id=id,
        epoch=1,
        rack=None,
        is_fenced=fenced,
        is_stopping=False,
        is_cordoned=cordoned,
        replica_count=0,
        in_sync_count=0,
        leader_count=0,
    )


def emptied(
    brokers: set[int],
    others: list[BrokerStanding],
    *partitions: tuple[int, ...],
    active: tuple[Reassignment, ...] = (),
    leaderless: frozenset[int] = frozenset(),
) -> Emptying:
    described = [
        PartitionDescription(
            partition=number,
            leader=-1 if number in leaderless else replicas[0],
            leader_epoch=1,
            replicas=replicas,
            isr=replicas,
        )
        for number, replicas in enumerate(partitions)
    ]
    topic = TopicDescription(name="t", topic_id=None, partitions=described)
    return emptying(brokers, others, {"t": topic}, active)


def test_what_is_on_the_brokers_goes_to_those_that_are_alive_and_not_cordoned() -> None:
    others = [broker(1), broker(2, fenced=True), broker(3, cordoned=True), broker(4)]
    found = emptied({9}, others, (9, 1), (1, 4))
    assert found.plan == [Assignment(topic="t", partition=0, replicas=(1, 4))] or found.plan == [
        Assignment(topic="t", partition=0, replicas=(4, 1))
    ]
    assert found.current == {PartitionId("t", 0): (9, 1)}
    assert (found.held, found.leaving) == (1, 0)


def test_what_is_leaving_already_is_counted_and_what_moves_elsewhere_is_named() -> None:
    others = [broker(1), broker(2)]
    leaving = Reassignment(topic="t", partition=0, replicas=(9, 1, 2), adding=(2,), removing=(9,))
    busy = Reassignment(topic="t", partition=1, replicas=(9, 1, 2), adding=(2,), removing=(1,))
    found = emptied({9}, others, (9, 1, 2), (9, 1, 2), active=(leaving, busy))
    assert (found.held, found.leaving, found.busy) == (2, 1, [PartitionId("t", 1)])
    assert found.plan == []


def test_what_nobody_leads_cannot_be_copied() -> None:
    found = emptied({9}, [broker(1)], (9,), leaderless=frozenset({0}))
    assert found.leaderless == [PartitionId("t", 0)]
    assert found.plan == []


def test_without_brokers_to_take_it_there_is_no_plan() -> None:
    found = emptied({9}, [broker(1)], (9, 1))
    assert isinstance(found.plan, Unplanned)
    assert found.plan.reason is Reason.TOO_FEW_BROKERS


def test_who_has_nothing_is_done() -> None:
    found = emptied({9}, [broker(1)], (1,))
    assert (found.held, found.plan) == (0, [])

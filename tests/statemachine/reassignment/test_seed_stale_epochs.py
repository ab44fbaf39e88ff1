"""KIP-903 (stale broker epochs): its scenario, and requests in a race with a reboot.

The six steps with real logs, and their result without the check, are in
`tests/controller/test_stale_isr.py`. A is broker 1, B is broker 2, as the text has them.
"""

from statemachine.errors import Error
from statemachine.vocabulary import NO_LEADER
from tests.statemachine.support.world import World

A, B = 1, 2


def a_partition_that_a_leads_alone() -> World:
    """'Suppose we have a partition with two replicas: A and B. Initially A is the leader and it is
    the only member of the ISR.'
    """
    world = World(broker_count=2)
    world.given(replicas=(A, B), isr=(A,), leader=A)
    return world


def test_the_scenario_of_kafka_14139_in_its_six_steps() -> None:
    world = a_partition_that_a_leads_alone()
    before = world.partition()
    # 1. Broker B catches up to A, so A attempts to send an AlterPartition request.
    request = world.proposal((A, B))
    # 2. Before it is received, replica B has a hard failure. 3. The current controller successfully
    # fences broker B. It takes no action on this partition since B is already out of the ISR.
    world.fence(B)
    assert world.partition() == before
    # 4. B finishes startup, but the disk has been replaced. 5. The controller sees the registration
    # from broker B first.
    epoch = world.epoch(B)
    world.join(B, 2)
    assert world.epoch(B) > epoch
    # 6. Finally, the AlterPartition from A arrives. It added B back into the ISR; now it does not.
    (answer,) = world.propose(request)
    assert answer.error is Error.INELIGIBLE_REPLICA
    assert f"fetched with epoch {epoch}, {world.epoch(B)} is registered" in answer.message
    assert world.partition() == before


def test_a_request_with_the_new_epoch_is_accepted_after_the_reboot() -> None:
    """'After the change, the controller can accept valid requests with the correct epoch info.'"""
    world = a_partition_that_a_leads_alone()
    world.fence(B)
    world.join(B, 2)
    assert world.sync(A, B).error is Error.NONE
    assert world.partition().isr == (A, B)


def test_a_request_that_is_accepted_after_the_failure_does_no_harm() -> None:
    """'It is fine [...]: the controller will remove the broker from all the ISRs when fencing.'"""
    world = a_partition_that_a_leads_alone()
    request = world.proposal((A, B))
    # B has failed, and nobody knows it yet: its session runs.
    (answer,) = world.propose(request)
    assert answer.error is Error.NONE
    world.fence(B)
    assert world.partition().isr == (A,)


def test_the_last_member_stays_in_the_isr_as_a_notable_exception() -> None:
    """'When the ISR only contains one last broker [...] the current behavior will keep it.'"""
    world = a_partition_that_a_leads_alone()
    world.fence(A)
    assert (world.partition().isr, world.partition().leader) == ((A,), NO_LEADER)
    world.join(A, 2)
    assert (world.partition().isr, world.partition().leader) == ((A,), A)

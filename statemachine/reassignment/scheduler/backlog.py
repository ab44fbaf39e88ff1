"""The backlog: partitions that a bounded decision has not reached.

A change of configurations completes a bounded number of reassignments and holds a bounded number of
elections. No request of a broker would reach the rest. So all partitions that move or have no
leader are scanned once after such a change, and once by every new active controller.
"""

from pyroaring import BitMap

from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.limits import BACKLOG_SCANNED_MAX, PARTITIONS_FREED_BY_CONFIGS_MAX
from statemachine.partitions.change_builder import change_partition, is_complete
from statemachine.partitions.leader_election import Election, elect, election_for
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import throttle
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.slices import CHANGED_US, LOOKED_AT_US, Slices
from statemachine.vocabulary import NO_LEADER


def is_left(image: Image, scheduler: Scheduler) -> bool:
    """Return True if a partition of the backlog, or a configuration of an ended move, is left.

    Fast, since it is called often.
    """
    if throttle.is_left(image):
        return True
    if scheduler.backlog is not None:
        return bool(scheduler.backlog)
    return bool(image.index.moving or image.index.leader_of.get(NO_LEADER))


def take_up(pending: PendingDecision) -> Slices[bool]:
    """Complete steps and elect leaders for a bounded number; return whether some are left.

    The next decision reads the changed partitions again: only then it is certain that their records
    have been appended.
    """
    image, scheduler = pending.image, pending.scheduler
    if image.transaction is not None:
        return False
    backlog = scheduler.backlog
    if backlog is None:
        leaderless = image.index.leader_of.get(NO_LEADER, BitMap())
        backlog = scheduler.begin_backlog(image.index.moving | leaderless)
    passed, changed = BitMap(), 0
    for key in backlog[:BACKLOG_SCANNED_MAX]:
        if changed == PARTITIONS_FREED_BY_CONFIGS_MAX:
            break
        # The partition may have been deleted, and its key reused.
        found = image.index.at(key)
        if found is not None and _take_up(pending, *found):
            changed += 1
            yield CHANGED_US
        else:
            passed.add(key)
            yield LOOKED_AT_US
    backlog.difference_update(passed)
    return len(backlog) > changed


def _take_up(pending: PendingDecision, topic: Topic, number: int) -> bool:
    """Complete the step or elect a leader, if possible; return True if the partition changed."""
    partition = pending.partition(topic, number)
    if partition is None:
        return False
    election = election_for(pending.image, topic)
    if not (is_complete(pending, topic, partition) or _may_be_led(pending, partition, election)):
        return False
    after = change_partition(pending, topic, number, partition, election=election)
    return after is not partition


def _may_be_led(
    pending: PendingDecision, partition: PartitionRegistration, election: Election
) -> bool:
    if partition.leader != NO_LEADER:
        return False
    leader, _ = elect(partition, pending.may_lead(partition), election)
    return leader != NO_LEADER

"""The backlog: partitions that a bounded decision has not reached.

A change of configurations completes a bounded number of moves and holds a bounded number of
elections. Nothing else would reach the rest, since their brokers have nothing to say. So all
partitions that move or have no leader are looked at once after such a change, and once by every new
active controller.
"""

from pyroaring import BitMap

from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.limits import LEFT_OVER_LOOKED_AT_MAX, PARTITIONS_FREED_BY_CONFIGS_MAX
from statemachine.partitions.change_builder import change_partition, is_complete
from statemachine.partitions.leader_election import Election, elect, election_for
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import throttle
from statemachine.reassignment.scheduler.state import Cursor, Scheduler
from statemachine.slices import CHANGED_US, LOOKED_AT_US, Slices
from statemachine.vocabulary import NO_LEADER


def is_left(image: Image, scheduler: Scheduler) -> bool:
    """Return True if a partition of the backlog, or a configuration of an ended move, is left.

    It is fast, for it is asked all the time.
    """
    if throttle.is_left(image):
        return True
    cursor = scheduler.cursor
    if cursor is not None:
        return not cursor.is_over
    return bool(image.index.moving or image.index.leader_of.get(NO_LEADER))


def take_up(draft: PendingDecision) -> Slices[bool]:
    """Complete and elect what can be, for a bounded number; returns whether some are left.

    Who has changed is looked at once more by the next decision: until then it is not certain that
    what was decided has been recorded.
    """
    if draft.image.transaction is not None:
        return False
    cursor = _cursor_of(draft)
    changed, first = 0, None
    positions = cursor.positions(lambda name: _numbers(draft.image, name))
    for looked_at, (position, name, number) in enumerate(positions):
        if looked_at == LEFT_OVER_LOOKED_AT_MAX or changed == PARTITIONS_FREED_BY_CONFIGS_MAX:
            cursor.position = position if first is None else first
            return True
        topic = draft.image.topic_named(name)
        cost_us = LOOKED_AT_US
        if topic is not None and _take_up(draft, topic, number):
            cost_us = CHANGED_US
            changed += 1
            first = position if first is None else first
        yield cost_us
    cursor.position = cursor.end if first is None else first
    return False


def _take_up(draft: PendingDecision, topic: Topic, number: int) -> bool:
    """Complete or elect what can be, and return whether the partition changed."""
    partition = draft.partition(topic, number)
    if partition is None:
        return False
    election = election_for(draft.image, topic)
    if not (is_complete(draft, topic, partition) or _may_be_led(draft, partition, election)):
        return False
    after = change_partition(draft, topic, number, partition, election=election)
    return after is not partition


def _may_be_led(
    draft: PendingDecision, partition: PartitionRegistration, election: Election
) -> bool:
    if partition.leader != NO_LEADER:
        return False
    leader, _ = elect(partition, draft.may_lead(partition), election)
    return leader != NO_LEADER


def _cursor_of(draft: PendingDecision) -> Cursor:
    cursor = draft.scheduler.cursor
    if cursor is None:
        index = draft.image.index
        cursor = Cursor({topic.name for topic in index.topics(_keys(draft.image))})
        draft.scheduler.set_cursor(cursor)
    return cursor


def _keys(image: Image) -> BitMap:
    index = image.index
    return index.moving | index.leader_of.get(NO_LEADER, BitMap())


def _numbers(image: Image, name: str) -> list[int]:
    topic = image.topic_named(name)
    if topic is None:
        return []
    return image.index.numbers(BitMap(topic.keys) & _keys(image))

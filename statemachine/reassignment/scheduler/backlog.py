"""What one decision leaves over of what it allows: the active controller takes it up in portions.

A change of configurations completes a bounded number of moves and holds a bounded number of
elections. Nothing else would come to the rest: its brokers have nothing to say. So whoever moves,
and whoever nobody leads, is looked at once after every such change, and once by every controller
that begins to lead: it does not know what the one before it had left.
"""

from pyroaring import BitMap

from statemachine.image.image import Image
from statemachine.image.partition_index import Topic
from statemachine.limits import LEFT_OVER_LOOKED_AT_MAX, PARTITIONS_FREED_BY_CONFIGS_MAX
from statemachine.partitions.change_builder import change_partition, is_complete
from statemachine.partitions.leader_election import Election, elect, election_for
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import throttle
from statemachine.reassignment.scheduler.cursor import Walk
from statemachine.slices import CHANGED_US, LOOKED_AT_US, Slices
from statemachine.vocabulary import NO_LEADER


def is_left(image: Image) -> bool:
    """Whether somebody has not been looked at yet, or a move has not given up all that it had set.

    It is fast, for it is asked all the time.
    """
    if throttle.is_left(image):
        return True
    walk = image.index.walk
    if walk is not None:
        return not walk.is_over
    return bool(image.index.moving or image.index.leader_of.get(NO_LEADER))


def take_up(draft: PendingDecision) -> Slices[bool]:
    """Complete and elect what can be, for a bounded number; returns whether some are left.

    Who has changed is looked at once more by the next decision: until then it is not certain that
    what was decided has been recorded.
    """
    if draft.image.transaction is not None:
        return False
    walk = _walk_of(draft.image)
    changed, first = 0, None
    places = walk.places(lambda name: _numbers(draft.image, name))
    for looked_at, (place, name, number) in enumerate(places):
        if looked_at == LEFT_OVER_LOOKED_AT_MAX or changed == PARTITIONS_FREED_BY_CONFIGS_MAX:
            walk.place = place if first is None else first
            return True
        topic = draft.image.topic_named(name)
        cost_us = LOOKED_AT_US
        if topic is not None and _take_up(draft, topic, number):
            cost_us = CHANGED_US
            changed += 1
            first = place if first is None else first
        yield cost_us
    walk.place = walk.end if first is None else first
    return False


def _take_up(draft: PendingDecision, topic: Topic, number: int) -> bool:
    """Whether the partition has changed by this."""
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


def _walk_of(image: Image) -> Walk:
    walk = image.index.walk
    if walk is None:
        found = {topic.name for topic in image.index.topics(_keys(image))}
        walk = image.index.walk = Walk(found)
    return walk


def _keys(image: Image) -> BitMap:
    index = image.index
    return index.moving | index.leader_of.get(NO_LEADER, BitMap())


def _numbers(image: Image, name: str) -> list[int]:
    topic = image.topic_named(name)
    if topic is None:
        return []
    return image.index.numbers(BitMap(topic.keys) & _keys(image))

"""One change to one partition: the only place where the controller makes one.

Whatever asked for it (an ISR, a reassignment, a broker that went or came), the same follows: a
reassignment that is complete completes, a leader that may not lead is replaced, the epochs go up,
and what must always hold is asserted.
"""

from msgspec.structs import replace

from statemachine import records
from statemachine.completion import completed, completes
from statemachine.configs import min_isr
from statemachine.draft import Draft
from statemachine.index import Topic
from statemachine.leadership import Election, elect
from statemachine.partition import Partition, difference, violation
from statemachine.vocabulary import RECOVERING


def change_partition(
    draft: Draft,
    topic: Topic,
    number: int,
    wish: Partition,
    *,
    election: Election = Election.CLEAN,
    finished: bool = False,
) -> Partition:
    """Make the partition what `wish` says, with all that follows, and return what it then is.

    `wish` has the epochs and the leader of before. Nothing is recorded if nothing changes.
    `finished` says that the wish itself ends a reassignment, which begins a leader epoch just as a
    completion does.
    """
    before = draft.partition(topic, number)
    assert before is not None, f"{topic.name}-{number} is changed before it exists"
    if wish.moving and completes(wish, min_isr(draft.image, topic.name, wish)):
        wish = completed(wish)
        finished = True
    leader, unclean = elect(wish, draft.live, election)
    if unclean:
        wish = replace(wish, isr=(leader,), elr=(), last_known_elr=(), recovery=RECOVERING)
    elif wish.elr:
        wish = _with_elr_in_bounds(draft, topic, wish)
    if wish.replicas != before.replicas:
        wish = replace(wish, directories=draft.directories(before, wish.replicas))
    new_epoch = finished or leader != before.leader
    after = replace(wish, leader=leader, leader_epoch=before.leader_epoch + new_epoch)
    fields = difference(before, after)
    if not fields:
        return before
    after = replace(after, partition_epoch=before.partition_epoch + 1)
    wrong = violation(after)
    assert wrong is None, f"{topic.name}-{number}: {wrong}"
    draft.put_partition(topic, number, after)
    draft.records.append(
        records.PartitionChange(partition_id=number, topic_id=topic.topic_id, **fields)
    )
    return after


def _with_elr_in_bounds(draft: Draft, topic: Topic, wish: Partition) -> Partition:
    """The ELR without replicas that are gone or in sync; empty once enough are in sync."""
    if len(wish.isr) >= min_isr(draft.image, topic.name, wish):
        return replace(wish, elr=(), last_known_elr=())
    elr = tuple(r for r in wish.elr if r in wish.replicas and r not in wish.isr)
    return replace(wish, elr=elr)

"""One change to one partition: the only place where the controller makes one.

Whatever asked for it (an ISR, a reassignment, a broker that went or came), the same follows: a
reassignment that is complete completes, a leader that may not lead is replaced, the epochs go up,
and what must always hold is asserted.
"""

from msgspec.structs import replace

from statemachine import records
from statemachine.completion import completed, completes, takes_over
from statemachine.configs import min_isr
from statemachine.draft import Draft
from statemachine.elr import last_known_leader, led_by, with_elr
from statemachine.index import Topic
from statemachine.leadership import Election, elect
from statemachine.partition import Partition, difference, loses_any, violation
from statemachine.settings import completion_rule, limits
from statemachine.vocabulary import NO_MOVE, RECOVERING, BrokerId, MoveId, Replicas


def change_partition(
    draft: Draft,
    topic: Topic,
    number: int,
    wish: Partition,
    *,
    election: Election = Election.CLEAN,
    finished: bool = False,
    unclean: Replicas = (),
) -> Partition:
    """Make the partition what `wish` says, with all that follows, and return what it then is.

    `wish` has the epochs and the leader of before. Nothing is recorded if nothing changes.
    `finished` says that the wish itself ends a reassignment, which begins a leader epoch just as a
    completion does. So does a replica that goes: it may not know of it yet, and still fetch; back
    again by the time it is let in, it would be in sync with what it deletes when it hears of it.
    `unclean` are replicas that may have lost what they had (KIP-966).
    """
    before = draft.partition(topic, number)
    assert before is not None, f"{topic.name}-{number} is changed before it exists"
    asked_by = wish.stage.move
    if is_complete(draft, topic, wish):
        election = Election.PREFERRED if _takes_over(draft, wish) else election
        wish, finished = _completed(draft, topic, wish), True
    # The wish may name other directories than before, for the replicas of before.
    wish = _housed(draft, replace(before, directories=wish.directories), wish)
    wish, leader = _elected(draft, topic, before, wish, election, unclean)
    if is_complete(draft, topic, wish):
        # Whoever was elected is in sync by that alone. Leading on its own, it may change nothing.
        wish, finished = _housed(draft, wish, _completed(draft, topic, wish)), True
    begins_epoch = finished or leader != before.leader or loses_any(before, wish)
    leader_epoch = before.leader_epoch + begins_epoch
    epoch = before.partition_epoch + 1
    after = replace(wish, leader=leader, leader_epoch=leader_epoch, partition_epoch=epoch)
    return _recorded(draft, topic, number, before, after, asked_by)


def _recorded(
    draft: Draft, topic: Topic, number: int, before: Partition, after: Partition, asked_by: MoveId
) -> Partition:
    """Record what changes, for the move that has asked for it; returns what the partition is."""
    fields = difference(before, after)
    if not fields:
        return before
    wrong = violation(after, min_isr=_goal(draft, topic, after), before=before)
    assert wrong is None, f"{topic.name}-{number}: {wrong}"
    if before.target and not after.target and asked_by not in (NO_MOVE, before.stage.move):
        # Complete at once, it is never seen in the move that has asked for it.
        fields["move"] = asked_by
    draft.put_partition(topic, number, before, after, asked_by)
    draft.records.append(
        records.PartitionChange(partition_id=number, topic_id=topic.topic_id, **fields)
    )
    return after


def _goal(draft: Draft, topic: Topic, partition: Partition) -> int:
    """The min ISR, where it matters for what always holds; else 0."""
    return min_isr(draft, topic.name, partition) if partition.elr else 0


def is_complete(draft: Draft, topic: Topic, wish: Partition) -> bool:
    """Whether a reassignment is under way, and its step complete as the partition is wished for."""
    if not wish.moving:
        return False
    return completes(wish, min_isr(draft, topic.name, wish), completion_rule(draft))


def _completed(draft: Draft, topic: Topic, wish: Partition) -> Partition:
    return completed(wish, min_isr(draft, topic.name, wish), draft.now_ms)


def _takes_over(draft: Draft, wish: Partition) -> bool:
    """Whether the one that is to be the preferred leader leads with the completion."""
    if not takes_over(wish, is_limited=not limits(draft).is_unlimited):
        return False
    return draft.live(wish.target[0])


def _housed(draft: Draft, known: Partition, wish: Partition) -> Partition:
    """The wish with a directory for each of its replicas, from what is known of those of before."""
    if wish.replicas == known.replicas:
        return wish
    return replace(wish, directories=draft.directories(known, wish.replicas))


def _elected(
    draft: Draft,
    topic: Topic,
    before: Partition,
    wish: Partition,
    election: Election,
    unclean_replicas: Replicas,
) -> tuple[Partition, BrokerId]:
    """Who leads, and what that makes of the ISR and the ELR."""
    if not (draft.has_elr or wish.elr or wish.last_known_elr):
        leader, unclean = elect(wish, draft.may_lead(wish), election)
        if unclean:
            wish = replace(wish, isr=(leader,), recovery=RECOVERING)
        return wish, leader
    needed = min_isr(draft, topic.name, wish)
    # With the feature off, who was eligible serves on where nobody is in sync, and nowhere else.
    if draft.has_elr or not wish.isr:
        wish = with_elr(before, wish, min_isr=needed, unclean=unclean_replicas)
    leader, unclean = elect(wish, draft.may_lead(wish), election)
    if unclean:
        return replace(wish, isr=(leader,), elr=(), last_known_elr=(), recovery=RECOVERING), leader
    wish = led_by(wish, leader, min_isr=needed)
    if wish.isr and not draft.has_elr:
        return replace(wish, elr=(), last_known_elr=()), leader
    known = last_known_leader(before, wish, leader)
    return wish if known == wish.last_known_elr else replace(wish, last_known_elr=known), leader

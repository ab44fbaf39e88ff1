"""One change to one partition: the only place where the controller makes one.

Whatever asked for it (an ISR, a reassignment, a broker that went or came), the same follows: a
reassignment that is complete completes, a leader that may not lead is replaced, the epochs go up,
and what must always hold is asserted.
"""

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from statemachine.configs.effective import min_isr
from statemachine.errors import Refusal
from statemachine.image.partition_table import Topic
from statemachine.partitions.elr import last_known_leader, led_by, with_elr
from statemachine.partitions.leader_election import Election, elect
from statemachine.partitions.registration import (
    PartitionRegistration,
    difference,
    loses_any,
    violation,
)
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.completion import completed, completes, takes_over
from statemachine.reassignment.settings import completion_rule, limits
from statemachine.records import kafka_records
from statemachine.records.kafka_records import PartitionChange
from statemachine.slices import CHANGED_US, REPEATED_US
from statemachine.vocabulary import NO_MOVE, RECOVERING, BrokerId, MoveId, Replicas


def change_partition(
    draft: PendingDecision,
    topic: Topic,
    number: int,
    wish: PartitionRegistration,
    *,
    election: Election = Election.CLEAN,
    finished: bool = False,
    unclean: Replicas = (),
) -> PartitionRegistration:
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
    draft: PendingDecision,
    topic: Topic,
    number: int,
    before: PartitionRegistration,
    after: PartitionRegistration,
    asked_by: MoveId,
) -> PartitionRegistration:
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
        kafka_records.PartitionChange(partition_id=number, topic_id=topic.topic_id, **fields)
    )
    return after


def _goal(draft: PendingDecision, topic: Topic, partition: PartitionRegistration) -> int:
    """The min ISR, where it matters for what always holds; else 0."""
    return min_isr(draft, topic.name, partition) if partition.elr else 0


def is_complete(draft: PendingDecision, topic: Topic, wish: PartitionRegistration) -> bool:
    """Whether a reassignment is under way, and its step complete as the partition is wished for."""
    if not wish.moving:
        return False
    return completes(wish, min_isr(draft, topic.name, wish), completion_rule(draft))


def _completed(
    draft: PendingDecision, topic: Topic, wish: PartitionRegistration
) -> PartitionRegistration:
    return completed(wish, min_isr(draft, topic.name, wish), draft.now_ms)


def _takes_over(draft: PendingDecision, wish: PartitionRegistration) -> bool:
    """Whether the one that is to be the preferred leader leads with the completion."""
    if not takes_over(wish, is_limited=not limits(draft).is_unlimited):
        return False
    return draft.live(wish.target[0])


def _housed(
    draft: PendingDecision, known: PartitionRegistration, wish: PartitionRegistration
) -> PartitionRegistration:
    """The wish with a directory for each of its replicas, from what is known of those of before."""
    if wish.replicas == known.replicas:
        return wish
    return replace(wish, directories=draft.directories(known, wish.replicas))


def _elected(
    draft: PendingDecision,
    topic: Topic,
    before: PartitionRegistration,
    wish: PartitionRegistration,
    election: Election,
    unclean_replicas: Replicas,
) -> tuple[PartitionRegistration, BrokerId]:
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


_EPOCHS: Final = frozenset({"leader_epoch", "partition_epoch"})

_looks: Final = attrgetter(
    *(
        name
        for name in PartitionRegistration.__struct_fields__
        # Ids of directories are slow to hash: they are compared instead.
        if name not in _EPOCHS and name != "directories"
    )
)
"""What a partition is, but for its epochs and directories."""


class _Change(NamedTuple):
    before: PartitionRegistration
    after: PartitionRegistration
    record: PartitionChange | None
    """None where nothing changes."""


class Alike:
    """The changes of one command, each for all partitions that it is the same for."""

    __slots__ = ("_draft", "_known", "cost_us")

    def __init__(self, draft: PendingDecision) -> None:
        self._draft = draft
        self._known: dict[Hashable, _Change] = {}
        self.cost_us = CHANGED_US
        """What the last change has cost, for `Slices`."""

    def change(
        self,
        topic: Topic,
        number: int,
        before: PartitionRegistration,
        asked: Hashable,
        asked_by: MoveId,
        decide: Callable[[], PartitionRegistration | Refusal],
    ) -> PartitionRegistration | Refusal:
        """What `decide` would make of the partition, by what it has made of one like it.

        `asked` is all that `decide` goes by, but the draft, the topic and the partition, for the
        move `asked_by`. It records one change at most, and that of this partition. What it refuses
        is refused of each by itself.
        """
        key = (topic, asked, _looks(before))
        known = self._known.get(key)
        self.cost_us = REPEATED_US
        if known is not None and known.before.directories == before.directories:
            return self._repeated(known, topic, number, before, asked_by)
        self.cost_us = CHANGED_US
        records = self._draft.records
        count = len(records)
        outcome = decide()
        if isinstance(outcome, Refusal):
            return outcome
        record = records[-1] if len(records) > count else None
        if record is None or isinstance(record, PartitionChange):
            self._known[key] = _Change(before, outcome, record)
        return outcome

    def _repeated(
        self,
        known: _Change,
        topic: Topic,
        number: int,
        before: PartitionRegistration,
        asked_by: MoveId,
    ) -> PartitionRegistration:
        first, last, record = known
        if record is None:
            return before
        after = replace(
            last,
            leader_epoch=before.leader_epoch + last.leader_epoch - first.leader_epoch,
            partition_epoch=before.partition_epoch + 1,
        )
        self._draft.put_partition(topic, number, before, after, asked_by)
        self._draft.records.append(replace(record, partition_id=number, topic_id=topic.topic_id))
        return after

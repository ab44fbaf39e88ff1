"""Decide many ISR proposals on packed rows, without a value for each partition.

A proposal is plain if its epochs are current, the ISR is valid and nothing else follows from it:
brokers send such proposals by the thousand when a broker goes or comes. `plain_isr_change` builds
and checks the change once for all partitions in the same state. If one proposal is not plain, each
is decided by itself.

"""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from statemachine.commands import AlterPartition, IsrProposal, PartitionAltered
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.records.isr_changes import IsrChanges, IsrsOfTopic
from statemachine.slices import Slices
from statemachine.vocabulary import Replicas

MANY_MIN: Final = 8
"""Of fewer each is as fast by itself."""

_AT_ONCE: Final = 256
_DECIDED_US: Final = 3
"""To decide one of them."""

_topic_id: Final = attrgetter("topic_id")

ComesTo = Callable[[Topic, PartitionRegistration, IsrProposal], Replicas | None]
"""The ISR that a partition comes to by a proposal; None where that is refused, or not all."""

_Known = dict[tuple[bytes, bytes, int, int], tuple[Replicas, bool]]
"""The ISRs that rows of one topic come to, and whether that changes anything, by what they say but
for their epochs, and by what is asked.
"""


def decide_rows(
    draft: PendingDecision, command: AlterPartition, comes_to: ComesTo
) -> Slices[tuple[PartitionAltered, ...] | None]:
    """Return the new ISRs if every proposal is plain; otherwise None, and nothing is recorded.

    `draft` is as the decision begins. `comes_to` goes by the broker that asks, the topic, and what
    the partition is and is to be, but for the epochs: these are as the leader says.
    """
    image = draft.image
    # Those that wait for a step may have their turn with the next change of any partition.
    if len(command.proposals) < MANY_MIN or image.index.waiting or draft.scheduler.has_queue:
        return None
    deciding, met = _Deciding(command, comes_to), set[Topic]()
    for topic_id, group in groupby(command.proposals, _topic_id):
        topic, proposals = image.topics.get(topic_id), list(group)
        if topic is None or topic in met or _is_repeated(proposals):
            return None
        met.add(topic)
        known: _Known = {}
        for at in range(0, len(proposals), _AT_ONCE):
            some = proposals[at : at + _AT_ONCE]
            if not deciding.take(topic, some, known):
                return None
            yield _DECIDED_US * len(some)
    if deciding.changes:
        draft.isr_changes = IsrChanges(deciding.changes)
    return tuple(deciding.altered)


def _is_repeated(proposals: Sequence[IsrProposal]) -> bool:
    """Return True if a partition is named twice."""
    return len({each.partition for each in proposals}) < len(proposals)


class _Deciding:
    """The ISRs of one command."""

    __slots__ = ("_comes_to", "_leader", "altered", "changes")

    def __init__(self, command: AlterPartition, comes_to: ComesTo) -> None:
        self._leader = command.broker_id
        self._comes_to = comes_to
        self.altered: list[PartitionAltered] = []
        self.changes: list[IsrsOfTopic] = []

    def take(self, topic: Topic, proposals: list[IsrProposal], known: _Known) -> bool:
        """Add what becomes of these partitions; False where one of them is not plain."""
        splits = topic.partitions.splits([each.partition for each in proposals])
        if splits is None:
            return False
        leader, altered = self._leader, self.altered
        numbers: list[int] = []
        isrs: list[Replicas] = []
        for proposal, (head, leader_epoch, epoch, tail) in zip(proposals, splits, strict=True):
            if proposal.partition_epoch != epoch or proposal.leader_epoch != leader_epoch:
                return False
            # By identity: what a request repeats is read once, and members are slow to hash.
            key = head, tail, id(proposal.isr), proposal.recovery
            found = known.get(key)
            if found is None:
                found = self._found(topic, proposal)
                if found is None:
                    return False
                known[key] = found
            isr, is_changed = found
            if is_changed:
                epoch += 1
                numbers.append(proposal.partition)
                isrs.append(isr)
            altered.append(
                PartitionAltered(
                    topic_id=topic.topic_id,
                    partition=proposal.partition,
                    leader=leader,
                    leader_epoch=leader_epoch,
                    isr=isr,
                    partition_epoch=epoch,
                )
            )
        if numbers:
            self.changes.append(IsrsOfTopic(topic.topic_id, numbers, isrs))
        return True

    def _found(self, topic: Topic, proposal: IsrProposal) -> tuple[Replicas, bool] | None:
        number = proposal.partition
        row = topic.partitions.row(number)
        if row is None:
            return None
        partition = topic.partitions.said_by(row)
        isr = self._comes_to(topic, partition, proposal)
        return None if isr is None else (isr, isr != partition.isr)

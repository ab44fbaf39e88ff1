"""AlterPartition: check the ISR that a leader proposes, and apply it.

KIP-903: a replica with a stale broker epoch may not join the ISR. One bad member rejects the change
of its partition; the other partitions of the request go on.

Brokers propose ISRs by the thousand when a broker goes or comes. If every proposal of a request is
plain (its epochs are current, its ISR is valid and nothing else follows from it), the request is
decided on the packed rows of the partition table. A decision for one partition holds for all in the
same state (`PlainIsrs`), in later requests too, until anything but a partition changes.
"""

from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from statemachine.commands import AlterPartition, IsrProposal, PartitionAltered, PartitionsAltered
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.image.partition_table import IsrChange, RowIsr, Topic
from statemachine.limits import PLAIN_ISRS_REMEMBERED_MAX
from statemachine.partitions.change_builder import (
    ChangeMemo,
    change_partition,
    isr_alone,
    record_isr,
)
from statemachine.partitions.registration import PartitionRegistration, directory_of
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.records import kafka_records
from statemachine.records.isr_changes import IsrChanges, IsrsOfTopic
from statemachine.records.row_codec import EPOCH_MAX, Split
from statemachine.slices import Slices
from statemachine.vocabulary import NO_EPOCH, RECOVERED, RECOVERING, BrokerId, Replicas

MANY_MIN: Final = 8
"""Fewer proposals are as fast one by one."""

_AT_ONCE: Final = 256
_DECIDED_US: Final = 3
"""The cost of deciding one proposal on its row."""

_topic_id: Final = attrgetter("topic_id")


class PlainIsrs:
    """Decided ISRs, by partition and proposal without their epochs.

    They depend on the tables of the image too. Whoever decides keeps them from one request to the
    next; the image does not have them, so that a decision changes nothing in it.
    """

    def __init__(self) -> None:
        self._isrs: dict[tuple[Any, ...], RowIsr] = {}
        self._tables_state: object = None

    def __len__(self) -> int:
        return len(self._isrs)

    def find(self, image: Image, key: tuple[Any, ...]) -> RowIsr | None:
        """Return the decided ISR, or None; forget all if a table has changed."""
        if self._tables_state is not image.tables_state:
            self._tables_state = image.tables_state
            self._isrs.clear()
        return self._isrs.get(key)

    def keep(self, key: tuple[Any, ...], isr: RowIsr) -> None:
        """Keep what has just been decided for a key that was not found."""
        if len(self._isrs) >= PLAIN_ISRS_REMEMBERED_MAX:
            self._isrs.clear()
        self._isrs[key] = isr


def alter_partition(pending: PendingDecision, command: AlterPartition) -> Slices[PartitionsAltered]:
    """Change the ISRs that the sender leads, each on its own."""
    stale = stale_broker(pending.image, command.broker_id, command.broker_epoch)
    if stale is not None:
        return PartitionsAltered.from_refusal(stale)
    plain = yield from _altered_rows(pending, command)
    if plain is not None:
        return PartitionsAltered(partitions=plain)
    partitions, memo = [], ChangeMemo(pending)
    topic_id, topic = None, None
    for proposal in command.proposals:
        if proposal.topic_id is not topic_id:
            # Consecutive proposals name the same topic, and its id is slow to hash.
            topic_id = proposal.topic_id
            topic = pending.image.topics.get(topic_id)
        partitions.append(_altered(pending, memo, topic, command.broker_id, proposal))
        yield memo.cost_us
    return PartitionsAltered(partitions=tuple(partitions))


def alter_one(
    image: Image, command: AlterPartition, scheduler: Scheduler | None, known: PlainIsrs
) -> tuple[IsrChange | None, PartitionsAltered] | None:
    """Decide the most frequent request at once, one plain proposal: the change and the answer.

    Return None if the proposal is not plain or other changes may follow.
    """
    # Any change of a partition may let a waiting partition begin its step.
    may_follow = image.index.waiting or (scheduler is not None and scheduler.has_queue)
    if len(command.proposals) != 1 or may_follow:
        return None
    proposal = command.proposals[0]
    number, topic = proposal.partition, image.topics.get(proposal.topic_id)
    split = None if topic is None else topic.partitions.split(number)
    if topic is None or split is None:
        return None
    if stale_broker(image, command.broker_id, command.broker_epoch) is not None:
        return None
    isr = _plain_isr(image, topic, command.broker_id, proposal, split, known)
    if isr is None:
        return None
    before, after, _ = isr
    epoch, change = split[2], None
    if after is not before:
        if epoch == EPOCH_MAX:
            return None
        epoch += 1
        change = IsrChange(topic, number, epoch, isr)
    answer = _altered_row(topic, command.broker_id, proposal, epoch, after)
    return change, PartitionsAltered(partitions=(answer,))


def stale_broker(image: Image, broker_id: BrokerId, broker_epoch: int) -> Refusal | None:
    """Return the reason to reject a request as stale, or None."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Refusal(Error.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.broker_epoch != broker_epoch:
        return Refusal(
            Error.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered with epoch {broker.broker_epoch},"
            f" not {broker_epoch}",
        )
    return None


def _altered(
    pending: PendingDecision,
    memo: ChangeMemo,
    topic: Topic | None,
    sender: BrokerId,
    proposal: IsrProposal,
) -> PartitionAltered:
    if topic is None:
        return _refused(
            proposal, Refusal(Error.UNKNOWN_TOPIC_ID, f"no topic has the id {proposal.topic_id}")
        )
    partition = pending.partition(topic, proposal.partition)
    if partition is None:
        unknown = f"topic {topic.name} has no partition {proposal.partition}"
        return _refused(proposal, Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown))
    refusal = _outdated(partition, sender, proposal)
    if refusal is not None:
        return _refused(proposal, refusal)
    after = memo.change(
        topic,
        proposal.partition,
        partition,
        (proposal.isr, proposal.recovery),
        partition.stage.move,
        lambda: _changed(pending, topic, partition, proposal),
    )
    if isinstance(after, Refusal):
        return _refused(proposal, after)
    if after.leader != sender:
        done = "a step of the reassignment" if after.target else "the reassignment"
        moved = f"{done} is complete and {after.leader} leads"
        return _refused(proposal, Refusal(Error.NEW_LEADER_ELECTED, moved))
    return _accepted(proposal, after)


def _accepted(proposal: IsrProposal, after: PartitionRegistration) -> PartitionAltered:
    return PartitionAltered(
        topic_id=proposal.topic_id,
        partition=proposal.partition,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        recovery=after.recovery,
        partition_epoch=after.partition_epoch,
    )


def _altered_rows(
    pending: PendingDecision, command: AlterPartition
) -> Slices[tuple[PartitionAltered, ...] | None]:
    """Return the new ISRs if every proposal is plain; otherwise None, and nothing is recorded."""
    image = pending.image
    # Any change of a partition may let a waiting partition begin its step.
    if len(command.proposals) < MANY_MIN or image.index.waiting or pending.scheduler.has_queue:
        return None
    altered: list[PartitionAltered] = []
    changes: list[IsrsOfTopic] = []
    met, known = set[Topic](), PlainIsrs()
    for topic_id, group in groupby(command.proposals, _topic_id):
        topic, proposals = image.topics.get(topic_id), list(group)
        if topic is None or topic in met:
            return None
        if len({each.partition for each in proposals}) < len(proposals):
            return None
        met.add(topic)
        for at in range(0, len(proposals), _AT_ONCE):
            some = proposals[at : at + _AT_ONCE]
            changed = _alter_rows(image, topic, command.broker_id, some, known, altered)
            if changed is None:
                return None
            if changed.numbers:
                changes.append(changed)
            yield _DECIDED_US * len(some)
    if changes:
        pending.isr_changes = IsrChanges(changes)
    return tuple(altered)


def _alter_rows(
    image: Image,
    topic: Topic,
    leader: BrokerId,
    proposals: list[IsrProposal],
    known: PlainIsrs,
    altered: list[PartitionAltered],
) -> IsrsOfTopic | None:
    """Add the answers to `altered`; return the changes, or None if a proposal is not plain."""
    splits = topic.partitions.splits([each.partition for each in proposals])
    if splits is None:
        return None
    numbers: list[int] = []
    isrs: list[Replicas] = []
    for proposal, split in zip(proposals, splits, strict=True):
        isr = _plain_isr(image, topic, leader, proposal, split, known)
        if isr is None:
            return None
        before, after, _ = isr
        epoch = split[2]
        if after is not before:
            epoch += 1
            numbers.append(proposal.partition)
            isrs.append(after)
        altered.append(_altered_row(topic, leader, proposal, epoch, after))
    return IsrsOfTopic(topic.topic_id, numbers, isrs)


def _plain_isr(
    image: Image,
    topic: Topic,
    sender: BrokerId,
    proposal: IsrProposal,
    split: Split,
    known: PlainIsrs,
) -> RowIsr | None:
    """Return the ISR after a plain proposal for the row `split`; None if it is not plain.

    Without a change the ISR before and after are one object.
    """
    head, leader_epoch, epoch, tail = split
    if proposal.partition_epoch != epoch or proposal.leader_epoch != leader_epoch:
        return None
    key = topic, sender, head, tail, proposal.isr, proposal.recovery
    found = known.find(image, key)
    if found is not None:
        return found
    table = topic.partitions
    row = table.row(proposal.partition)
    if row is None:
        return None
    partition = table.decode_row(row)
    after = _plain(PendingDecision(image), topic, partition, sender, proposal)
    places = None if after is None else table.places(partition.replicas, after.isr)
    if after is None or places is None:
        return None
    found = RowIsr(partition.isr, after.isr, places)
    known.keep(key, found)
    return found


def _altered_row(
    topic: Topic, leader: BrokerId, proposal: IsrProposal, epoch: int, isr: Replicas
) -> PartitionAltered:
    """Return the answer for a row with this partition epoch and ISR."""
    return PartitionAltered(
        topic_id=topic.topic_id,
        partition=proposal.partition,
        leader=leader,
        leader_epoch=proposal.leader_epoch,
        isr=isr,
        partition_epoch=epoch,
    )


def _plain(
    pending: PendingDecision,
    topic: Topic,
    partition: PartitionRegistration,
    sender: BrokerId,
    proposal: IsrProposal,
) -> PartitionRegistration | None:
    """Return the partition after a plain proposal, otherwise None. Records nothing."""
    if _outdated(partition, sender, proposal) is not None:
        return None
    isr = _proposed_isr(pending, partition, proposal)
    if isinstance(isr, Refusal):
        return None
    return isr_alone(pending, topic, partition, isr, proposal.recovery)


def _changed(
    pending: PendingDecision, topic: Topic, partition: PartitionRegistration, proposal: IsrProposal
) -> PartitionRegistration | Refusal:
    isr = _proposed_isr(pending, partition, proposal)
    if isinstance(isr, Refusal):
        return isr
    after = isr_alone(pending, topic, partition, isr, proposal.recovery)
    if after is None:
        desired = replace(partition, isr=isr, recovery=proposal.recovery)
        return change_partition(pending, topic, proposal.partition, desired)
    record_isr(pending, topic, proposal.partition, partition, after)
    return after


def _proposed_isr(
    pending: PendingDecision, partition: PartitionRegistration, proposal: IsrProposal
) -> Replicas | Refusal:
    """Return the proposed ISR, or the reason to refuse it."""
    isr = tuple([member.broker_id for member in proposal.isr])
    refusal = (
        _impossible(partition, proposal, isr)
        or _ineligible(pending.image.brokers, proposal)
        or _misplaced(pending, partition, proposal)
    )
    if refusal is not None:
        return refusal
    # The order means nothing: a change of it alone would only cost an epoch.
    known = partition.isr
    return known if len(isr) == len(known) and set(isr) == set(known) else isr


def _refused(proposal: IsrProposal, refusal: Refusal) -> PartitionAltered:
    return PartitionAltered.from_refusal(
        refusal, topic_id=proposal.topic_id, partition=proposal.partition
    )


def _outdated(
    partition: PartitionRegistration, sender: BrokerId, proposal: IsrProposal
) -> Refusal | None:
    """Return the disagreement of sender and controller on epochs or leader, or None."""
    if (
        proposal.partition_epoch == partition.partition_epoch
        and proposal.leader_epoch == partition.leader_epoch
        and sender == partition.leader
    ):
        return None
    if proposal.leader_epoch > partition.leader_epoch:
        return Refusal(
            Error.NOT_CONTROLLER,
            f"leader epoch {proposal.leader_epoch} is ahead of {partition.leader_epoch}",
        )
    if proposal.partition_epoch > partition.partition_epoch:
        return Refusal(
            Error.NOT_CONTROLLER,
            f"partition epoch {proposal.partition_epoch} is ahead of {partition.partition_epoch}",
        )
    if proposal.leader_epoch < partition.leader_epoch:
        return Refusal(
            Error.FENCED_LEADER_EPOCH,
            f"leader epoch {proposal.leader_epoch} is over, {partition.leader_epoch} is current",
        )
    if sender != partition.leader:
        return Refusal(Error.INVALID_REQUEST, f"the leader is {partition.leader}, not {sender}")
    if proposal.partition_epoch < partition.partition_epoch:
        return Refusal(
            Error.INVALID_UPDATE_VERSION,
            f"partition epoch {proposal.partition_epoch} is over,"
            f" {partition.partition_epoch} is current",
        )
    return None


def _impossible(
    partition: PartitionRegistration, proposal: IsrProposal, isr: Replicas
) -> Refusal | None:
    """Return the reason why the ISR is invalid for this partition, or None."""
    members = set(isr)
    if len(members) != len(isr):
        return Refusal(Error.INVALID_REQUEST, f"the ISR {isr} repeats a replica")
    if not members.issubset(partition.replicas):
        others = [broker_id for broker_id in isr if broker_id not in partition.replicas]
        return Refusal(
            Error.INVALID_REQUEST,
            f"{others} of the ISR {isr} are not among the replicas {partition.replicas}",
        )
    if partition.leader not in isr:
        return Refusal(Error.INVALID_REQUEST, f"the ISR {isr} lacks the leader {partition.leader}")
    if proposal.recovery not in (RECOVERED, RECOVERING):
        return Refusal(
            Error.INVALID_REQUEST, f"leader recovery state {proposal.recovery} is neither 0 nor 1"
        )
    if proposal.recovery == RECOVERING and len(isr) > 1:
        return Refusal(
            Error.INVALID_REQUEST, f"the ISR {isr} grows while the leader is still recovering"
        )
    if proposal.recovery == RECOVERING and partition.recovery == RECOVERED:
        return Refusal(Error.INVALID_REQUEST, "a leader that has recovered cannot be recovering")
    return None


def _ineligible(
    brokers: dict[BrokerId, kafka_records.RegisterBroker], proposal: IsrProposal
) -> Refusal | None:
    """Return the reason why a proposed member is not eligible, or None (KIP-903)."""
    for member in proposal.isr:
        broker = brokers.get(member.broker_id)
        if broker is None:
            reason = "is not registered"
        elif broker.fenced:
            reason = "is fenced"
        elif broker.stopping_at is not None:
            reason = "is shutting down"
        elif member.broker_epoch not in (NO_EPOCH, broker.broker_epoch):
            reason = (
                f"fetched with epoch {member.broker_epoch}, {broker.broker_epoch} is registered"
            )
        else:
            continue
        return Refusal(Error.INELIGIBLE_REPLICA, f"broker {member.broker_id} {reason}")
    return None


def _misplaced(
    pending: PendingDecision, partition: PartitionRegistration, proposal: IsrProposal
) -> Refusal | None:
    """Return the reason why the directory of a new member makes it ineligible, or None (KIP-858).

    It could not lead. A present member leaves the ISR when its broker reports the failed directory.
    """
    for member in proposal.isr:
        if member.broker_id in partition.isr:
            continue
        directory = directory_of(partition, member.broker_id)
        if not pending.is_online(member.broker_id, directory):
            return Refusal(
                Error.INELIGIBLE_REPLICA,
                f"broker {member.broker_id} has its replica in directory {directory}, "
                "which has failed or is not one that it has registered",
            )
    return None

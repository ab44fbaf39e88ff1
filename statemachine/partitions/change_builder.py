"""Partition changes: every partition that the controller creates or changes is built here.

The same rules apply whatever the cause is (an ISR, a reassignment, a broker that was fenced or has
returned): a complete step completes, a leader that may not lead is replaced, and the epochs rise.
`_assert_invariants` checks every outcome once: in `_record`, or in `isr_alone` for changes of an
ISR without side effects, many of which are recorded together.
"""

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.configs.effective import DEFAULTS, min_isr
from statemachine.errors import Refusal
from statemachine.image.partition_table import Topic
from statemachine.partitions.elr import affected_partitions, last_known_leader, led_by, with_elr
from statemachine.partitions.invariants import check_invariants, loses_any
from statemachine.partitions.leader_election import Election, elect
from statemachine.partitions.registration import (
    PartitionRegistration,
    created,
    difference,
    directory_of,
)
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.completion import completed, completes
from statemachine.reassignment.settings import completion_rule, limits
from statemachine.records.kafka_records import ClearElr, Partition, PartitionChange
from statemachine.slices import CHANGED_US, REPEATED_US
from statemachine.vocabulary import (
    NO_LEADER,
    NO_MOVE,
    RECOVERING,
    TOPIC_RESOURCE,
    BrokerId,
    MoveId,
    Replicas,
    Resource,
)


def change_partition(
    pending: PendingDecision,
    topic: Topic,
    number: int,
    desired: PartitionRegistration,
    *,
    election: Election = Election.ONLINE,
    finished: bool = False,
    unclean: Replicas = (),
) -> PartitionRegistration:
    """Change the partition to `desired`, with all consequences, and return the outcome.

    `desired` has the epochs and the leader of before. Nothing is recorded if nothing changes.
    `finished`: `desired` ends a reassignment, which begins a leader epoch. So does the removal of a
    replica: it may still fetch before it learns of its removal, and if it is added again it would
    join the ISR with data that it then deletes. `unclean` replicas may have lost data (KIP-966).
    """
    before = pending.partition(topic, number)
    assert before is not None, f"{topic.name}-{number} is changed before it exists"
    asked_by = desired.stage.move
    if is_complete(pending, topic, desired):
        election = Election.PREFERRED if _takes_over(pending, desired) else election
        desired, finished = _completed(pending, topic, desired), True
    desired = _with_dirs(pending, replace(before, directories=desired.directories), desired)
    desired, leader = _elected(pending, topic, before, desired, election, unclean)
    if is_complete(pending, topic, desired):
        # The elected leader is in sync by that alone. Leading on its own, it may change nothing.
        desired, finished = _with_dirs(pending, desired, _completed(pending, topic, desired)), True
    begins_epoch = finished or leader != before.leader or loses_any(before, desired)
    leader_epoch = before.leader_epoch + begins_epoch
    epoch = before.partition_epoch + 1
    after = replace(desired, leader=leader, leader_epoch=leader_epoch, partition_epoch=epoch)
    fields = difference(before, after)
    if not fields:
        return before
    if before.target and not after.target and asked_by not in (NO_MOVE, before.stage.move):
        # It completes at once, so no other record names the move that requested it.
        fields["move"] = asked_by
    record = PartitionChange(partition_id=number, topic_id=topic.topic_id, **fields)
    return _record(pending, topic, number, before, after, record, asked_by)


def record_isr(
    pending: PendingDecision,
    topic: Topic,
    number: int,
    before: PartitionRegistration,
    after: PartitionRegistration,
) -> None:
    """Record the result of `isr_alone`, unless it changes nothing."""
    if after is not before:
        pending.put_partition(topic, number, before, after, before.stage.move)
        pending.records.append(
            PartitionChange(partition_id=number, topic_id=topic.topic_id, isr=after.isr)
        )


def isr_alone(
    pending: PendingDecision,
    topic: Topic,
    before: PartitionRegistration,
    isr: Replicas,
    recovery: int,
) -> PartitionRegistration | None:
    """Return the partition with this ISR if nothing else follows from it, otherwise None.

    The ISR contains the leader, and all members of it are alive. Records nothing.
    """
    # The property `moving` inline: no request is more frequent.
    is_moving = before.target or before.adding or before.removing
    if is_moving or before.elr or before.last_known_elr or recovery != before.recovery:
        return None
    # The minimum is never more than all replicas.
    is_short = len(isr) < len(before.replicas)
    if is_short and pending.has_elr and len(isr) < min_isr(pending, topic.name, before):
        return None
    # A leader whose directory has failed is replaced with the next change.
    if not pending.is_online(before.leader, directory_of(before, before.leader)):
        return None
    if isr is before.isr:
        return before
    after = replace(before, isr=isr, partition_epoch=before.partition_epoch + 1)
    _assert_invariants(pending, topic.name, before, after)
    return after


def new_partition(
    pending: PendingDecision, topic_id: UUID, number: int, replicas: Replicas
) -> Partition:
    """Return the record of a new partition; at least one of its replicas is live."""
    isr = tuple([replica for replica in replicas if pending.live(replica)])
    record = Partition(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=pending.directories(None, replicas),
    )
    _assert_invariants(pending, str(topic_id), None, created(record))
    return record


def clear_all_elr(pending: PendingDecision) -> None:
    """Clear the ELR of every partition, if any has one."""
    if any(pending.image.index.elr_of.values()):
        clear_elr(pending, [DEFAULTS])


def clear_elr(pending: PendingDecision, resources: Sequence[Resource]) -> None:
    """Clear the ELR of the partitions that the configurations of these resources apply to.

    A partition with an empty ISR keeps its ELR: a second record restores it.
    """
    for kind, name in resources:
        topic_name = name if kind == TOPIC_RESOURCE else ""
        pending.records.append(ClearElr(topic_name=topic_name))
    leaderless = pending.image.index.leader_of.get(NO_LEADER, BitMap())
    for topic, number in affected_partitions(pending.image, resources, leaderless):
        before = pending.partition(topic, number)
        assert before is not None
        if not before.isr and (before.elr or before.last_known_elr):
            cleared = replace(
                before, elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1
            )
            kept = replace(before, partition_epoch=cleared.partition_epoch + 1)
            record = PartitionChange(
                partition_id=number,
                topic_id=topic.topic_id,
                elr=kept.elr,
                last_known_elr=kept.last_known_elr,
            )
            _record(pending, topic, number, cleared, kept, record, kept.stage.move)


def _record(
    pending: PendingDecision,
    topic: Topic,
    number: int,
    before: PartitionRegistration,
    after: PartitionRegistration,
    record: PartitionChange,
    asked_by: MoveId,
    *,
    is_copy: bool = False,
) -> PartitionRegistration:
    """Add the change to the decision, for the move that requested it, and return `after`."""
    _assert_invariants(pending, topic.name, before, after, is_copy)
    pending.put_partition(topic, number, before, after, asked_by)
    pending.records.append(record)
    return after


def _assert_invariants(
    pending: PendingDecision,
    topic_name: str,
    before: PartitionRegistration | None,
    after: PartitionRegistration,
    is_copy: bool = False,
) -> None:
    needed = min_isr(pending, topic_name, after) if after.elr else 0
    broken = check_invariants(after, min_isr=needed, before=before, is_copy=is_copy)
    assert broken is None, f"topic {topic_name}: {broken}"


def is_complete(pending: PendingDecision, topic: Topic, desired: PartitionRegistration) -> bool:
    """Return True if a reassignment step is under way, and complete in `desired`."""
    if not desired.moving:
        return False
    return completes(desired, min_isr(pending, topic.name, desired), completion_rule(pending))


def _completed(
    pending: PendingDecision, topic: Topic, desired: PartitionRegistration
) -> PartitionRegistration:
    return completed(desired, min_isr(pending, topic.name, desired), pending.now_ms)


def _takes_over(pending: PendingDecision, partition: PartitionRegistration) -> bool:
    """Return True if the future preferred leader leads once this step is complete.

    It does if the step has added it and there are limits, to move the load first (KIP-435).
    Without limits the leader stays while it may, as in Kafka.
    """
    target = partition.target
    if not target or target[0] not in partition.adding or not pending.live(target[0]):
        return False
    return partition.aimed != target or not limits(pending).is_unlimited


def _with_dirs(
    pending: PendingDecision, known: PartitionRegistration, desired: PartitionRegistration
) -> PartitionRegistration:
    """Return `desired` with a directory for each replica, taken from `known` where it has one."""
    if desired.replicas == known.replicas:
        return desired
    return replace(desired, directories=pending.directories(known, desired.replicas))


def _elected(
    pending: PendingDecision,
    topic: Topic,
    before: PartitionRegistration,
    desired: PartitionRegistration,
    election: Election,
    unclean_replicas: Replicas,
) -> tuple[PartitionRegistration, BrokerId]:
    """Elect the leader; return the partition with its ISR and ELR afterwards, and the leader."""
    if not (pending.has_elr or desired.elr or desired.last_known_elr):
        leader, unclean = elect(desired, pending.may_lead(desired), election)
        if unclean:
            desired = replace(desired, isr=(leader,), recovery=RECOVERING)
        return desired, leader
    needed = min_isr(pending, topic.name, desired)
    # With the feature off, an existing ELR serves only partitions with an empty ISR.
    if pending.has_elr or not desired.isr:
        desired = with_elr(before, desired, min_isr=needed, unclean=unclean_replicas)
    leader, unclean = elect(desired, pending.may_lead(desired), election)
    if unclean:
        return replace(
            desired, isr=(leader,), elr=(), last_known_elr=(), recovery=RECOVERING
        ), leader
    desired = led_by(desired, leader, min_isr=needed)
    if desired.isr and not pending.has_elr:
        return replace(desired, elr=(), last_known_elr=()), leader
    known = last_known_leader(before, desired, leader)
    return desired if known == desired.last_known_elr else replace(
        desired, last_known_elr=known
    ), leader


_EPOCHS: Final = frozenset({"leader_epoch", "partition_epoch"})

_state: Final = attrgetter(
    *(
        name
        for name in PartitionRegistration.__struct_fields__
        # Directory ids are slow to hash: they are compared instead.
        if name not in _EPOCHS and name != "directories"
    )
)
"""The state of a partition without its epochs and directories."""


class _Change(NamedTuple):
    before: PartitionRegistration
    after: PartitionRegistration
    record: PartitionChange | None
    """None where nothing changes."""


class ChangeMemo:
    """Decided changes of one command: partitions in the same state get the same change.

    A request names thousands of partitions that differ only in their numbers and epochs. Within one
    command neither brokers nor configurations change in a way that counts, so the change of the
    first such partition is the change of the others.
    """

    __slots__ = ("_known", "_pending", "cost_us")

    def __init__(self, pending: PendingDecision) -> None:
        self._pending = pending
        self._known: dict[Hashable, _Change] = {}
        self.cost_us = CHANGED_US
        """The cost of the last change, for `Slices`."""

    def change(
        self,
        topic: Topic,
        number: int,
        before: PartitionRegistration,
        asked: Hashable,
        asked_by: MoveId,
        decide: Callable[[], PartitionRegistration | Refusal],
    ) -> PartitionRegistration | Refusal:
        """Return what `decide` makes of the partition, from the memo if it has decided this before.

        `asked` is all that `decide` depends on besides the decision, the topic and the partition,
        for the move `asked_by`. `decide` records at most one change, and that of this partition. A
        refusal is not remembered.
        """
        key = (topic, asked, _state(before))
        known = self._known.get(key)
        if known is not None and known.before.directories == before.directories:
            self.cost_us = REPEATED_US
            return self._repeat(known, topic, number, before, asked_by)
        self.cost_us = CHANGED_US
        records = self._pending.records
        count = len(records)
        outcome = decide()
        if isinstance(outcome, Refusal):
            return outcome
        record = records[-1] if len(records) > count else None
        if record is None or isinstance(record, PartitionChange):
            self._known[key] = _Change(before, outcome, record)
        return outcome

    def _repeat(
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
        repeated = replace(record, partition_id=number, topic_id=topic.topic_id)
        # The first one was checked, and this one is in the same state.
        return _record(
            self._pending, topic, number, before, after, repeated, asked_by, is_copy=True
        )

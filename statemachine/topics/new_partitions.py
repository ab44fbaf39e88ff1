"""New partitions: of new topics, and of topics that grow (CreatePartitions)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

from msgspec.structs import replace

from statemachine.brokers.lifecycle import cordon_refusal, takers
from statemachine.commands import (
    CreatePartitions,
    MorePartitions,
    PartitionsAdded,
    PartitionsCreated,
)
from statemachine.errors import Error, Refusal
from statemachine.image.partition_table import Topic
from statemachine.limits import CREATED_PARTITIONS_MAX, PARTITION_NUMBER_MAX
from statemachine.partitions.registration import check_invariants, created
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.target import assignment_refusal
from statemachine.records import kafka_records
from statemachine.slices import PASSED_US, Slices
from statemachine.topics.placement import placed
from statemachine.vocabulary import Replicas


def create_partitions(
    draft: PendingDecision, command: CreatePartitions
) -> Slices[PartitionsCreated]:
    """Give each topic the partitions that it lacks, or say why not (KIP-195)."""
    if command.validate_only:
        draft = draft.scratch()
    times = Counter(asked.name for asked in command.topics)
    by_name = {asked.name: asked for asked in command.topics}
    answers = []
    left = CREATED_PARTITIONS_MAX
    for name, asked in by_name.items():
        if times[name] > 1:
            twice = f"topic {name} is named {times[name]} times"
            added: int | Refusal = Refusal(Error.INVALID_REQUEST, twice)
        else:
            added = yield from _added(draft, asked, left)
        if isinstance(added, Refusal):
            answers.append(PartitionsAdded(name=name, error=added.error, message=added.message))
        else:
            left -= added
            answers.append(PartitionsAdded(name=name))
    return PartitionsCreated(topics=tuple(answers))


def _added(draft: PendingDecision, asked: MorePartitions, left: int) -> Slices[int | Refusal]:
    """Return the number of new partitions; a refused topic gets none."""
    topic = draft.image.topic_named(asked.name)
    if topic is None:
        unknown = f"there is no topic {asked.name}"
        return Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    refusal = _count_refusal(topic, asked, left)
    if refusal is not None:
        return refusal
    first = len(topic.partitions)
    factor = _replication_factor(topic)
    finding = (
        _placed(draft, topic, asked.count - first, factor)
        if asked.assignments is None
        else _as_asked(draft, first, asked.assignments, factor)
    )
    assignment = yield from finding
    if isinstance(assignment, Refusal):
        return assignment
    yield from append_partitions(draft, topic.topic_id, enumerate(assignment, start=first))
    return len(assignment)


def _count_refusal(topic: Topic, asked: MorePartitions, left: int) -> Refusal | None:
    have, count = len(topic.partitions), asked.count
    if count == have:
        return Refusal(Error.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if count < have:
        return Refusal(
            Error.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {count} would not be an"
            " increase.",
        )
    if count > PARTITION_NUMBER_MAX + 1:
        return Refusal(
            Error.INVALID_PARTITIONS,
            f"{count} partitions are more than a topic may have: {PARTITION_NUMBER_MAX + 1}",
        )
    new = count - have
    if new > left:
        return Refusal(
            Error.INVALID_PARTITIONS,
            f"{new} new partitions are more than the {left} left of the"
            f" {CREATED_PARTITIONS_MAX} that one request may create",
        )
    if asked.assignments is not None and len(asked.assignments) != new:
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"{new} partitions are new, and {len(asked.assignments)} are assigned",
        )
    return None


def _replication_factor(topic: Topic) -> int:
    """That of the first partition, without what a reassignment only adds until it is done."""
    for _, partition in topic.existing():
        return len(partition.final)
    # A log may hold a topic whose partitions never came.
    return 1


def _as_asked(
    draft: PendingDecision, first: int, assignments: Sequence[Replicas], factor: int
) -> Slices[Sequence[Replicas] | Refusal]:
    allowed: set[Replicas] = set()
    for number, replicas in enumerate(assignments, start=first):
        yield PASSED_US
        if replicas in allowed:
            continue
        refusal = replicas_refusal(draft, number, replicas)
        if refusal is not None:
            return refusal
        if len(replicas) != factor:
            return Refusal(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"partition {number} has {len(replicas)} replicas, the topic's others {factor}",
            )
        allowed.add(replicas)
    return assignments


def _placed(
    draft: PendingDecision, topic: Topic, count: int, factor: int
) -> Slices[Sequence[Replicas] | Refusal]:
    available = takers(draft.image)
    if factor > len(available):
        return too_few_brokers(draft, factor, len(available))
    first = len(topic.partitions)
    return (yield from placed(available, topic.topic_id, count, factor, first=first))


def too_few_brokers(draft: PendingDecision, factor: int, available: int) -> Refusal:
    """Return the refusal of a replication factor above the number of brokers."""
    registered = len(draft.image.brokers)
    reason = (
        f"only {available} broker(s) are registered."
        if available == registered
        else f"only {available} of {registered} registered broker(s) are available."
    )
    return Refusal(
        Error.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): The target replication factor of"
        f" {factor} cannot be reached because {reason}",
    )


def replicas_refusal(draft: PendingDecision, number: int, replicas: Replicas) -> Refusal | None:
    """Return the reason to refuse these replicas for the new partition of this number, or None."""
    where = f"partition {number}: "
    refusal = assignment_refusal(replicas, draft.image.brokers, where=where)
    refusal = refusal or cordon_refusal(draft.image, replicas, where=where)
    if refusal is not None:
        return refusal
    if not any(draft.live(replica) for replica in replicas):
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"{where}every broker of {replicas} is fenced or shutting down",
        )
    return None


def append_partitions(
    draft: PendingDecision, topic_id: UUID, assignment: Iterable[tuple[int, Replicas]]
) -> Slices[None]:
    """Record new partitions: number, and replicas of which at least one is live."""
    alike: dict[Replicas, kafka_records.Partition] = {}
    for number, replicas in assignment:
        known = alike.get(replicas)
        if known is None:
            known = alike[replicas] = _new_partition(draft, topic_id, number, replicas)
        draft.records.append(replace(known, partition_id=number))
        yield PASSED_US


def _new_partition(
    draft: PendingDecision, topic_id: UUID, number: int, replicas: Replicas
) -> kafka_records.Partition:
    isr = tuple([replica for replica in replicas if draft.live(replica)])
    record = kafka_records.Partition(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=draft.directories(None, replicas),
    )
    wrong = check_invariants(created(record))
    assert wrong is None, f"new partition {number}: {wrong}"
    return record

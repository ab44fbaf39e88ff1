"""CreateTopics, CreatePartitions and DeleteTopics, and the rules for topic names.

Each topic is decided independently, but after the effects of the earlier ones in the request.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from statemachine.brokers.lifecycle import (
    closed_note,
    cordon_refusal,
    fenced_takers,
    is_closed,
    takers,
)
from statemachine.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    MutationClient,
    NewTopic,
    PartitionsAdded,
    PartitionsCreated,
    TopicCreated,
    TopicDeleted,
    TopicsCreated,
    TopicsDeleted,
)
from statemachine.configs.topic_configs import new_topic_refusal
from statemachine.errors import Error, Refusal
from statemachine.image.partition_table import Topic
from statemachine.limits import (
    CREATED_PARTITIONS_MAX,
    PARTITION_NUMBER_MAX,
    TOPIC_NAME_CHARACTERS_MAX,
)
from statemachine.partitions.change_builder import new_partition
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.target import assignment_refusal
from statemachine.records import kafka_records
from statemachine.slices import CONFIGURED_US, CREATED_US, PASSED_US, Slices
from statemachine.topics.mutation_quota import MutationBudget
from statemachine.topics.placement import place
from statemachine.vocabulary import TOPIC_RESOURCE, Replicas


class _NewPartitions:
    """The new partitions of one request, which share a limit and the quota of the client."""

    def __init__(self, pending: PendingDecision, client: MutationClient | None) -> None:
        self.pending = pending
        self.left = CREATED_PARTITIONS_MAX
        self.budget = pending.begin_mutations(client)

    def refusal(self, count: int) -> Refusal | None:
        """Return the reason to refuse so many more partitions, or None."""
        if count <= self.left:
            return None
        return Refusal(
            Error.INVALID_PARTITIONS,
            f"{count} new partitions are more than the {self.left} left of the"
            f" {CREATED_PARTITIONS_MAX} that one request may create",
        )

    def assigned(
        self, assignment: Sequence[Replicas], factor: int, *, first: int = 0
    ) -> Slices[Sequence[Replicas] | Refusal]:
        """Return the replicas that the request names for the partitions from `first` on."""
        allowed: set[Replicas] = set()
        for number, replicas in enumerate(assignment, start=first):
            yield PASSED_US
            if replicas in allowed:
                continue
            refusal = replicas_refusal(self.pending, number, replicas)
            if refusal is not None:
                return refusal
            if len(replicas) != factor:
                return Refusal(
                    Error.INVALID_REPLICA_ASSIGNMENT,
                    f"partition {number} has {len(replicas)} replicas, the topic's others {factor}",
                )
            allowed.add(replicas)
        return assignment

    def placed(
        self, topic_id: UUID, count: int, factor: int, *, first: int = 0
    ) -> Slices[Sequence[Replicas] | Refusal]:
        """Place the replicas of so many partitions from `first` on.

        As in Kafka, fenced brokers come last: they follow, in turn, where live ones are too few.
        """
        available, fenced = takers(self.pending.image), fenced_takers(self.pending.image)
        usable = len(available) + len(fenced) if available else 0
        if factor > usable:
            return too_few_brokers(self.pending, factor, usable)
        assignment = []
        live = min(factor, len(available))
        for number, replicas in enumerate(
            place(available, topic_id, count, live, first=first), start=first
        ):
            rest = [fenced[(number + turn) % len(fenced)] for turn in range(factor - live)]
            assignment.append((*replicas, *rest))
            yield CREATED_US
        return assignment

    def append(
        self, topic_id: UUID, assignment: Sequence[Replicas], *, first: int = 0
    ) -> Slices[None]:
        """Record the partitions; each has at least one live replica."""
        self.left -= len(assignment)
        by_replicas: dict[Replicas, kafka_records.Partition] = {}
        for number, replicas in enumerate(assignment, start=first):
            known = by_replicas.get(replicas)
            if known is None:
                known = new_partition(self.pending, topic_id, number, replicas)
                by_replicas[replicas] = known
            self.pending.records.append(replace(known, partition_id=number))
            yield PASSED_US


def create_topics(pending: PendingDecision, command: CreateTopics) -> Slices[TopicsCreated]:
    """Create or refuse each topic."""
    creation = _Creation(pending, command)
    answers = []
    for topic in command.topics:
        answers.append((yield from creation.create(topic)))
        yield CREATED_US
    until_ms = creation.partitions.budget.throttled_until_ms
    return TopicsCreated(topics=tuple(answers), throttled_until_ms=until_ms)


class _Creation:
    """The topics of one command; names, ids and the limit of partitions are shared."""

    def __init__(self, pending: PendingDecision, command: CreateTopics) -> None:
        self.pending = pending
        self.command = command
        self.names: set[str] = set()
        self.topic_ids: set[UUID] = set()
        self.partitions = _NewPartitions(pending, command.client)

    def create(self, topic: NewTopic) -> Slices[TopicCreated]:
        """Record one topic, or refuse it."""
        assignment: Sequence[Replicas] | Refusal | None = self._identity_refusal(topic)
        if assignment is None:
            assignment = yield from self._assignment(topic)
        if not isinstance(assignment, Refusal):
            # As in Kafka, only a topic that would be created uses the quota.
            assignment = self.partitions.budget.take(len(assignment)) or assignment
        if isinstance(assignment, Refusal):
            return TopicCreated.from_refusal(assignment, name=topic.name)
        self.names.add(topic.name)
        self.topic_ids.add(topic.topic_id)
        yield from self._append(topic, assignment)
        return TopicCreated(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_count=len(assignment),
            replication_factor=len(assignment[0]),
        )

    def _identity_refusal(self, topic: NewTopic) -> Refusal | None:
        reason = name_refusal(topic.name)
        if reason is not None:
            return Refusal(Error.INVALID_TOPIC_EXCEPTION, reason)
        if topic.name in self.names or self.pending.image.topic_named(topic.name) is not None:
            return Refusal(Error.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        other = colliding(topic.name, self.names, self.pending.image.topic_ids)
        if other is not None:
            message = f"Topic '{topic.name}' collides with existing topic: {other}"
            return Refusal(Error.INVALID_TOPIC_EXCEPTION, message)
        if topic.topic_id in self.topic_ids or topic.topic_id in self.pending.image.topics:
            return Refusal(Error.INVALID_REQUEST, f"topic id {topic.topic_id} is taken")
        reason = new_topic_refusal(topic.configs, self.pending.level)
        return None if reason is None else Refusal(Error.INVALID_CONFIG, reason)

    def _assignment(self, topic: NewTopic) -> Slices[Sequence[Replicas] | Refusal]:
        """Return the replicas of each partition in order, at least one, or the refusal."""
        return self._assigned(topic) if topic.assignments else self._placed(topic)

    def _assigned(self, topic: NewTopic) -> Slices[Sequence[Replicas] | Refusal]:
        if topic.partition_count != -1 or topic.replication_factor != -1:
            return Refusal(
                Error.INVALID_REQUEST,
                "with an assignment, the numbers of partitions and of replicas must both be -1",
            )
        by_number = dict(topic.assignments)
        if len(by_number) != len(topic.assignments) or by_number.keys() != set(
            range(len(by_number))
        ):
            return Refusal(
                Error.INVALID_REPLICA_ASSIGNMENT,
                "the assigned partitions must be numbered from 0 on, each once, without a gap",
            )
        assignment = [by_number[number] for number in range(len(by_number))]
        refusal = self.partitions.refusal(len(assignment))
        if refusal is not None:
            return refusal
        return (yield from self.partitions.assigned(assignment, len(assignment[0])))

    def _placed(self, topic: NewTopic) -> Slices[Sequence[Replicas] | Refusal]:
        count, factor = topic.partition_count, topic.replication_factor
        if count == -1:
            count = self.command.default_partition_count
        if factor == -1:
            factor = self.command.default_replication_factor
        if factor < 1:
            return Refusal(
                Error.INVALID_REPLICATION_FACTOR,
                f"a replication factor of {factor} is not possible; ask for 1 or more, or -1",
            )
        if count < 1:
            return Refusal(
                Error.INVALID_PARTITIONS,
                f"{count} partitions are not possible; ask for 1 or more, or -1",
            )
        refusal = self.partitions.refusal(count)
        if refusal is not None:
            return refusal
        return (yield from self.partitions.placed(topic.topic_id, count, factor))

    def _append(self, topic: NewTopic, assignment: Sequence[Replicas]) -> Slices[None]:
        pending = self.pending
        pending.records.append(kafka_records.Topic(name=topic.name, topic_id=topic.topic_id))
        if topic.configs:
            pending.set_configs((TOPIC_RESOURCE, topic.name), dict(topic.configs))
        yield from self.partitions.append(topic.topic_id, assignment)


def create_partitions(
    pending: PendingDecision, command: CreatePartitions
) -> Slices[PartitionsCreated]:
    """Add the missing partitions to each topic, or refuse them (KIP-195)."""
    partitions = _NewPartitions(pending, command.client)
    times = Counter(asked.name for asked in command.topics)
    answers = []
    for name, asked in {asked.name: asked for asked in command.topics}.items():
        if times[name] > 1:
            twice = f"topic {name} is named {times[name]} times"
            refusal: Refusal | None = Refusal(Error.INVALID_REQUEST, twice)
        else:
            refusal = yield from _grown(partitions, asked)
        if refusal is None:
            answers.append(PartitionsAdded(name=name))
        else:
            answers.append(PartitionsAdded.from_refusal(refusal, name=name))
    until_ms = partitions.budget.throttled_until_ms
    return PartitionsCreated(topics=tuple(answers), throttled_until_ms=until_ms)


def _grown(partitions: _NewPartitions, asked: MorePartitions) -> Slices[Refusal | None]:
    """Add the partitions of one topic, or return the reason to refuse all of them."""
    topic = partitions.pending.image.topic_named(asked.name)
    if topic is None:
        unknown = f"there is no topic {asked.name}"
        return Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    first, factor = len(topic.partitions), _replication_factor(topic)
    # As in Kafka, partitions use the quota even if they cannot be placed.
    refusal = _count_refusal(topic, asked, partitions) or partitions.budget.take(
        asked.count - first
    )
    if refusal is not None:
        return refusal
    assignment = yield from (
        partitions.placed(topic.topic_id, asked.count - first, factor, first=first)
        if asked.assignments is None
        else partitions.assigned(asked.assignments, factor, first=first)
    )
    if isinstance(assignment, Refusal):
        return assignment
    yield from partitions.append(topic.topic_id, assignment, first=first)
    return None


def _count_refusal(
    topic: Topic, asked: MorePartitions, partitions: _NewPartitions
) -> Refusal | None:
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
    refusal = partitions.refusal(new)
    if refusal is None and asked.assignments is not None and len(asked.assignments) != new:
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"{new} partitions are new, and {len(asked.assignments)} are assigned",
        )
    return refusal


def _replication_factor(topic: Topic) -> int:
    """Return the final number of replicas of the first partition."""
    for _, partition in topic.existing():
        return len(partition.final)
    # A log may hold a topic without partitions.
    return 1


def too_few_brokers(pending: PendingDecision, factor: int, available: int) -> Refusal:
    """Return the refusal of a replication factor above the number of brokers."""
    registered = len(pending.image.brokers)
    reason = (
        f"only {available} broker(s) are registered."
        if available == registered
        else f"only {available} of {registered} registered broker(s) are available."
    )
    closed = [broker_id for broker_id, each in pending.image.brokers.items() if is_closed(each)]
    reason += closed_note(closed)
    return Refusal(
        Error.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): The target replication factor of"
        f" {factor} cannot be reached because {reason}",
    )


def replicas_refusal(pending: PendingDecision, number: int, replicas: Replicas) -> Refusal | None:
    """Return the reason to refuse these replicas for the new partition of this number, or None."""
    where = f"partition {number}: "
    refusal = assignment_refusal(replicas, pending.image.brokers, where=where)
    refusal = refusal or cordon_refusal(pending.image, replicas, where=where)
    if refusal is not None:
        return refusal
    if not any(pending.live(replica) for replica in replicas):
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"{where}every broker of {replicas} is fenced or shutting down",
        )
    return None


def delete_topics(pending: PendingDecision, command: DeleteTopics) -> Slices[TopicsDeleted]:
    """Delete or refuse each topic."""
    budget = pending.begin_mutations(command.client)
    answers = []
    for asked in command.topics:
        answers.append(_deleted(pending, asked, budget))
        yield CONFIGURED_US
    return TopicsDeleted(topics=tuple(answers), throttled_until_ms=budget.throttled_until_ms)


def _deleted(pending: PendingDecision, asked: str | UUID, budget: MutationBudget) -> TopicDeleted:
    message = f"there is no topic {asked}"
    if isinstance(asked, str):
        topic = pending.image.topic_named(asked)
        unknown = TopicDeleted(
            name=asked, topic_id=None, error=Error.UNKNOWN_TOPIC_OR_PARTITION, message=message
        )
    else:
        topic = pending.image.topics.get(asked)
        unknown = TopicDeleted(
            name=None, topic_id=asked, error=Error.UNKNOWN_TOPIC_ID, message=message
        )
    if topic is None or topic.topic_id in pending.deleted:
        return unknown
    refusal = budget.take(len(topic.partitions))
    if refusal is not None:
        return TopicDeleted.from_refusal(refusal, name=topic.name, topic_id=topic.topic_id)
    pending.delete_topic(topic)
    pending.records.append(kafka_records.RemoveTopic(topic_id=topic.topic_id))
    return TopicDeleted(name=topic.name, topic_id=topic.topic_id)


_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_ALIKE: Final = re.compile(r"[._]")
_SPELLINGS_MAX: Final = 256


def name_refusal(name: str) -> str | None:
    """Return the reason to refuse the topic name, or None."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_CHARACTERS_MAX:
        reason = (
            f"the length of '{name}' is longer than the max allowed length"
            f" {TOPIC_NAME_CHARACTERS_MAX}"
        )
    elif _LEGAL.fullmatch(name) is None:
        reason = (
            f"{name!r} contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {reason}"


def colliding(name: str, *taken: Set[str] | Mapping[str, object]) -> str | None:
    """Return a taken name that collides with this one in metrics, where a dot is an underscore."""
    parts = _ALIKE.split(name)
    if len(parts) == 1:
        return None
    unified = "_".join(parts)
    for names in taken:
        few = 2 ** (len(parts) - 1) <= min(_SPELLINGS_MAX, len(names))
        candidates = _spellings(parts) if few else iter(names)
        for other in candidates:
            if other != name and other in names and other.replace(".", "_") == unified:
                return other
    return None


def _spellings(parts: list[str]) -> Iterator[str]:
    for marks in product("._", repeat=len(parts) - 1):
        yield parts[0] + "".join(map("".join, zip(marks, parts[1:], strict=True)))

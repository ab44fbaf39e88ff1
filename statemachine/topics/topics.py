"""CreateTopics and DeleteTopics, and the rules for topic names.

Each topic is decided by itself, and sees the ones before it in the request.

"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Final
from uuid import UUID

from statemachine.brokers.lifecycle import takers
from statemachine.commands import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicCreated,
    TopicDeleted,
    TopicsCreated,
    TopicsDeleted,
)
from statemachine.configs.topic_configs import new_topic_refusal
from statemachine.errors import Error, Refusal
from statemachine.image.partition_table import Topic
from statemachine.limits import CREATED_PARTITIONS_MAX, TOPIC_NAME_CHARACTERS_MAX
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records
from statemachine.slices import CONFIGURED_US, CREATED_US, PASSED_US, Slices
from statemachine.topics.new_partitions import append_partitions, replicas_refusal, too_few_brokers
from statemachine.topics.placement import placed
from statemachine.vocabulary import TOPIC_RESOURCE, Replicas


def create_topics(draft: PendingDecision, command: CreateTopics) -> Slices[TopicsCreated]:
    """Create each topic, or say why not."""
    creation = _Creation(draft.scratch() if command.validate_only else draft, command)
    answers = []
    for topic in command.topics:
        answers.append((yield from creation.create(topic)))
        yield CREATED_US
    return TopicsCreated(topics=tuple(answers))


class _Creation:
    """The topics of one command: what the earlier ones took is not there for the later ones."""

    def __init__(self, draft: PendingDecision, command: CreateTopics) -> None:
        self.draft = draft
        self.command = command
        self.names: set[str] = set()
        self.topic_ids: set[UUID] = set()
        self.partitions_left = CREATED_PARTITIONS_MAX

    def create(self, topic: NewTopic) -> Slices[TopicCreated]:
        """Append the records of one topic, unless it is refused."""
        assignment: Sequence[Replicas] | Refusal | None = self._identity_refusal(topic)
        if assignment is None:
            assignment = yield from self._assignment(topic)
        if isinstance(assignment, Refusal):
            return TopicCreated(name=topic.name, error=assignment.error, message=assignment.message)
        self.names.add(topic.name)
        self.topic_ids.add(topic.topic_id)
        self.partitions_left -= len(assignment)
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
        if topic.name in self.names or self.draft.image.topic_named(topic.name) is not None:
            return Refusal(Error.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        other = colliding(topic.name, self.names, self.draft.image.topic_ids)
        if other is not None:
            message = f"Topic '{topic.name}' collides with existing topic: {other}"
            return Refusal(Error.INVALID_TOPIC_EXCEPTION, message)
        if topic.topic_id in self.topic_ids or topic.topic_id in self.draft.image.topics:
            return Refusal(Error.INVALID_REQUEST, f"topic id {topic.topic_id} is taken")
        reason = new_topic_refusal(topic.configs, self.draft.level)
        return None if reason is None else Refusal(Error.INVALID_CONFIG, reason)

    def _assignment(self, topic: NewTopic) -> Slices[Sequence[Replicas] | Refusal]:
        """The replicas of each partition in order, at least one partition, or why not."""
        finding = self._as_asked(topic) if topic.assignments else self._placed(topic)
        assignment = yield from finding
        if isinstance(assignment, Refusal) or len(assignment) <= self.partitions_left:
            return assignment
        return self._too_many(len(assignment))

    def _too_many(self, count: int) -> Refusal:
        return Refusal(
            Error.INVALID_PARTITIONS,
            f"{count} partitions are more than the {self.partitions_left} left of the"
            f" {CREATED_PARTITIONS_MAX} that one request may create",
        )

    def _as_asked(self, topic: NewTopic) -> Slices[Sequence[Replicas] | Refusal]:
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
        allowed: set[Replicas] = set()
        for number, replicas in enumerate(assignment):
            yield PASSED_US
            if replicas in allowed:
                continue
            refusal = self._replicas_refusal(number, replicas, len(assignment[0]))
            if refusal is not None:
                return refusal
            allowed.add(replicas)
        return assignment

    def _replicas_refusal(self, number: int, replicas: Replicas, factor: int) -> Refusal | None:
        refusal = replicas_refusal(self.draft, number, replicas)
        if refusal is None and len(replicas) != factor:
            return Refusal(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"partition {number} has {len(replicas)} replicas, partition 0 has {factor}",
            )
        return refusal

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
        if count > self.partitions_left:
            return self._too_many(count)
        available = takers(self.draft.image)
        if factor > len(available):
            return too_few_brokers(self.draft, factor, len(available))
        return (yield from placed(available, topic.topic_id, count, factor))

    def _append(self, topic: NewTopic, assignment: Sequence[Replicas]) -> Slices[None]:
        draft = self.draft
        draft.records.append(kafka_records.Topic(name=topic.name, topic_id=topic.topic_id))
        for name, value in topic.configs:
            draft.records.append(
                kafka_records.Config(
                    resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value
                )
            )
        yield from append_partitions(draft, topic.topic_id, enumerate(assignment))


def delete_topics(draft: PendingDecision, command: DeleteTopics) -> Slices[TopicsDeleted]:
    """Delete each topic, or say why not."""
    answers = []
    for asked in command.topics:
        answers.append(_deleted(draft, asked))
        yield CONFIGURED_US
    return TopicsDeleted(topics=tuple(answers))


def _deleted(draft: PendingDecision, asked: str | UUID) -> TopicDeleted:
    by_name = isinstance(asked, str)
    topic: Topic | None
    if isinstance(asked, str):
        topic = draft.image.topic_named(asked)
    else:
        topic = draft.image.topics.get(asked)
    if topic is None or topic.topic_id in draft.deleted:
        return TopicDeleted(
            name=asked if isinstance(asked, str) else None,
            topic_id=None if isinstance(asked, str) else asked,
            error=Error.UNKNOWN_TOPIC_OR_PARTITION if by_name else Error.UNKNOWN_TOPIC_ID,
            message=f"there is no topic {asked}",
        )
    draft.delete_topic(topic)
    draft.records.append(kafka_records.RemoveTopic(topic_id=topic.topic_id))
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
    """Another name among those taken that is the same in metrics, where a dot is an underscore."""
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

"""Tens of thousands of partitions on several brokers, and the requests about them.

The leader of a partition requests its ISR, so every AlterPartition request comes from one broker.
The state of a partition is that of the last response.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, Final, TypeVar
from uuid import UUID

from admin.client.channels import Form
from bench.bulk import check, form_of, framed
from quorum.protocol.apis import ApiKey

TOPIC_PARTITIONS: Final = 1_000
FACTOR: Final = 3
_NOBODY: Final = UUID(int=0)

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Held:
    """A partition as its leader knows it."""

    topic: str
    number: int
    replicas: tuple[int, ...]
    """The first replica is the leader."""
    isr: tuple[int, ...]
    """The ISR that its leader requests next."""
    topic_id: UUID = _NOBODY
    leader_epoch: int = 0
    partition_epoch: int = 0


class Population:
    """Topics of one prefix, with their partitions."""

    def __init__(self, prefix: str, replicas: Iterable[tuple[int, ...]]) -> None:
        """One partition per item of `replicas`, with all replicas in sync; a thousand per topic."""
        self.held = [
            Held(
                topic=f"{prefix}-{place // TOPIC_PARTITIONS}",
                number=place % TOPIC_PARTITIONS,
                replicas=each,
                isr=each,
            )
            for place, each in enumerate(replicas)
        ]

    @classmethod
    def spread(cls, count: int, broker_ids: Sequence[int], *, prefix: str) -> "Population":
        """`count` partitions with leaders and followers on all brokers."""
        return cls(prefix, (_turn(broker_ids, place, FACTOR) for place in range(count)))

    @classmethod
    def led_by(
        cls, leader: int, count: int, followers: Sequence[int], *, prefix: str
    ) -> "Population":
        """`count` partitions that one broker leads."""
        turns = (_turn(followers, place, FACTOR - 1) for place in range(count))
        return cls(prefix, ((leader, *turn) for turn in turns))

    def creations(self, at_once: int) -> list[bytes]:
        """CreateTopics requests of `at_once` partitions each, or of a whole topic."""
        form = form_of(ApiKey.CREATE_TOPICS)
        topics = [list(group) for _, group in groupby(self.held, key=_topic)]
        frames = []
        for some in _cut(topics, max(1, at_once // TOPIC_PARTITIONS)):
            named = tuple(
                {
                    "name": partitions[0].topic,
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": tuple(
                        {"partition_index": each.number, "broker_ids": each.replicas}
                        for each in partitions
                    ),
                    "configs": (),
                }
                for partitions in some
            )
            request = form.request(topics=named, timeout=form.patience, validate_only=False)
            frames.append(framed(form, request))
        return frames

    def created(self, answers: Iterable[bytes]) -> None:
        """Apply the responses to CreateTopics."""
        ids = {
            topic.name: topic.topic_id
            for answer in check(ApiKey.CREATE_TOPICS, answers)
            for topic in answer.topics
        }
        for each in self.held:
            each.topic_id = ids[each.topic]

    def moves(self, at_once: int, targets: Sequence[tuple[int, ...]]) -> list[bytes]:
        """AlterPartitionReassignments requests of `at_once` partitions each, to these replicas."""
        form = form_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        frames = []
        for some in _cut(list(zip(self.held, targets, strict=True)), at_once):
            topics = tuple(
                {
                    "name": name,
                    "partitions": tuple(
                        {"partition_index": each.number, "replicas": target}
                        for each, target in group
                    ),
                }
                for name, group in groupby(some, key=lambda each: each[0].topic)
            )
            frames.append(framed(form, form.request(topics=topics, timeout=form.patience)))
        return frames

    def moving_to(self, targets: Sequence[tuple[int, ...]]) -> None:
        """Record that the moves have begun: the next ISRs contain the added replicas."""
        for each, target in zip(self.held, targets, strict=True):
            each.isr = (*each.replicas, *(new for new in target if new not in each.replicas))
            each.replicas = target
            each.partition_epoch += 1

    def others(self, broker_ids: Sequence[int]) -> list[tuple[int, ...]]:
        """For each partition its leader, and followers that are not among its replicas."""
        found = []
        for each in self.held:
            leader = each.replicas[0]
            at = broker_ids.index(leader)
            ring = [*broker_ids[at + 1 :], *broker_ids[:at]]
            new = [broker for broker in ring if broker not in each.replicas]
            found.append((leader, *new[: FACTOR - 1]))
        return found

    def isrs(self, at_once: int, epochs: Mapping[int, int]) -> list[bytes]:
        """AlterPartition requests of `at_once` partitions each, for the next ISRs."""
        by_leader: dict[int, list[Held]] = {}
        for each in self.held:
            by_leader.setdefault(each.replicas[0], []).append(each)
        return [
            isr_request(leader, some, epochs)
            for leader, held in sorted(by_leader.items())
            for some in _cut(held, at_once)
        ]

    def answered(self, answers: Iterable[bytes]) -> None:
        """Apply the responses to AlterPartition: the new epochs."""
        by_key = {(each.topic_id, each.number): each for each in self.held}
        for answer in check(ApiKey.ALTER_PARTITION, answers):
            for topic in answer.topics:
                for each in topic.partitions:
                    held = by_key[(topic.topic_id, each.partition_index)]
                    held.leader_epoch = each.leader_epoch
                    held.partition_epoch = each.partition_epoch


def isr_request(leader: int, held: Sequence[Held], epochs: Mapping[int, int]) -> bytes:
    """An AlterPartition request of the leader of all these partitions, for their next ISRs."""
    form = form_of(ApiKey.ALTER_PARTITION)
    topics = tuple(
        {"topic_id": topic_id, "partitions": tuple(_proposed(form, each, epochs) for each in group)}
        for topic_id, group in groupby(held, key=lambda each: each.topic_id)
    )
    request = form.request(broker_id=leader, broker_epoch=epochs[leader], topics=topics)
    return framed(form, request)


def _proposed(form: Form, held: Held, epochs: Mapping[int, int]) -> Any:
    return {
        "partition_index": held.number,
        "leader_epoch": held.leader_epoch,
        "new_isr_with_epochs": tuple(
            {"broker_id": each, "broker_epoch": epochs[each]} for each in held.isr
        ),
        "leader_recovery_state": 0,
        "partition_epoch": held.partition_epoch,
    }


def _turn(broker_ids: Sequence[int], place: int, count: int) -> tuple[int, ...]:
    return tuple(broker_ids[(place + step) % len(broker_ids)] for step in range(count))


def _topic(held: Held) -> str:
    return held.topic


def _cut(items: Sequence[T], at_once: int) -> Iterator[list[T]]:
    """The items in order, in lists of `at_once`."""
    left = iter(items)
    while some := list(islice(left, at_once)):
        yield some

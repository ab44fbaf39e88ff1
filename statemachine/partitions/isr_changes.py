"""Many ISR changes of one decision, without a value for each partition.

Most requests of brokers are of this kind. A record is made only where one is asked for.

"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload
from uuid import UUID

from statemachine.records.kafka_records import PartitionChange
from statemachine.vocabulary import Replicas


class IsrsOfTopic(NamedTuple):
    """Some partitions of one topic, each of them once, and the ISR that each is given."""

    topic_id: UUID
    numbers: list[int]
    isrs: list[Replicas]


class IsrChanges(Sequence[PartitionChange]):
    """The records that give partitions these ISRs, in this order, and say nothing else."""

    __slots__ = ("_count", "topics")

    def __init__(self, topics: Sequence[IsrsOfTopic]) -> None:
        self.topics = topics
        self._count = sum([len(each.numbers) for each in topics])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PartitionChange]:
        for topic_id, numbers, isrs in self.topics:
            for number, isr in zip(numbers, isrs, strict=True):
                yield PartitionChange(partition_id=number, topic_id=topic_id, isr=isr)

    @overload
    def __getitem__(self, at: int) -> PartitionChange: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[PartitionChange]: ...

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        """Compare the records."""
        return isinstance(other, tuple | IsrChanges) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))

"""Changes that are alike: what one partition comes to, others come to as well that were as it was.

A request speaks of thousands of partitions, and most of these differ in their numbers and epochs
alone. What becomes of one follows from what it was, from its topic and from what is asked; so it is
decided of the first one, and said again of the others. That holds within one command, in which no
broker and no configuration changes that counts for it. Nothing here decides.
"""

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from statemachine.draft import Draft
from statemachine.errors import Refusal
from statemachine.index import Topic
from statemachine.partition import Partition
from statemachine.records import PartitionChange
from statemachine.slices import CHANGED_US, REPEATED_US
from statemachine.vocabulary import MoveId

_EPOCHS: Final = frozenset({"leader_epoch", "partition_epoch"})

_looks: Final = attrgetter(
    *(
        name
        for name in Partition.__struct_fields__
        # Ids of directories are slow to hash: they are compared instead.
        if name not in _EPOCHS and name != "directories"
    )
)
"""What a partition is, but for its epochs and directories."""


class _Change(NamedTuple):
    before: Partition
    after: Partition
    record: PartitionChange | None
    """None where nothing changes."""


class Alike:
    """The changes of one command, each for all partitions that it is the same for."""

    __slots__ = ("_draft", "_known", "cost_us")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._known: dict[Hashable, _Change] = {}
        self.cost_us = CHANGED_US
        """What the last change has cost, for `Slices`."""

    def change(
        self,
        topic: Topic,
        number: int,
        before: Partition,
        asked: Hashable,
        asked_by: MoveId,
        decide: Callable[[], Partition | Refusal],
    ) -> Partition | Refusal:
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
        self, known: _Change, topic: Topic, number: int, before: Partition, asked_by: MoveId
    ) -> Partition:
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
